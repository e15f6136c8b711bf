import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Authenticator } from '../../src/http/authenticate.ts';
import { DriftReports } from '../../src/mirror/drift.ts';
import { Inventory } from '../../src/mirror/inventory.ts';
import type { ModulePurge } from '../../src/mirror/module-purge.ts';
import { Purge } from '../../src/mirror/purge.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { sha256Hex } from '../contract/archive-store.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
import { type Scene, type SceneOptions, startScene } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { archive, start, WIDGET } from './harness.ts';

const OPS = 'token-of-the-operators';
const NARROW = 'token-of-the-platform-team';
const CI = 'token-of-the-builds';
const TOKENS = [
  { name: 'ops', token: OPS, roles: ['admin'] },
  { name: 'narrow', token: NARROW, roles: ['admin'], addresses: ['other.example.com/*/*'] },
  { name: 'ci', token: CI, roles: ['read'] },
];

const NO_MODULES = { lastUse: async () => new Date(0), modules: async function* () {}, list: async () => [] };
/** Where nothing is purged. */
const NO_PURGES = { purge: undefined as unknown as Purge, modulePurge: undefined as unknown as ModulePurge };

async function begin(access: Record<string, unknown> = {}, options: SceneOptions = {}) {
  const scene = await startScene({
    config: { access: { tokens: TOKENS, ...access }, log: { audit: 'data/audit.jsonl' } },
    ...options,
  });
  const { get, larder } = scene;
  const inventory = (query = '', token: string | undefined = OPS) =>
    get(`/admin/inventory${query}`, token === '' ? {} : { headers: bearer(token) });
  const purge = (body: unknown, { token = OPS, type = 'application/json' } = {}) =>
    get('/admin/purge', {
      method: 'POST',
      headers: { ...(token === '' ? {} : bearer(token)), ...(type === '' ? {} : { 'content-type': type }) },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  const audit = async () => {
    await larder.app.reopenAuditLog();
    const text = await readFile(join(larder.setup.dataDirectory, 'audit.jsonl'), 'utf8');
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  };
  return { ...scene, inventory, purge, audit };
}

function bearer(token: string) {
  return { authorization: `Bearer ${token}` };
}

async function storeWidget({ archive: fetchArchive, stored }: Scene) {
  const { body } = await fetchArchive('1.0.0');
  await stored();
  return body;
}

describe('the inventory', () => {
  it('tells every stored archive with its size, hashes and age', async () => {
    const scene = await begin();
    const bytes = await storeWidget(scene);
    const answer = await scene.inventory();
    expect(answer.status, answer.text()).toBe(200);
    expect(answer.headers).toMatchObject({ 'content-type': 'application/json', 'cache-control': 'no-store' });
    const { archives, drift } = answer.json();
    expect(archives).toMatchObject([
      {
        address: `${scene.registry.hostname}/acme/widget`,
        version: '1.0.0',
        platform: 'linux_amd64',
        size: bytes.length,
        sha256: sha256Hex(bytes),
      },
    ]);
    expect(Math.abs(Date.now() - Date.parse(archives[0].storedAt))).toBeLessThan(60_000);
    expect(drift).toEqual([]);
  });

  it('tells what is meant by address and version', async () => {
    const scene = await begin();
    await storeWidget(scene);
    const count = async (query: string) => (await scene.inventory(query)).json().archives.length;
    expect(await count(`?address=${scene.registry.hostname}/acme/*&version=1.0.0`)).toBe(1);
    expect(await count('?address=*/*/*')).toBe(1);
    expect(await count('?address=*/*/gadget')).toBe(0);
    expect(await count('?version=1.0.1')).toBe(0);
  });

  it.each([
    ['?address=acme/widget', 'address:'],
    ['?address=a_b/acme/widget', 'address:'],
    ['?version=latest', 'version:'],
    ['?version=1.0.0&version=2.0.0', 'version:'],
    ['?vresion=1.0.0', 'vresion'],
  ])('%s is refused by name', async (query, problem) => {
    const { inventory } = await begin();
    const answer = await inventory(query);
    expect(answer.status).toBe(400);
    expect(answer.json().errors[0]).toContain(problem);
  });

  it('is written piece by piece', async () => {
    const providers = 400;
    let listed = 0;
    const stored = (index: number) => ({
      archive: archive('linux_amd64', `1.0.${index}`),
      size: 1,
      sha256: sha256Hex(Buffer.from(String(index))),
      h1: undefined,
      storedAt: new Date(0),
    });
    const inventory = new Inventory({
      drift: { all: [] },
      modules: NO_MODULES,
      store: {
        lastUse: async () => new Date(0),
        providers: async function* () {
          for (let index = 0; index < providers; index += 1) yield WIDGET;
        },
        list: async () => {
          listed += 1;
          return [stored(listed)];
        },
      },
    });
    const { ask } = await start({}, { admin: { inventory, ...NO_PURGES }, ...operators() });
    const answer = await ask('GET /admin/inventory', `Authorization: Bearer ${OPS}`);
    expect(answer.headers).toMatchObject({ 'transfer-encoding': 'chunked' });
    // Several chunks of the size of a piece.
    expect(answer.body.toString().match(/\r\n[0-9a-f]+\r\n/g)?.length).toBeGreaterThan(3);
    expect(answer.body.toString().match(/"version":"1\.0\.\d+"/g)).toHaveLength(providers);
  });

  it('breaks off when the disk fails on the way, and says so in words before', async () => {
    const failing = (after: number) =>
      new Inventory({
        drift: { all: [] },
        modules: NO_MODULES,
        store: {
          lastUse: async () => new Date(0),
          providers: async function* () {
            for (let index = 0; index < after; index += 1) yield WIDGET;
            throw Object.assign(new Error('the disk'), { code: 'EIO' });
          },
          list: async () => [
            {
              archive: archive('linux_amd64'),
              size: 1,
              sha256: sha256Hex(Buffer.from('')),
              h1: undefined,
              storedAt: new Date(0),
            },
          ],
        },
      });
    const from = async (inventory: Inventory) => {
      const { ask } = await start({}, { admin: { inventory, ...NO_PURGES }, ...operators() });
      return ask('GET /admin/inventory', `Authorization: Bearer ${OPS}`);
    };
    expect((await from(failing(0))).json()).toMatchObject({ code: 'INTERNAL' });
    const broken = await from(failing(500));
    expect(broken.statusLine).toContain('200');
    // The last chunk, which would say that all is well, is missing.
    expect(broken.body.toString().endsWith('0\r\n\r\n')).toBe(false);
  });
});

describe('modules', () => {
  const address = 'registry.example.com/acme/net/aws';
  const content = Buffer.from('the package');
  const sha256 = sha256Hex(content);

  async function beginWithModules() {
    const scene = await begin({}, { providers: [] });
    const { dataDirectory: directory } = scene.larder.setup;
    const store = await DirectoryModuleStore.open({ directory, logger: recordingLogger() });
    for (const version of ['1.0.0', '2.0.0'])
      await putPackage(store, releaseOf(version, address), content, { subdir: 'x' });
    return { ...scene, store };
  }

  it('are in the inventory, in a list of their own', async () => {
    const { inventory } = await beginWithModules();
    const all = await inventory();
    expect(all.status, all.text()).toBe(200);
    const { archives, modules, drift } = all.json();
    expect({ archives, drift }).toEqual({ archives: [], drift: [] });
    expect(modules).toEqual(
      ['2.0.0', '1.0.0'].map((version) => ({
        address,
        version,
        size: content.length,
        sha256,
        subdir: 'x',
        source: 'git::x',
        fingerprint: 'a',
        storedAt: expect.stringMatching(/^20.*Z$/),
        lastUse: expect.stringMatching(/^20.*Z$/),
      })),
    );
    const count = async (query: string) => (await inventory(query)).json().modules.length;
    expect(await count(`?address=${address}&version=1.0.0`)).toBe(1);
    expect(await count('?address=*/acme/*/aws')).toBe(2);
    expect(await count('?address=*/*/*')).toBe(0);
    expect(await count('?address=*/*/*/google')).toBe(0);
  });

  it('are purged by addresses of four parts, which is written down', async () => {
    const { purge, inventory, store, audit } = await beginWithModules();
    const removed = { address, version: '1.0.0', package: { size: content.length, sha256 }, record: true, settled: [] };
    expect((await purge({ address, version: '1.0.0', dryRun: true })).json()).toEqual({
      dryRun: true,
      purged: [removed],
    });
    expect((await purge({ address: '*/*/*' })).json()).toEqual({ dryRun: false, purged: [] });
    expect((await purge({ address, version: '1.0.0' })).json()).toEqual({ dryRun: false, purged: [removed] });
    expect((await inventory()).json().modules).toMatchObject([{ version: '2.0.0' }]);
    expect(await store.recall(releaseOf('1.0.0', address))).toBeUndefined();
    await store.discard(releaseOf('2.0.0', address));
    const { purged } = (await purge({ address: '*/*/*/*' })).json();
    expect(purged).toEqual([{ address, version: '2.0.0', record: true, settled: [] }]);
    const acts = (await audit()).filter(({ event }) => event === 'purged');
    expect(acts).toMatchObject([{ client: 'ops', ...removed }, { version: '2.0.0' }]);
  });

  it('have no platforms, and are nothing to a token for other addresses', async () => {
    const { purge, inventory } = await beginWithModules();
    const answer = await purge({ address, platform: 'linux_amd64' });
    expect(answer.status).toBe(400);
    expect(answer.json().errors[0]).toBe('platform: modules have no platforms');
    expect((await purge({ address: '*/*/*/*' }, { token: NARROW })).json()).toMatchObject({ purged: [] });
    expect((await inventory('', NARROW)).json()).toEqual({ archives: [], modules: [], drift: [] });
    expect((await inventory()).json().modules).toHaveLength(2);
  });
});

function operators() {
  const digest = Buffer.from(sha256Hex(Buffer.from(OPS)), 'hex');
  const tokens = async () => [{ name: 'ops', digest, roles: ['admin'] as const, addresses: undefined }];
  return { authenticator: new Authenticator({ anonymous: 'read', tokens }) };
}

describe('a purge', () => {
  it('removes what is meant, says what that was, and is written down with who did it', async () => {
    const scene = await begin();
    const bytes = await storeWidget(scene);
    const address = `${scene.registry.hostname}/acme/widget`;
    const planned = await scene.purge({ address, dryRun: true });
    expect((await scene.inventory()).json().archives).toHaveLength(1);
    const answer = await scene.purge({ address, version: '1.0.0' });
    const removed = { platform: 'linux_amd64', size: bytes.length, sha256: sha256Hex(bytes) };
    const purged = [{ address, version: '1.0.0', checksums: true, archives: [removed], settled: [], unsettled: [] }];
    expect(answer.json()).toEqual({ dryRun: false, purged });
    expect(planned.json()).toEqual({ dryRun: true, purged });
    expect((await scene.inventory()).json().archives).toEqual([]);
    expect((await scene.purge({ address })).json()).toEqual({ dryRun: false, purged: [] });

    const acts = (await scene.audit()).filter(({ event }) => event === 'purged');
    expect(acts).toMatchObject([{ client: 'ops', address, version: '1.0.0', archives: [removed], checksums: true }]);
    expect((await scene.archive('1.0.0')).body.equals(bytes)).toBe(true);
  });

  it.each([
    [{}, 'address: '],
    [{ address: 7 }, 'address: '],
    [{ address: 'acme/widget' }, 'address: '],
    [{ address: '*/*/*', version: '1.0' }, 'version: '],
    [{ address: '*/*/*', platform: 'linux' }, 'platform: '],
    [{ address: '*/*/*', dryRun: 'yes' }, 'dryRun: '],
    [{ address: '*/*/*', dryrun: true }, 'dryrun'],
    [[], 'expected object'],
    [null, 'expected object'],
  ])('of %j is refused by name, and removes nothing', async (body, problem) => {
    const scene = await begin();
    const answer = await scene.purge(body);
    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({ code: 'INVALID_REQUEST', errors: [expect.stringContaining(problem)] });
  });

  it('takes JSON alone, and no more than 1 MiB of it', async () => {
    const scene = await begin();
    const body = { address: '*/*/*' };
    for (const type of ['', 'text/plain', 'application/x-www-form-urlencoded']) {
      expect((await scene.purge(body, { type })).status, type).toBe(415);
    }
    expect((await scene.purge(body, { type: 'application/json; charset=utf-8' })).status).toBe(200);
    const broken = await scene.purge('{"address": "secret');
    expect(broken.status).toBe(400);
    expect(broken.json()).toMatchObject({ code: 'INVALID_JSON' });
    expect(broken.text()).not.toContain('secret');
    const long = await scene.purge(JSON.stringify({ ...body, version: '1'.repeat(1024 * 1024) }));
    expect(long.status).toBe(413);
    expect((await scene.get('/admin/purge', { headers: bearer(OPS) })).status).toBe(405);
  });

  it('removes nothing outside the addresses of the token, also where everybody may read', async () => {
    const scene = await begin();
    await storeWidget(scene);
    expect((await scene.inventory('', NARROW)).json()).toEqual({ archives: [], modules: [], drift: [] });
    expect((await scene.purge({ address: '*/*/*' }, { token: NARROW })).json()).toMatchObject({ purged: [] });
    const address = `${scene.registry.hostname}/acme/widget`;
    expect((await scene.purge({ address }, { token: NARROW })).json()).toMatchObject({ purged: [] });
    expect((await scene.inventory()).json().archives).toHaveLength(1);
  });

  it('goes on to its end when the client goes away', async () => {
    const { dataDirectory: directory } = await larderSetup();
    const hasher = new PackageHasher();
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const store = await DirectoryArchiveStore.open({ directory, hasher, logger: log });
    afterTest(async () => {
      await store.close();
      await hasher.close();
    });
    const begun = gate();
    const clientLeft = gate();
    const shasums = Buffer.from(`${'a'.repeat(64)}  x.zip\n`);
    const versions = ['1.0.0', '1.1.0'].map((version) => archive('linux_amd64', version).version);
    for (const version of versions) await store.putRelease(WIDGET, version, { shasums, signature: undefined });
    const drift = new DriftReports({ logger: log });
    const forget = () => {
      begun.resolve();
      return clientLeft.promise;
    };
    const purge = new Purge({ store, drift, logger: log, metadata: { forget } });
    const inventory = new Inventory({ store, modules: NO_MODULES, drift });
    const running = await start({}, { admin: { ...NO_PURGES, inventory, purge }, ...operators() });
    const abort = new AbortController();
    const asked = fetch(`${running.origin}/admin/purge`, {
      method: 'POST',
      headers: { ...bearer(OPS), 'content-type': 'application/json' },
      body: JSON.stringify({ address: WIDGET.toString() }),
      signal: abort.signal,
    });
    await begun.promise;
    abort.abort();
    await expect(asked).rejects.toThrow();
    clientLeft.resolve();
    await expect.poll(async () => (await store.releases(WIDGET)).length, { timeout: 10_000 }).toBe(0);
  });
});

describe('the doors for operators', () => {
  it.each(['read', 'none'])('take the role admin with anonymous: %s', async (anonymous) => {
    const { inventory, purge, audit, get } = await begin({ anonymous });
    for (const ask of [
      (token: string) => inventory('', token),
      (token: string) => purge({ address: '*/*/*' }, { token }),
    ]) {
      const nobody = await ask('');
      expect(nobody.status).toBe(401);
      expect(nobody.headers['www-authenticate']).toContain('Bearer');
      expect(nobody.json().hint).toContain('LARDER_TOKEN');
      expect((await ask('no-such-token')).status).toBe(401);
      const reader = await ask(CI);
      expect(reader.status).toBe(403);
      expect(reader.json().errors[0]).toContain('ci');
      expect((await ask(OPS)).status).toBe(200);
    }
    expect((await get('/admin/nothing')).status).toBe(401);
    expect((await get('/admin/nothing', { headers: bearer(OPS) })).status).toBe(404);
    const refused = (await audit()).filter(({ event }) => event === 'refused');
    expect(refused.map(({ client }) => client)).toEqual(
      [...Array(2)].flatMap(() => ['anonymous', 'anonymous', 'ci']).concat('anonymous'),
    );
  });

  it('are open to nobody when no token has the role, and say how to have one', async () => {
    const { inventory } = await begin({ tokens: [{ name: 'ci', token: CI, roles: ['read'] }] });
    for (const token of ['', CI, 'anything']) {
      const answer = await inventory('', token);
      expect(answer.status).toBe(403);
      expect(answer.json().hint).toContain('LARDER_ADMIN_TOKEN');
    }
  });

  it('open with LARDER_ADMIN_TOKEN', async () => {
    const { inventory } = await begin({ tokens: [] }, { env: { LARDER_ADMIN_TOKEN: 'from-the-environment' } });
    expect((await inventory('', 'from-the-environment')).status).toBe(200);
  });
});

/** A promise to be settled from outside. */
function gate() {
  let resolve: () => void = () => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
