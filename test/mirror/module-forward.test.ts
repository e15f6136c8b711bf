import { describe, expect, it } from 'vitest';
import { reply, status } from '../support/faults.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { linkIn, moduleVersionsIn, NET, publishNet, startModuleScene } from './module-scene.ts';
import { startRegistry } from './scene.ts';

const ALICE = 'alice-secret-1f6c';
const BOB = 'bob-secret-ac02';
const LARDER = 'larder-secret-88d1';

const as = (token?: string) => (token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } });

/** A registry that lets Alice and Bob in, and shows acme/net/aws to Alice alone. */
async function forwarding(config: Record<string, unknown> = {}) {
  const registry = await startRegistry();
  publishNet(registry);
  registry.on(
    ({ headers }) => ![`Bearer ${ALICE}`, `Bearer ${BOB}`].includes(headers.authorization ?? ''),
    status(401),
  );
  const isHidden = registry.on(
    ({ path, headers }) => path.includes('/acme/net/') && headers.authorization === `Bearer ${BOB}`,
    status(404),
  );
  const hosts = { [registry.hostname]: { credentials: { forward: true } } };
  const scene = await startModuleScene({ registry, config: { upstreams: { hosts }, ...config } });
  const routes = ['versions', 'download', 'package'] as const;
  const paths = {
    versions: `/registry/${registry.hostname}/v1/modules/acme/net/aws/versions`,
    download: scene.packagePath().replace(/[^/]+$/, 'download'),
    package: scene.packagePath(),
  };
  const ask = (route: (typeof routes)[number], token?: string, method = 'GET') =>
    scene.get(paths[route], { method, ...as(token) });
  return { ...scene, routes, paths, ask, isHidden };
}

