import { describe, expect, it } from 'vitest';
import { redirect, status } from '../support/faults.ts';
import { startLarder } from '../support/larder.ts';
import type { Call } from '../support/origin.ts';
import { hashesIn, startClient, startRegistry, startScene, versionsIn, WIDGET } from './scene.ts';

const TOKEN = 'only-for-this-registry';
const ZIP = /\.zip/;
const SHASUMS = /SHA256SUMS/;

async function privateScene() {
  const registry = await startRegistry();
  registry.requireToken(TOKEN);
  const scene = await startScene({
    registry,
    providers: [{}],
    config: { upstreams: { hosts: { [registry.hostname]: { credentials: { token: TOKEN } } } } },
  });
  return { ...scene, registry };
}

describe('the token of an upstream', () => {
  it('R28: goes to its discovery and its API, and to no host of files', async () => {
    const { registry, index, version, archive, larder } = await privateScene();
    for (const answer of [
      await index(),
      await version('1.0.0'),
      await archive('1.0.0', 'linux_amd64', { method: 'HEAD' }),
      await archive(),
    ]) {
      expect(answer.status).toBe(200);
      expect(JSON.stringify(answer.headers)).not.toContain(TOKEN);
    }
    expect(registry.requests.withCredentials()).toHaveLength(registry.requests.all.length);
    expect(registry.releases.requests.all.length).toBeGreaterThan(0);
    expect(registry.releases.requests.withCredentials()).toEqual([]);
    expect(JSON.stringify(larder.log)).not.toContain(TOKEN);
  });

  it('R28: goes to the API wherever discovery puts it', async () => {
    const api = await startRegistry();
    await api.addProvider(WIDGET);
    api.requireToken(TOKEN);
    const { registry, index, archive } = await privateScene();
    registry.services = { 'providers.v1': `https://127.0.0.1:${api.port}/v1/providers/` };
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect((await archive()).status).toBe(200);
    expect(api.requests.withCredentials()).toHaveLength(api.requests.all.length);
    expect(api.releases.requests.withCredentials()).toEqual([]);
  });

  it('R28: does not go to files on the registry itself either, as with the clients', async () => {
    const { registry, archive } = await privateScene();
    await registry.addProvider({ ...WIDGET, relativeUrls: true });
    expect((await archive()).status).toBe(200);
    const files = registry.requests.filter('GET', /^\/files\//);
    expect(files.length).toBeGreaterThan(0);
    for (const { headers } of files) expect(headers).not.toHaveProperty('authorization');
  });

  it('R27: stays behind when a request is sent on to another port', async () => {
    const { registry, index } = await privateScene();
    const elsewhere = await startRegistry();
    await elsewhere.addProvider(WIDGET);
    registry.on(
      /versions$/,
      redirect((path) => `${elsewhere.url}${path}`),
    );
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect(elsewhere.requests.all).toHaveLength(1);
    expect(elsewhere.requests.withCredentials()).toEqual([]);
  });

  it('R27: a file host that refuses anything but its signature is satisfied', async () => {
    const { registry, archive, version } = await privateScene();
    registry.signLinks();
    const refuseTwoProofs = async (call: Call, next: (call: Call) => unknown) =>
      call.headers.authorization ? status(400)(call, next as never) : (next(call) as never);
    registry.releases.on(/./, refuseTwoProofs);
    expect(hashesIn(await version('1.0.0'))).toHaveLength(1);
    expect((await archive()).status).toBe(200);
    expect(registry.releases.requests.count(ZIP)).toBe(1);
    expect(registry.releases.requests.filter(SHASUMS)).toHaveLength(2);
  });

  it.each([
    ['the list', /versions$/],
    ['discovery', /terraform\.json/],
  ])('R27: is not sent in the clear when %s is sent on to plain http', async (_what, matcher) => {
    const { registry, index } = await privateScene();
    registry.on(matcher, redirect('http://localhost:9/v1/providers/acme/widget/versions'));
    const answer = await index();
    expect(answer.status).toBe(502);
    expect(answer.json().errors[0]).toContain('http');
  });

  it('R29: belongs to one host and port exactly', async () => {
    const [first, second] = [await startRegistry(), await startRegistry()];
    for (const registry of [first, second]) await registry.addProvider(WIDGET);
    const { larder } = await startScene({
      registry: first,
      config: {
        upstreams: {
          hosts: {
            [first.hostname]: { credentials: { token: 'token-of-the-first' } },
            [second.hostname]: { ca: 'ca.pem', privateNetwork: true, credentials: { token: 'token-of-the-second' } },
            [`127.0.0.1:${first.port}`]: { ca: 'ca.pem', privateNetwork: true },
          },
        },
      },
    });
    const client = startClient(larder);
    for (const host of [first.hostname, second.hostname, `127.0.0.1:${first.port}`]) {
      expect(versionsIn(await client.get(`${larder.url}/providers/${host}/acme/widget/index.json`))).toEqual(['1.0.0']);
    }
    const sent = ({ requests }: typeof first) =>
      requests.all.map(({ headers }) => `${headers.host} ${headers.authorization}`);
    expect(new Set(sent(first))).toEqual(
      new Set([`${first.hostname} Bearer token-of-the-first`, `127.0.0.1:${first.port} undefined`]),
    );
    expect(new Set(sent(second))).toEqual(new Set([`${second.hostname} Bearer token-of-the-second`]));
  });

  it('R29: of a client is not passed on', async () => {
    const { registry, get } = await startScene();
    await get(`/providers/${registry.hostname}/acme/widget/1.0.0.json`, {
      headers: { authorization: 'Bearer of-the-client', cookie: 'a=b' },
    });
    expect(registry.requests.all.length).toBeGreaterThan(0);
    expect(registry.requests.withCredentials()).toEqual([]);
    expect(registry.releases.requests.withCredentials()).toEqual([]);
  });

  it('R89: missing or wrong, the registry is blamed, not the client', async () => {
    const registry = await startRegistry();
    await registry.addProvider(WIDGET);
    registry.requireToken(TOKEN);
    for (const credentials of [undefined, { token: 'wrong' }]) {
      const larder = await startLarder({
        registries: [registry],
        ...(credentials && { config: { upstreams: { hosts: { [registry.hostname]: { credentials } } } } }),
      });
      const answer = await startClient(larder).get(
        `${larder.url}/providers/${registry.hostname}/acme/widget/index.json`,
      );
      expect(answer.status).toBe(502);
      expect(answer.json()).toMatchObject({ code: 'UPSTREAM_REFUSED', hint: expect.stringContaining('credentials') });
      expect(answer.text()).not.toContain('wrong');
      expect(answer.headers).not.toHaveProperty('www-authenticate');
    }
  });
});
