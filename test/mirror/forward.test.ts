import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { HttpAnswer } from '../support/http.ts';
import { eventually, hashesIn, type Scene, startRegistry, startScene, versionsIn } from './scene.ts';

const ALICE = 'alice-secret-4b1d';
const BOB = 'bob-secret-93fe';
const LARDER = 'larder-secret-7c20';

const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

/** A registry that knows Alice only, asked with the tokens of those who ask Larder. */
async function forwarding(config: Record<string, unknown> = {}) {
  const registry = await startRegistry();
  registry.requireToken(ALICE);
  const scene = await startScene({
    registry,
    providers: [{ platforms: ['linux_amd64', 'darwin_arm64'] }],
    config: { upstreams: { hosts: { [registry.hostname]: { credentials: { forward: true } } } }, ...config },
  });
  const base = `/providers/${registry.hostname}/acme/widget`;
  const routes = ['index.json', '1.0.0.json', 'terraform-provider-widget_1.0.0_linux_amd64.zip'];
  const ask = (route: string, token?: string) => scene.get(`${base}/${route}`, token === undefined ? {} : as(token));
  /** Resolves when the archive rests in the store, as Alice can see. */
  const stored = () =>
    eventually(
      async () => (await scene.get(`${base}/${routes[2]}`, { method: 'HEAD', ...as(ALICE) })).headers['last-modified'],
    ).toBeDefined();
  return { ...scene, base, routes, ask, stored };
}

function linkIn(scene: Pick<Scene, 'get'> & { base: string }, answer: HttpAnswer, platform = 'linux_amd64'): string {
  const { url } = answer.json().archives[platform];
  expect(url).toMatch(/^(\.\.\/){4}get\//);
  return new URL(url, `https://larder.test${scene.base}/1.0.0.json`).pathname;
}

describe('an upstream that is asked with the tokens of clients', () => {
  it('R63: what one client was let have, another is not, cold or warm, by any route', async () => {
    const scene = await forwarding();
    for (const route of scene.routes) {
      for (const token of [BOB, undefined]) expect((await scene.ask(route, token)).status, route).toBe(401);
    }

    expect(versionsIn(await scene.ask('index.json', ALICE))).toEqual(['1.0.0']);
    const list = await scene.ask('1.0.0.json', ALICE);
    expect(hashesIn(list).length).toBeGreaterThan(0);
    const archive = await scene.get(linkIn(scene, list));
    expect(archive.status).toBe(200);
    expect((await scene.ask(scene.routes[2] as string, ALICE)).body.equals(archive.body)).toBe(true);
    await scene.stored();

    for (const route of scene.routes) {
      for (const token of [BOB, undefined]) {
        expect((await scene.ask(route, token)).status, route).toBe(401);
        expect((await scene.get(`${scene.base}/${route}`, { method: 'HEAD', ...(token && as(token)) })).status).toBe(
          401,
        );
      }
    }
    expect(scene.registry.releases.requests.withCredentials()).toEqual([]);
  });

  it('with upstream gone, who was let in still is, and who was not still is not', async () => {
    const scene = await forwarding();
    const link = linkIn(scene, await scene.ask('1.0.0.json', ALICE));
    expect((await scene.get(link)).status).toBe(200);
    await scene.stored();
    await scene.registry.stop();
    expect((await scene.ask('1.0.0.json', ALICE)).status).toBe(200);
    expect((await scene.get(link)).status).toBe(200);
    for (const route of scene.routes) expect((await scene.ask(route, BOB)).status, route).toBeGreaterThanOrEqual(400);
  });

  it('a link fetches what is not stored yet with the token that it was made for, for one file only', async () => {
    const scene = await forwarding();
    const link = linkIn(scene, await scene.ask('1.0.0.json', ALICE));
    expect((await scene.get(link.replace('linux_amd64', 'darwin_arm64'))).status).toBe(403);
    expect((await scene.get(link, { method: 'HEAD' })).status).toBe(200);
    expect((await scene.get(link, as(BOB))).status).toBe(200);
    expect(scene.registry.requests.filter(/./).every(({ headers }) => headers.authorization !== `Bearer ${BOB}`)).toBe(
      true,
    );
  });

  it('where clients need a token of Larder, that of the upstream is as good, and Larder’s own never leaves it', async () => {
    const access = { anonymous: 'none', tokens: [{ name: 'ci', token: LARDER, roles: ['read'] }] };
    const scene = await forwarding({ access });
    expect((await scene.ask('index.json', ALICE)).status).toBe(200);
    expect((await scene.ask('index.json', LARDER)).status).toBe(401);
    expect((await scene.ask('index.json')).status).toBe(401);
    const sent = scene.registry.requests.withCredentials().map(({ headers }) => headers.authorization);
    expect(new Set(sent)).toEqual(new Set([`Bearer ${ALICE}`]));
    // Elsewhere the token of that upstream opens nothing.
    expect((await scene.get('/providers/registry.opentofu.org/acme/widget/index.json', as(ALICE))).status).toBe(401);
  });

  it('no token is in a log, a link or the data directory', async () => {
    const scene = await forwarding();
    const list = await scene.ask('1.0.0.json', ALICE);
    await scene.get(linkIn(scene, list));
    await scene.stored();
    await scene.ask('index.json', BOB);
    for (const secret of [ALICE, BOB]) {
      expect(list.body.toString()).not.toContain(secret);
      expect(JSON.stringify(scene.larder.log)).not.toContain(secret);
    }
    await scene.larder.close();
    const grep = promisify(execFile)('grep', ['-rlaE', `${ALICE}|${BOB}`, scene.larder.setup.dataDirectory]);
    // 1: nothing was found.
    await expect(grep).rejects.toMatchObject({ code: 1 });
  });
});
