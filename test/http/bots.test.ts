import { afterEach, describe, expect, it } from 'vitest';
import { type Scene, startScene, WIDGET } from '../mirror/scene.ts';
import { json } from '../support/faults.ts';
import { HttpClient } from '../support/http.ts';

/*
 * The requests that update bots make of a registry, against Larder in its place. What they do with URLs is what matters:
 * one joins strings, another one takes https URLs and paths with a slash at their beginning, and nothing else.
 */

const DETAILS = {
  'v1/providers/acme/widget': {
    id: 'acme/widget/1.1.0',
    version: '1.1.0',
    versions: ['1.0.0', '1.1.0'],
    source: 'https://github.com/acme/widget',
  },
  'v1/providers/acme/widget/1.1.0': {
    id: 'acme/widget/1.1.0',
    version: '1.1.0',
    source: 'https://github.com/acme/widget',
  },
  'v1/modules/acme/network/aws': {
    id: 'acme/network/aws/2.0.0',
    versions: ['1.0.0', '2.0.0'],
    source: 'https://github.com/acme/network',
  },
  'v1/modules/acme/network/aws/2.0.0': { id: 'acme/network/aws/2.0.0', source: 'https://github.com/acme/network' },
  'v1/modules/search?q=network&limit=5': { meta: { limit: 5 }, modules: [{ id: 'acme/network/aws/2.0.0' }] },
  'v2/providers/acme/widget?include=provider-versions': {
    data: { id: '7' },
    included: [{ type: 'provider-versions' }],
  },
  'v2/provider-docs?filter%5Bprovider-version%5D=7&page%5Bsize%5D=1': { data: [{ id: '9' }] },
  'v2/provider-docs/9': { data: { id: '9', attributes: { content: '# widget' } } },
} as const;

let scene: Scene;
let client: HttpClient;
afterEach(() => client?.close());

/** A registry that has more than the protocols. Its discovery is relative, as that of public registries is. */
async function begin(): Promise<string> {
  scene = await startScene({ providers: [WIDGET, { ...WIDGET, version: '1.1.0' }] });
  client = new HttpClient({ ca: scene.larder.ca });
  scene.registry.services = { 'modules.v1': '/v1/modules/', 'providers.v1': '/v1/providers/' };
  for (const [path, document] of Object.entries(DETAILS)) {
    scene.registry.on(
      ({ path: asked }) => asked === `/${path}`,
      () => json(document),
    );
  }
  scene.registry.on(/^GET \/v1\/modules\/acme\/network\/aws\/versions$/, () =>
    json({ modules: [{ versions: [{ version: '1.0.0' }, { version: '2.0.0' }] }] }),
  );
  return `${scene.larder.url}/registry/${scene.registry.hostname}`;
}

async function fetched(url: string) {
  const answer = await client.get(url, { headers: { accept: 'application/json' } });
  expect(answer.status, `${url}: ${answer.text()}`).toBe(200);
  return answer.json();
}

/** A bot that joins strings, unless what it found is a URL. */
const joined = (registryUrl: string, service: string, path: string) => {
  const found = `${service.replace(/\/$/, '')}/${path}`;
  return /^https?:\/\//.test(found) ? found : `${registryUrl.replace(/\/$/, '')}/${found.replace(/^\//, '')}`;
};

describe('a bot that is given a registry’s address here', () => {
  it('finds versions and details of providers and modules', async () => {
    const registryUrl = await begin();
    const services = await fetched(joined(registryUrl, '.well-known', 'terraform.json'));
    const ask = (service: string, path: string) => fetched(joined(registryUrl, services[service], path));

    const { versions } = await ask('providers.v1', 'acme/widget/versions');
    expect(versions.map(({ version }: { version: string }) => version)).toEqual(['1.1.0', '1.0.0']);
    expect(await ask('providers.v1', 'acme/widget')).toEqual(DETAILS['v1/providers/acme/widget']);
    const build = await ask('providers.v1', 'acme/widget/1.1.0/download/linux/amd64');
    expect(build).toMatchObject({ os: 'linux', arch: 'amd64', shasum: expect.stringMatching(/^[0-9a-f]{64}$/) });

    const { modules } = await ask('modules.v1', 'acme/network/aws/versions');
    expect(modules[0].versions).toHaveLength(2);
    expect(await ask('modules.v1', 'acme/network/aws')).toEqual(DETAILS['v1/modules/acme/network/aws']);
  });
});

describe('a bot that asks this host as a registry', () => {
  it('finds the default registry’s versions and details', async () => {
    await begin();
    const { url } = scene.larder;
    const services = await fetched(`${url}/.well-known/terraform.json`);
    const ask = (service: string, path: string) => {
      const value: string = services[service];
      expect(value.startsWith('https://') || value.startsWith('/')).toBe(true);
      return fetched(new URL(path, new URL(value, url)).href);
    };
    expect((await ask('providers.v1', 'acme/widget/versions')).versions).toHaveLength(2);
    expect(await ask('providers.v1', 'acme/widget/1.1.0')).toEqual(DETAILS['v1/providers/acme/widget/1.1.0']);
    expect((await ask('modules.v1', 'acme/network/aws/versions')).modules[0].versions).toHaveLength(2);
    expect(await ask('modules.v1', 'acme/network/aws/2.0.0')).toEqual(DETAILS['v1/modules/acme/network/aws/2.0.0']);
  });
});

it('search, documentation and the second version of the API are upstream’s own answers', async () => {
  const registryUrl = await begin();
  for (const [path, document] of Object.entries(DETAILS)) {
    expect(await fetched(`${registryUrl}/${path}`)).toEqual(document);
  }
  const asked = scene.registry.requests.filter(/^GET \/v[12]\//).map(({ path }) => path);
  expect(asked).toEqual(Object.keys(DETAILS).map((path) => `/${path}`));
});

it('what the registry does not have is not there for a bot either', async () => {
  const registryUrl = await begin();
  for (const path of ['v1/providers/acme/nothing', 'v2/providers/acme/nothing', 'v1/modules/acme/nothing/aws']) {
    expect((await client.get(`${registryUrl}/${path}`)).status).toBe(404);
  }
});

it('an outage of the registry is told as one', async () => {
  const registryUrl = await begin();
  await fetched(`${registryUrl}/v2/provider-docs/9`);
  await scene.registry.stop();
  const answer = await client.get(`${registryUrl}/v2/provider-docs/9`);
  expect([answer.status, answer.json().code]).toEqual([502, 'UPSTREAM_UNREACHABLE']);
});