function promised() {
  let resolve = () => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

describe('modules of an upstream that is asked with the tokens of clients', () => {
  it('R63: what one client was let have, another is not, cold or warm, by any route', async () => {
    const { registry, routes, paths, ask, get } = await forwarding();
    const expectHidden = async () => {
      for (const route of routes) {
        for (const method of ['GET', 'HEAD']) {
          if (method === 'HEAD' && route !== 'package') continue;
          expect((await ask(route, BOB, method)).status, `${method} ${route}`).toBe(404);
          expect((await ask(route, 'nobody', method)).status, `${method} ${route}`).toBe(401);
          expect((await ask(route, undefined, method)).status, `${method} ${route}`).toBe(401);
        }
      }
    };
    await expectHidden();

    expect(moduleVersionsIn(await ask('versions', ALICE))).toEqual(['1.0.0']);
    const link = linkIn(await ask('download', ALICE), paths.download);
    expect(link.path).toMatch(/^\/get\/.+\/acme-net-aws-1\.0\.0\.tar\.gz$/);
    const byLink = await get(link.path);
    expect(byLink.status).toBe(200);
    expect((await ask('package', ALICE)).body.equals(byLink.body)).toBe(true);
    expect(byLink.headers['cache-control']).toContain('private');

    await expectHidden();
    expect((await get(link.path.replaceAll('1.0.0', '1.0.1'))).status).toBe(403);
    expect(registry.releases.requests.withCredentials()).toEqual([]);
  });

  it('R63: a package that is stored for one client is not fetched again for another who may have it, too', async () => {
    const { registry, paths, ask, get, isHidden } = await forwarding();
    const first = await get(linkIn(await ask('download', ALICE), paths.download).path);
    isHidden.remove();
    expect((await ask('versions', BOB)).status).toBe(200);
    const second = await get(linkIn(await ask('download', BOB), paths.download).path);
    expect(second.body.equals(first.body)).toBe(true);
    expect(registry.releases.requests.count('GET', /\.tar\.gz/)).toBe(1);
  });

  it('a token that is not accepted any more while its package is made is no reason to refuse another', async () => {
    const { registry, ask, isHidden } = await forwarding();
    isHidden.remove();
    const gate = promised();
    const reached = promised();
    const expired = registry.releases.on(/\.tar\.gz/, async () => {
      reached.resolve();
      await gate.promise;
      return reply(403, 'expired');
    });
    const alice = ask('package', ALICE);
    await reached.promise;
    const bob = ask('package', BOB);
    const askedByBob = () =>
      registry.requests.count(
        ({ path, headers }) => path.endsWith('/download') && headers.authorization === `Bearer ${BOB}`,
      );
    await expect.poll(askedByBob).toBe(1);
    registry.on(({ headers }) => headers.authorization === `Bearer ${ALICE}`, status(401));
    expired.remove();
    gate.resolve();
    expect((await alice).status).toBe(401);
    expect((await bob).status).toBe(200);
  });

  it('with upstream gone, who was let in still is, and who was not still is not', async () => {
    const { registry, routes, paths, ask, get } = await forwarding();
    const { path } = linkIn(await ask('download', ALICE), paths.download);
    await ask('versions', ALICE);
    await registry.stop();
    for (const route of ['versions', 'package'] as const) expect((await ask(route, ALICE)).status, route).toBe(200);
    expect((await ask('download', ALICE)).status).toBe(204);
    expect((await get(path)).status).toBe(200);
    for (const route of routes) {
      for (const token of [BOB, undefined]) {
        const answer = await ask(route, token);
        expect([401, 404, 502], route).toContain(answer.status);
      }
    }
  });

  it('no token is written down, and Larder’s own is never sent upstream', async () => {
    const tokens = [{ name: 'ci', token: LARDER, roles: ['read'] }];
    const { registry, paths, ask, get, larder } = await forwarding({ access: { anonymous: 'none', tokens } });
    expect((await ask('versions', LARDER)).status).toBe(401);
    const { path } = linkIn(await ask('download', ALICE), paths.download);
    expect((await get(path)).status).toBe(200);
    const log = JSON.stringify(larder.log.map(({ message, fields }) => [message, fields, String(fields['error'])]));
    for (const secret of [ALICE, LARDER, path]) expect(log).not.toContain(secret);
    expect(registry.requests.count(({ headers }) => headers.authorization === `Bearer ${LARDER}`)).toBe(0);
  });

  it('R63: where upstream tells each of another package, nobody gets the one of somebody else', async () => {
    const registry = await startRegistry();
    const archives = new Map([
      [ALICE, moduleTarGz({ 'main.tf': '# of Alice' })],
      [BOB, moduleTarGz({ 'main.tf': '# of Bob' })],
    ]);
    for (const [token, bytes] of archives) registry.addModuleArchive(`/${token.slice(0, 3)}/net.tar.gz`, bytes);
    registry.addModule({
      ...NET,
      version: '1.0.0',
      location: ({ headers }) => `${registry.releases.url}/${headers.authorization?.slice(7, 10)}/net.tar.gz`,
    });
    const hosts = { [registry.hostname]: { credentials: { forward: true } } };
    const { get, packagePath } = await startModuleScene({ registry, config: { upstreams: { hosts } } });
    const download = packagePath().replace(/[^/]+$/, 'download');
    expect((await get(packagePath(), as(ALICE))).status).toBe(200);
    for (const path of [packagePath(), download]) {
      const answer = await get(path, as(BOB));
      expect(answer.status, path).toBe(502);
      expect(answer.text()).toContain('another package');
    }
    expect((await get(packagePath(), { method: 'HEAD', ...as(BOB) })).status).toBe(502);
    expect((await get(packagePath(), as(ALICE))).status).toBe(200);
  });

  it('R63: two who ask at once for what is not the same do not get the same', async () => {
    const registry = await startRegistry();
    for (const name of ['ali', 'bob']) {
      registry.addModuleArchive(`/${name}/net.tar.gz`, moduleTarGz({ 'main.tf': `# of ${name}` }));
    }
    registry.addModule({
      ...NET,
      version: '1.0.0',
      location: ({ headers }) => `${registry.releases.url}/${headers.authorization?.slice(7, 10)}/net.tar.gz`,
    });
    const hosts = { [registry.hostname]: { credentials: { forward: true } } };
    const { get, packagePath } = await startModuleScene({ registry, config: { upstreams: { hosts } } });
    const answers = await Promise.all([ALICE, BOB].map((token) => get(packagePath(), as(token))));
    expect(answers.map(({ status: code }) => code).sort()).toEqual([200, 502]);
  });
});
