import { once } from 'node:events';
import { open, readdir, readFile, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { IntegrityMismatch, UpstreamUnreachable } from '../../src/errors.ts';
import { silentLogger as SILENT } from '../../src/logger.ts';
import { examineAll, type Healer, Scrub } from '../../src/mirror/scrub.ts';
import { Holds } from '../../src/store/holds.ts';
import { paths } from '../../src/store/keys.ts';
import { PartialFiles } from '../../src/store/partial-files.ts';
import { Quarantine } from '../../src/store/quarantine.ts';
import { gate } from '../cache/scripted-source.ts';
import { collect } from '../contract/archive-store.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
import { type House, openHouse, version } from './house.ts';
import { archiveName, eventually, startScene } from './scene.ts';

const OPS = 'operators-token';
const NARROW = 'narrow-token';
/** A server that waits for something upstream waits longer. */
const HELD_UP_MS = 10_000;
const TOKENS = [
  { name: 'ops', token: OPS, roles: ['admin'] },
  { name: 'narrow', token: NARROW, roles: ['admin'], addresses: ['other.example.com/*/*'] },
];

async function flipByte(file: string): Promise<void> {
  const handle = await open(file, 'r+');
  try {
    const { mtime } = await handle.stat();
    const { buffer: read } = await handle.read(Buffer.alloc(1), 0, 1, 20);
    await handle.write(Buffer.from([(read[0] ?? 0) ^ 0xff]), 0, 1, 20);
    await utimes(file, mtime, mtime);
  } finally {
    await handle.close();
  }
}

async function begin() {
  const scene = await startScene({ config: { access: { tokens: TOKENS }, log: { audit: 'data/audit.jsonl' } } });
  const ask = (path: string, method: 'GET' | 'POST' | 'PUT' | 'DELETE' = 'GET', body?: unknown, token = OPS) =>
    scene.get(path, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  const file = join(
    scene.larder.setup.dataDirectory,
    'providers',
    scene.registry.hostname,
    'acme',
    'widget',
    archiveName('1.0.0', 'linux_amd64'),
  );
  const { body } = await scene.archive();
  await scene.stored();
  const scanned = async (asked?: unknown) => {
    expect((await ask('/admin/verify', 'POST', asked)).status).toBe(202);
    await eventually(async () => (await ask('/admin/verify')).json().state).toBe('done');
    return (await ask('/admin/verify')).json();
  };
  const quarantined = async () => (await ask('/admin/quarantine')).json().quarantined;
  return { ...scene, ask, file, body, scanned, quarantined };
}

describe('POST /admin/verify', () => {
  it('heals a flipped bit: fetched again, and as it was', async () => {
    const { ask, file, body, scanned, quarantined, archive, registry } = await begin();
    expect((await ask('/admin/verify')).json()).toEqual({ state: 'idle' });
    expect(await scanned()).toMatchObject({ checked: 1, healed: 0, quarantined: 0, findings: [] });
    await flipByte(file);
    expect(await scanned()).toMatchObject({
      heal: true,
      checked: 1,
      checkedBytes: body.length,
      totalBytes: body.length,
      healed: 1,
      findings: [{ archive: expect.stringContaining('linux_amd64'), state: 'healed' }],
    });
    expect(await quarantined()).toEqual([]);
    expect((await readFile(file)).equals(body)).toBe(true);
    const fetched = registry.releases.requests.count('GET', /\.zip/);
    expect((await archive()).body.equals(body)).toBe(true);
    expect(registry.releases.requests.count('GET', /\.zip/)).toBe(fetched);
  });

  it('puts aside what it cannot heal because upstream is gone: never served, and never removed', async () => {
    const { file, scanned, quarantined, archive, registry, larder } = await begin();
    await flipByte(file);
    const damaged = await readFile(file);
    await registry.stop();
    const { findings } = await scanned();
    expect(findings).toMatchObject([{ state: 'quarantined', reason: expect.any(String) }]);
    const [item] = await quarantined();
    expect(item).toMatchObject({
      id: findings[0].quarantine,
      address: `${registry.hostname}/acme/widget`,
      version: '1.0.0',
      platform: 'linux_amd64',
      size: damaged.length,
    });
    const kept = join(larder.setup.dataDirectory, paths.quarantine, item.id, item.file);
    expect((await readFile(kept)).equals(damaged)).toBe(true);
    const answer = await archive();
    expect(answer.status).toBeGreaterThanOrEqual(500);
  });

  it('fetches nothing where that is not wanted; the next request does', async () => {
    const { file, body, scanned, quarantined, archive } = await begin();
    await flipByte(file);
    expect(await scanned({ heal: false })).toMatchObject({ heal: false, healed: 0, quarantined: 1 });
    expect((await archive()).body.equals(body)).toBe(true);
    expect(await quarantined()).toHaveLength(1);
  });

  it('is stopped at once, in the middle of a download, which comes in all the same', async () => {
    const { ask, file, body, archive, registry, larder, quarantined } = await begin();
    await flipByte(file);
    const [fetching, rest] = [gate(), gate()];
    registry.releases.on(/GET .*\.zip/, async (call, next) => {
      fetching.open();
      await rest.passed;
      return next(call);
    });
    expect((await ask('/admin/verify', 'POST')).status).toBe(202);
    expect((await ask('/admin/verify', 'POST')).status).toBe(202);
    await fetching.passed;
    expect((await ask('/admin/verify', 'DELETE')).json()).toMatchObject({ state: 'cancelled', quarantined: 1 });
    rest.open();
    expect((await archive()).body.equals(body)).toBe(true);
    expect(await quarantined()).toHaveLength(1);
    const audit = await readFile(join(larder.setup.dataDirectory, 'audit.jsonl'), 'utf8');
    expect(audit.match(/verify-began/g)).toHaveLength(1);
  });

  it('holds up no end of the server, though nobody sends what is to be fetched anew', async () => {
    const { ask, file, registry, larder } = await begin();
    await flipByte(file);
    const [fetching, never] = [gate(), gate()];
    registry.releases.on(/GET .*\.zip/, async (call, next) => {
      fetching.open();
      await Promise.race([never.passed, once(call.gone, 'abort')]);
      return next(call);
    });
    await ask('/admin/verify', 'POST');
    await fetching.passed;
    const before = performance.now();
    await larder.close();
    expect(performance.now() - before).toBeLessThan(HELD_UP_MS);
  });

  it('is for operators of everything', async () => {
    const { ask } = await begin();
    for (const path of ['/admin/verify', '/admin/quarantine']) {
      expect((await ask(path, 'GET', undefined, NARROW)).status).toBe(403);
      expect((await ask(path, 'GET', undefined, 'unknown')).status).toBe(401);
    }
    expect((await ask('/admin/verify', 'POST', { heal: 'yes' })).status).toBe(400);
    expect((await ask('/admin/verify', 'DELETE')).json()).toEqual({ state: 'idle' });
  });
});

describe('pins', () => {
  it('are made, listed, taken back and written down', async () => {
    const { ask, registry, larder } = await begin();
    const pin = `${registry.hostname}/acme/widget@1.0.0`;
    const module = `${registry.hostname}/acme/*/aws`;
    expect((await ask('/admin/pins')).json()).toEqual({ pins: [] });
    expect((await ask('/admin/pins', 'PUT', { pins: [pin, module, pin] })).json().pins.sort()).toEqual(
      [pin, module].sort(),
    );
    expect((await ask('/admin/pins', 'PUT', { pins: ['nonsense'] })).status).toBe(400);
    expect((await ask('/admin/pins', 'PUT', { pins: [pin] }, NARROW)).status).toBe(403);
    const { archives } = (await ask('/admin/inventory')).json();
    expect(archives).toMatchObject([{ pinned: true, lastUse: expect.any(String) }]);
    expect((await ask('/admin/pins', 'DELETE', { pins: [module, `${module}@9.9.9`] })).json()).toEqual({
      pins: [pin],
      removed: [module],
    });
    await larder.app.reopenAuditLog();
    const audit = await readFile(join(larder.setup.dataDirectory, 'audit.jsonl'), 'utf8');
    expect(audit).toContain('"event":"pinned"');
    expect(audit).toContain('"event":"unpinned"');
    expect(JSON.parse(await readFile(join(larder.setup.dataDirectory, paths.pins), 'utf8'))).toEqual({ pins: [pin] });
  });

  it('keep from being purged, unless that is said', async () => {
    const { ask, registry } = await begin();
    const address = `${registry.hostname}/acme/widget`;
    await ask('/admin/pins', 'PUT', { pins: [address] });
    const purge = async (more: object = {}) =>
      (await ask('/admin/purge', 'POST', { address, ...more })).json().purged as unknown[];
    expect(await purge()).toMatchObject([{ version: '1.0.0', pinned: true }]);
    expect((await ask('/admin/inventory')).json().archives).toHaveLength(1);
    const [purged] = await purge({ pinned: true });
    expect(purged).not.toHaveProperty('pinned');
    expect((await ask('/admin/inventory')).json().archives).toEqual([]);
  });
});

it('what was not used for a while is listed, and purged with its checksums kept', async () => {
  const { ask, registry, larder } = await begin();
  const address = `${registry.hostname}/acme/widget`;
  const listed = async (unused: string) => (await ask(`/admin/inventory?unused=${unused}`)).json().archives.length;
  expect(await listed('90d')).toBe(0);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(await listed('1ms')).toBe(1);
  expect((await ask('/admin/inventory?unused=soon')).status).toBe(400);
  const purged = await ask('/admin/purge', 'POST', { address: '*/*/*', unused: '1ms' });
  expect(purged.json().purged).toMatchObject([{ address, checksums: false, archives: [{ platform: 'linux_amd64' }] }]);
  const home = join(larder.setup.dataDirectory, 'providers', registry.hostname, 'acme', 'widget');
  expect(await readdir(home)).toContain('terraform-provider-widget_1.0.0_SHA256SUMS');
});

describe('a scan of both stores', () => {
  async function house(): Promise<House & { quarantine: Quarantine }> {
    const opened = await openHouse();
    const partials = await PartialFiles.open(join(opened.directory, paths.partial), SILENT);
    return { ...opened, quarantine: new Quarantine({ directory: opened.directory, partials }) };
  }

  it('puts modules aside, too, and says why they were not healed', async () => {
    const { directory, store, modules, quarantine, bring } = await house();
    await bring(version(0));
    const release = releaseOf('1.0.0');
    await putPackage(modules, release, Buffer.alloc(500));
    await flipByte(join(directory, paths.modulePackage(release)));
    const healer: Healer = {
      archive: async () => {
        throw new UpstreamUnreachable('registry.example.com', 'connection', 'is away');
      },
      package: async () => {
        throw new IntegrityMismatch('it is another one now');
      },
    };
    const deps = { archives: store, packages: modules, quarantine, healer, logger: SILENT };
    const found = await collect(examineAll(deps));
    expect(found.map(({ state, reason }) => [state, reason])).toEqual([
      ['intact', undefined],
      ['quarantined', 'it is another one now'],
    ]);
    expect(await quarantine.list()).toMatchObject([{ address: 'registry.example.com/acme/net/aws', size: 500 }]);
    expect(await modules.recall(release)).toBeDefined();
  });

  it('passes over what is evicted meanwhile', async () => {
    const { store, modules, quarantine, bring } = await house();
    for (const index of [0, 1]) await bring(version(index));
    const scan = examineAll({ archives: store, packages: modules, quarantine, logger: SILENT });
    const first = (await scan.next()).value;
    await store.discard(String(first?.subject) === String(version(0)) ? version(1) : version(0));
    expect((await scan.next()).done).toBe(true);
    expect(await quarantine.list()).toEqual([]);
  });

  it('makes way for clients, comes to its end all the same, and can be stopped', async () => {
    const { store, modules, quarantine, bring } = await house();
    const stored = await bring(version(0));
    await bring(version(1));
    const holds = new Holds();
    const letGo = holds.hold('anything');
    const healer: Healer = { archive: async () => {}, package: async () => {} };
    const deps = { archives: store, packages: modules, quarantine, healer, holds, totalBytes: () => 2, logger: SILENT };
    const scrub = new Scrub(deps);
    expect(scrub.start({ heals: true })).toMatchObject({ isNew: true, progress: { state: 'running', checked: 0 } });
    expect(scrub.start({ heals: false })).toMatchObject({ isNew: false, progress: { heals: true } });
    await expect.poll(() => scrub.progress?.checked, { timeout: 5_000 }).toBe(1);
    expect((await buffer(await store.read(stored))).length).toBe(stored.size);
    await scrub.cancel();
    expect(scrub.progress).toMatchObject({ state: 'cancelled', checked: 1 });
    letGo();
    scrub.start({ heals: true });
    await expect.poll(() => scrub.progress?.state, { timeout: 5_000 }).toBe('done');
    expect(scrub.progress).toMatchObject({ checked: 2, healed: 0, quarantined: 0 });
  });

  it('stops at once in the middle of a file that is being fetched anew, which stays in quarantine', async () => {
    const { directory, store, modules, quarantine, bring } = await house();
    for (const index of [0, 1]) await bring(version(index));
    for (const index of [0, 1]) await flipByte(join(directory, paths.archive(version(index))));
    const [fetching, fetched] = [gate(), gate()];
    const healer: Healer = {
      archive: async () => {
        fetching.open();
        await fetched.passed;
        throw new UpstreamUnreachable('registry.example.com', 'connection', 'is away');
      },
      package: async () => {},
    };
    const holds = new Holds();
    const deps = { archives: store, packages: modules, quarantine, healer, holds, totalBytes: () => 2, logger: SILENT };
    const scrub = new Scrub(deps);
    scrub.start({ heals: true });
    await fetching.passed;
    await scrub.cancel();
    expect(scrub.progress).toMatchObject({
      state: 'cancelled',
      checked: 1,
      quarantined: 1,
      findings: [{ state: 'quarantined', reason: 'the scan was stopped' }],
    });
    // What becomes of it is nobody's concern.
    fetched.open();
    expect(await quarantine.list()).toHaveLength(1);
    expect(await collect(store.providers())).toHaveLength(1);
  });

  it('stops at once in the middle of a file that is being read, of which it says nothing', async () => {
    const { store, modules, quarantine, bring } = await house();
    await bring(version(0));
    const reading = gate();
    const never: typeof store = new Proxy(store, {
      get: (target, name) => {
        if (name === 'verify') {
          return () => {
            reading.open();
            return new Promise(() => {});
          };
        }
        const value = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const healer: Healer = { archive: async () => {}, package: async () => {} };
    const holds = new Holds();
    const deps = { archives: never, packages: modules, quarantine, healer, holds, totalBytes: () => 1, logger: SILENT };
    const scrub = new Scrub(deps);
    scrub.start({ heals: true });
    await reading.passed;
    await scrub.close();
    expect(scrub.progress).toMatchObject({ state: 'cancelled', checked: 0, findings: [] });
    expect(await store.find(version(0))).toBeDefined();
  });
});
