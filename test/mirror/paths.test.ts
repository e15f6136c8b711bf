import { describe, expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { EgressProxy } from '../support/egress-proxy.ts';
import { json } from '../support/faults.ts';
import { rawRequest } from '../support/http.ts';
import { startLarder } from '../support/larder.ts';
import {
  archiveName,
  hashesIn,
  packageOf,
  startClient,
  startRegistry,
  startScene,
  versionsIn,
  WIDGET,
} from './scene.ts';

const DISCOVERY = /terraform\.json/;

/** Larder with a way out to registries under public names, each on its own server. */
async function larderBehindProxy(names: readonly string[]) {
  const registries = await Promise.all(names.map((name) => startRegistry({ hostNames: [name] })));
  const ports = registries.map((registry) => registry.port);
  const proxy = await EgressProxy.start(Object.fromEntries(names.map((name, at) => [`${name}:443`, ports[at] ?? 0])));
  afterTest(() => proxy.stop());
  const larder = await startLarder({
    config: {
      upstreams: {
        default: names[0],
        // Not on a private network, as far as can be told: only the proxy knows that these names are on loopback.
        hosts: {
          'registry.opentofu.org': null,
          'registry.terraform.io': null,
          ...Object.fromEntries(names.map((name) => [name, { ca: 'ca.pem' }])),
        },
      },
    },
    env: { HTTPS_PROXY: proxy.url },
  });
  const client = startClient(larder);
  return { registries, proxy, larder, get: (path: string) => client.get(`${larder.url}/providers/${path}`) };
}

describe('addresses', () => {
  it('R30: a host with a port is asked on that port, whether its colon is encoded or not', async () => {
    const { registry, get } = await startScene();
    const spellings = ['localhost:PORT', 'localhost%3APORT', 'localhost%3aPORT', 'LOCALHOST:PORT'];
    for (const spelling of spellings) {
      const host = spelling.replace('PORT', String(registry.port));
      expect(versionsIn(await get(`/providers/${host}/acme/widget/index.json`))).toEqual(['1.0.0']);
      expect((await get(`/providers/${host}/acme/widget/${archiveName('1.0.0', 'linux_amd64')}`)).status).toBe(200);
    }
    expect(registry.requests.count(/versions$/)).toBe(1);
    expect(registry.releases.requests.count('GET', /\.zip/)).toBe(1);
  });

  it('R30: a number with a port is a host of its own, apart from the same host by name', async () => {
    const registry = await startRegistry();
    await registry.addProvider(WIDGET);
    const number = `127.0.0.1:${registry.port}`;
    const { get, index, larder } = await startScene({
      registry,
      config: { upstreams: { hosts: { [number]: { ca: 'ca.pem', privateNetwork: true } } } },
    });
    expect(versionsIn(await get(`/providers/${number}/acme/widget/index.json`))).toEqual(['1.0.0']);
    expect(registry.requests.all.map(({ headers }) => headers.host)).toEqual([number, number]);
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect(registry.requests.count(/versions$/)).toBe(2);
    expect((await get(`/providers/127.0.0.1/acme/widget/index.json`)).json().code).toBe('HOST_NOT_ALLOWED');
    expect(larder.log.filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('R57: the same provider of two registries is two, with bytes and hashes of their own', async () => {
    const names = ['registry.opentofu.org', 'registry.terraform.io'] as const;
    const { registries, get } = await larderBehindProxy(names);
    const [tofu, terraform] = registries;
    const random = { namespace: 'hashicorp', type: 'random', version: '3.6.0', relativeUrls: true };
    const published = [
      await tofu?.addProvider(random),
      await terraform?.addProvider({ ...random, directoryEntries: true }),
    ];
    for (const [at, name] of names.entries()) {
      const package_ = published[at] && packageOf(published[at]);
      const base = `${name}/hashicorp/random`;
      expect(hashesIn(await get(`${base}/3.6.0.json`))).toEqual([package_?.zh]);
      expect((await get(`${base}/${archiveName('3.6.0', 'linux_amd64', 'random')}`)).body).toHaveLength(
        package_?.size ?? 0,
      );
    }
    expect(new Set(published.map((version) => version && packageOf(version).sha256)).size).toBe(2);
  });

  it('R96: an international name is one host, however it is written, and punycode on the wire', async () => {
    const { registries, proxy, get } = await larderBehindProxy(['xn--bcher-kva.example.test']);
    await registries[0]?.addProvider({ ...WIDGET, relativeUrls: true });
    for (const host of [
      'xn--bcher-kva.example.test',
      'XN--BCHER-KVA.example.test',
      encodeURIComponent('bücher.example.test'),
      encodeURIComponent('Bu\u0308cher.example.test'),
    ]) {
      expect(versionsIn(await get(`${host}/acme/widget/index.json`))).toEqual(['1.0.0']);
    }
    expect(registries[0]?.requests.count(/versions$/)).toBe(1);
    expect(new Set(proxy.tunnels)).toEqual(new Set(['xn--bcher-kva.example.test:443']));
  });

  it('R96: ß is not ss', async () => {
    const { get } = await larderBehindProxy(['xn--strae-oqa.example.test']);
    expect((await get(`${encodeURIComponent('straße.example.test')}/acme/widget/index.json`)).json().code).not.toBe(
      'HOST_NOT_ALLOWED',
    );
    expect((await get('strasse.example.test/acme/widget/index.json')).json().code).toBe('HOST_NOT_ALLOWED');
  });

  it('R33: a registry on the internet leads Larder neither to the machine itself nor to a metadata service', async () => {
    const { registries, proxy, get } = await larderBehindProxy(['registry.example.test']);
    const [registry] = registries;
    await registry?.addProvider({ ...WIDGET, relativeUrls: true });
    await get('registry.example.test/acme/widget/1.0.0.json');
    for (const url of [
      'http://169.254.169.254/latest/meta-data',
      'https://169.254.169.254/x.zip',
      'https://127.0.0.1:9/x.zip',
      'https://localhost/x.zip',
      'https://10.0.0.1/x.zip',
      'https://[::1]/x.zip',
      'http://files.example.test/x.zip',
    ]) {
      registry?.heal();
      registry?.on(/\.zip/, () => ({ status: 302, headers: { location: url }, body: [], length: 0 }));
      const answer = await get(`registry.example.test/acme/widget/${archiveName('1.0.0', 'linux_amd64')}`);
      expect(answer.status, url).toBe(502);
      expect(answer.json().code, url).toBe('UPSTREAM_INVALID');
    }
    expect(new Set(proxy.tunnels)).toEqual(new Set(['registry.example.test:443']));
  });

  it.each([
    ['/api/reg/v1/providers/', '/api/reg'],
    ['/api/reg/v1/providers', '/api/reg'],
    ['../x/v1/providers/', '/x'],
    ['v1/providers/?query#fragment', '/.well-known'],
  ])('R13: discovery that says %s is followed below the same host', async (said, prefix) => {
    const { registry, index } = await startScene();
    registry.services = { 'providers.v1': said };
    registry.on(
      ({ path }) => path.startsWith(`${prefix}/v1/providers/`),
      (call, next) => next({ ...call, path: call.path.slice(prefix.length) }),
    );
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect(registry.requests.all.at(-1)?.path).toBe(`${prefix}/v1/providers/acme/widget/versions`);
  });

  it('R13: an API on another host and port is used as it is', async () => {
    const api = await startRegistry();
    await api.addProvider(WIDGET);
    const { registry, index, archive } = await startScene({ providers: [] });
    registry.services = { 'providers.v1': `https://127.0.0.1:${api.port}/v1/providers/` };
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect((await archive()).status).toBe(200);
    expect(registry.requests.all.map(({ path }) => path)).toEqual(['/.well-known/terraform.json']);
    expect(api.requests.count(DISCOVERY)).toBe(0);
  });

  it('R75: a host that is not configured is a 404 with a hint, and nobody is asked about it', async () => {
    const { registry, get } = await startScene();
    const answer = await get('/providers/registry.example.com/acme/widget/index.json');
    expect(answer.status).toBe(404);
    expect(answer.json()).toMatchObject({ code: 'HOST_NOT_ALLOWED', hint: expect.stringContaining(registry.hostname) });
    const word = await get('/providers/providers/hashicorp/azurerm/index.json');
    expect(word.status).toBe(404);
    expect(word.headers['content-type']).toBe('application/json');
    expect(registry.requests.all).toEqual([]);
  });

  it('R75: two segments are a 404 with a hint at the right path', async () => {
    const { get } = await startScene();
    const answer = await get('/providers/hashicorp/aws/index.json');
    expect(answer).toMatchObject({ status: 404, headers: { 'content-type': 'application/json' } });
    expect(answer.json().hint).toContain('hostname');
  });

  it('R19, L3: a base URL without its slash, or with a space, is a 404 in JSON that names the right one', async () => {
    const { registry, larder, get } = await startScene();
    for (const path of [
      '/providers',
      `/${registry.hostname}/acme/widget/index.json`,
      `/providers/%20${registry.hostname}/acme/widget/index.json`,
    ]) {
      const answer = await get(path, { headers: { accept: 'text/html' } });
      expect(answer.status, path).toBe(404);
      expect(answer.headers['content-type'], path).toBe('application/json');
      expect(answer.json().hint, path).toMatch(path.includes('%20') ? /space/ : new RegExp(`${larder.url}/providers/`));
    }
    expect(registry.requests.all).toEqual([]);
  });

  it('one provider is one, whether its path is percent-encoded or not', async () => {
    const { registry, get } = await startScene({ providers: [{ type: 'my-widget' }] });
    const base = `/providers/${registry.hostname}/acme`;
    const plain = await get(`${base}/my-widget/index.json`);
    for (const spelling of ['my%2Dwidget', '%6dy-widget', 'my%2dwidget']) {
      expect((await get(`${base}/${spelling}/index.json`)).body.equals(plain.body)).toBe(true);
    }
    expect(registry.requests.count(/versions$/)).toBe(1);
  });

  it('a path that could mean another place is refused before anybody is asked', async () => {
    const { registry, larder } = await startScene();
    for (const path of [
      'acme/../widget/index.json',
      'acme//widget/index.json',
      'acme/%2e%2e/index.json',
      'acme/wid%2Fget/index.json',
      'acme/%5c/index.json',
      'acme/widget/%00.json',
    ]) {
      const { status, text } = await rawRequest(
        larder.port,
        `GET /providers/${registry.hostname}/${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
        { ca: larder.ca },
      );
      expect(status, path).toBe(400);
      expect(text, path).toContain('application/json');
    }
    expect(registry.requests.all).toEqual([]);
  });

  it('include and exclude of an upstream decide before it is asked', async () => {
    const registry = await startRegistry();
    const { index, version } = await startScene({
      registry,
      providers: [{}, { type: 'legacy' }, { namespace: 'other' }],
      config: { upstreams: { hosts: { [registry.hostname]: { include: ['acme/*'], exclude: ['*/legacy'] } } } },
    });
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    for (const provider of ['acme/legacy', 'other/widget']) {
      const answer = await index(provider);
      expect(answer.status).toBe(404);
      expect(answer.json().code).toBe('ADDRESS_EXCLUDED');
      // Anything but an empty list is fatal to clients that found the version elsewhere.
      const packages = await version('1.0.0', provider);
      expect(packages.json()).toEqual({ archives: {} });
    }
    expect(registry.requests.count(/versions$/)).toBe(1);
  });

  it('discovery that is of no use to providers is told', async () => {
    const { registry, index } = await startScene();
    registry.on(DISCOVERY, () => json({}));
    const answer = await index();
    expect(answer.status).toBe(502);
    expect(answer.json().errors[0]).toContain('providers.v1');
  });
});
