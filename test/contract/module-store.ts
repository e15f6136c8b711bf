import { randomBytes } from 'node:crypto';
import { access, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ModuleAddress, ModuleRelease } from '../../src/address/module.ts';
import { Version } from '../../src/address/version.ts';
import type { ModuleStore, PackageRecord, StoredPackage } from '../../src/store/module-store.ts';
import { collect, sha256Hex } from './archive-store.ts';

/** What a store is tested with. */
export interface ModuleStoreFixture {
  readonly store: ModuleStore;
  /** Another store over the same bytes, as another replica has it. */
  another(): Promise<ModuleStore>;
  /** Names of what is lying about although nothing is being made. */
  leftovers(): Promise<readonly string[]>;
  /** Whether replicas that put at the same moment cannot undo each other. */
  readonly isGuarded: boolean;
  /** Makes the package lose its last byte, long ago. */
  truncate(release: ModuleRelease): Promise<void>;
  /** Changes one byte of the package. */
  corrupt(release: ModuleRelease): Promise<void>;
  /** The same, long ago, where the store is to notice it by itself. */
  readonly alter?: (release: ModuleRelease) => Promise<void>;
  /** Writes the same bytes there once more. */
  readonly rewrite?: (release: ModuleRelease) => Promise<void>;
  close(): Promise<void>;
}

export function releaseOf(version: string, module = 'registry.example.com/acme/net/aws'): ModuleRelease {
  return new ModuleRelease(ModuleAddress.parse(module), Version.parse(version));
}

/** Makes a package of these bytes in a work directory of the store and puts it in place. */
export async function putPackage(
  store: ModuleStore,
  release: ModuleRelease,
  content: Buffer,
  more: Partial<PackageRecord> = {},
): Promise<StoredPackage> {
  const work = await store.workDirectory();
  try {
    const file = join(work.path, 'package.tar.gz');
    await writeFile(file, content);
    const record = { sha256: sha256Hex(content), size: content.length, subdir: '', source: 'git::x', fingerprint: 'a' };
    return await store.put(release, { ...record, ...more, file });
  } finally {
    await work.remove();
  }
}

const one = releaseOf('1.0.0');
const two = releaseOf('1.1.0-rc.1+build');
const bytes = randomBytes(300_000);
const record = {
  sha256: sha256Hex(bytes),
  size: bytes.length,
  subdir: 'modules/vpc',
  source: 'git::https://git.example.com/acme/net?ref=v1.0.0',
  fingerprint: 'c0ffee',
};

/** The promises of the ModuleStore port, for any implementation. */
export function testModuleStore(open: () => Promise<ModuleStoreFixture>): void {
  let fixture: ModuleStoreFixture;
  let store: ModuleStore;

  beforeEach(async () => {
    fixture = await open();
    store = fixture.store;
  });

  afterEach(async () => {
    try {
      expect(await fixture.leftovers()).toEqual([]);
    } finally {
      await fixture.close();
    }
  });

  const versions = async (module = one.module) =>
    (await store.list(module)).map(({ release }) => release.version.toString()).sort();
  const recorded = async (module = one.module) => (await store.recorded(module)).map(String).sort();

  describe('present means put', () => {
    test('nothing is there at first', async () => {
      expect(await store.find(one)).toBeUndefined();
      expect(await store.recall(one)).toBeUndefined();
      expect(await store.list(one.module)).toEqual([]);
      expect(await store.recorded(one.module)).toEqual([]);
      expect(await collect(store.modules())).toEqual([]);
      await store.discard(one);
      await store.forget(one);
      await store.putFingerprint(one, 'c0ffee');
      expect(await store.recall(one)).toBeUndefined();
    });

    test('what is put is found with everything that is known of it, here and by another replica', async () => {
      const stored = await putPackage(store, one, bytes, record);
      expect(stored).toEqual({ ...record, release: one, storedAt: expect.any(Date) });
      expect(Math.abs(Date.now() - stored.storedAt.getTime())).toBeLessThan(60_000);
      for (const replica of [store, await fixture.another()]) {
        expect(await replica.find(one)).toEqual(stored);
        expect(await replica.recall(one)).toEqual(record);
        expect(await replica.find(two)).toBeUndefined();
        expect(await replica.list(one.module)).toEqual([stored]);
        expect((await replica.recorded(one.module)).map(String)).toEqual(['1.0.0']);
        expect((await collect(replica.modules())).map(String)).toEqual([one.module.toString()]);
        expect(bytes.equals(await buffer(await replica.read(stored)))).toBe(true);
      }
    });

    test('R24: what another replica has just put is found, also by one that looked for it in vain a moment before', async () => {
      const replica = await fixture.another();
      expect(await store.find(one)).toBeUndefined();
      const stored = await putPackage(replica, one, bytes, record);
      expect(await store.find(one)).toEqual(stored);
      expect(await store.recall(one)).toEqual(record);
    });

    test('a package without a fingerprint has none', async () => {
      const stored = await putPackage(store, one, bytes, { fingerprint: undefined });
      expect(stored.fingerprint).toBeUndefined();
      expect(await (await fixture.another()).find(one)).toEqual(stored);
    });

    test('the file is moved, the rest of the work directory is not kept', async () => {
      const work = await store.workDirectory();
      const file = join(work.path, 'package');
      await writeFile(file, bytes);
      await writeFile(join(work.path, 'other'), 'other');
      await store.put(one, { ...record, file });
      await expect(access(file)).rejects.toMatchObject({ code: 'ENOENT' });
      await work.remove();
      await expect(access(work.path)).rejects.toMatchObject({ code: 'ENOENT' });
      expect(bytes.equals(await buffer(await store.read((await store.find(one)) as StoredPackage)))).toBe(true);
    });

    test('what is not as long as it should be is not taken', async () => {
      await expect(putPackage(store, one, bytes, { size: bytes.length + 1 })).rejects.toMatchObject({
        code: 'STORAGE_FAILED',
      });
      expect(await store.find(one)).toBeUndefined();
      expect(await store.recall(one)).toBeUndefined();
    });

    test('another package does not take the place of the first, also when that is gone, until it is forgotten', async () => {
      const stored = await putPackage(store, one, bytes, record);
      const other = randomBytes(bytes.length);
      const replica = await fixture.another();
      for (const each of [store, replica]) {
        await expect(putPackage(each, one, other)).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
        expect(await each.find(one)).toEqual(stored);
        expect(bytes.equals(await buffer(await each.read(stored)))).toBe(true);
      }
      await store.discard(one);
      await expect(putPackage(replica, one, other)).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
      expect(await replica.find(one)).toBeUndefined();
      await putPackage(replica, one, bytes, record);
      await store.forget(one);
      const accepted = await putPackage(replica, one, other);
      expect(other.equals(await buffer(await replica.read(accepted)))).toBe(true);
    });

    test('of different packages that replicas put at the same time one stays, and all have that', async ({ skip }) => {
      skip(!fixture.isGuarded, 'the server knows no conditions');
      const replicas = [store, await fixture.another(), await fixture.another()];
      const contents = replicas.map(() => randomBytes(bytes.length));
      const puts = await Promise.allSettled(
        replicas.map((replica, index) => putPackage(replica, one, contents[index] as Buffer)),
      );
      const [won, ...others] = puts.flatMap((put, index) => (put.status === 'fulfilled' ? [contents[index]] : []));
      expect(others).toEqual([]);
      for (const put of puts) {
        if (put.status === 'rejected') expect(put.reason).toMatchObject({ code: 'INTEGRITY_MISMATCH' });
      }
      for (const replica of [...replicas, await fixture.another()]) {
        const stored = (await replica.find(one)) as StoredPackage;
        expect(stored.sha256).toBe(sha256Hex(won as Buffer));
        expect(await replica.verify(stored)).toBe(true);
      }
    });

    test('two replicas that put the same package agree', async () => {
      const other = await fixture.another();
      await Promise.all([putPackage(store, one, bytes), putPackage(other, one, bytes), putPackage(store, one, bytes)]);
      expect(await store.find(one)).toEqual(await other.find(one));
      expect(bytes.equals(await buffer(await other.read((await other.find(one)) as StoredPackage)))).toBe(true);
    });

    test('many packages, put at once, are all there', async () => {
      const releases = Array.from({ length: 12 }, (_, index) => releaseOf(`1.${index}.0`));
      await Promise.all(releases.map((release, index) => putPackage(store, release, Buffer.from(`bytes ${index}`))));
      expect(await versions()).toEqual(releases.map(({ version }) => version.toString()).sort());
    });

    test('while nothing changes a list is the same array, and any change shows at once', async () => {
      expect(await store.list(two.module)).toBe(await store.list(two.module));
      await putPackage(store, one, bytes);
      expect(await versions()).toEqual(['1.0.0']);
      await store.putFingerprint(one, 'moved on');
      expect((await store.list(one.module))[0]?.fingerprint).toBe('moved on');
      await store.discard(one);
      expect(await versions()).toEqual([]);
    });
  });

  describe('names', () => {
    test('are the same in upper and lower case', async () => {
      const written = releaseOf('1.0.0', 'Registry.Example.com:443/Acme/Net/aws');
      await putPackage(store, written, bytes, record);
      expect(await store.find(one)).toMatchObject(record);
      expect(await store.list(one.module)).toHaveLength(1);
      expect((await collect(store.modules())).map((module) => module.written)).toEqual(['acme/net/aws']);
    });

    test('of versions that end like files are told apart', async () => {
      const odd = ['1.0.0', '1.0.0-a', '1.0.0-a.json', '1.0.0-a.tar.gz', '1.0.0+a', '1.0.0-A', '1.0.0-tar.gz'];
      for (const version of odd) await putPackage(store, releaseOf(version), Buffer.from(version));
      expect(await versions()).toEqual([...odd].sort());
      expect(await recorded()).toEqual([...odd].sort());
      for (const version of odd) {
        const stored = (await store.find(releaseOf(version))) as StoredPackage;
        expect((await buffer(await store.read(stored))).toString()).toBe(version);
      }
    });

    test('of modules that begin alike, or rest elsewhere, are told apart', async () => {
      const modules = [
        'registry.example.com/acme/net/aws',
        'registry.example.com/acme/net/aws2',
        'registry.example.com/acme/net-x/aws',
        'registry.example.com/acme/net_x/aws',
        'registry.example.com:8443/acme/net/aws',
        'bücher.example/acme/net/aws',
      ];
      for (const module of modules) await putPackage(store, releaseOf('1.0.0', module), Buffer.from(module));
      for (const module of modules) {
        const [stored, ...others] = await store.list(ModuleAddress.parse(module));
        expect(others).toEqual([]);
        expect((await buffer(await store.read(stored as StoredPackage))).toString()).toBe(module);
      }
      const all = (await collect(store.modules())).map(String).sort();
      expect(all).toEqual(modules.map((module) => ModuleAddress.parse(module).toString()).sort());
    });
  });

  describe('reading', () => {
    test.each([
      [0, 0],
      [0, 299_999],
      [299_999, 299_999],
      [1_000, 200_000],
    ])('bytes %i to %i', async (start, end) => {
      const stored = await putPackage(store, one, bytes);
      expect(bytes.subarray(start, end + 1).equals(await buffer(await store.read(stored, { start, end })))).toBe(true);
    });

    test('goes on to the end when the package is discarded meanwhile', async () => {
      const large = randomBytes(3_000_000);
      const stream = await store.read(await putPackage(store, one, large));
      await store.forget(one);
      expect(large.equals(await buffer(stream))).toBe(true);
    });

    test('what is gone is an error, not an empty stream', async () => {
      const stored = await putPackage(store, one, bytes);
      await store.discard(one);
      await expect(store.read(stored)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    });
  });

  describe('what is remembered', () => {
    test('outlives the package, and its module is still there', async () => {
      await putPackage(store, one, bytes, record);
      await store.discard(one);
      await store.discard(one);
      for (const replica of [store, await fixture.another()]) {
        expect(await replica.find(one)).toBeUndefined();
        expect(await replica.recall(one)).toEqual(record);
        expect((await replica.recorded(one.module)).map(String)).toEqual(['1.0.0']);
        expect((await collect(replica.modules())).map(String)).toEqual([one.module.toString()]);
      }
    });

    test('is forgotten with the package, or without one', async () => {
      for (const release of [one, two]) await putPackage(store, release, bytes, record);
      await store.discard(two);
      await store.forget(two);
      expect(await store.recall(two)).toBeUndefined();
      expect(await versions()).toEqual(['1.0.0']);
      await store.forget(one);
      await store.forget(one);
      expect(await store.recall(one)).toBeUndefined();
      expect(await store.find(one)).toBeUndefined();
      expect(await collect(store.modules())).toEqual([]);
    });

    test('notes that upstream has moved on, with and without the package', async () => {
      const stored = await putPackage(store, one, bytes, record);
      await store.putFingerprint(one, 'decade');
      expect(await store.find(one)).toEqual({ ...stored, fingerprint: 'decade' });
      await store.discard(one);
      await store.putFingerprint(one, 'facade');
      expect(await (await fixture.another()).recall(one)).toEqual({ ...record, fingerprint: 'facade' });
    });

    test('does not come back when it is forgotten at the same time', async () => {
      await putPackage(store, one, bytes, record);
      await Promise.all([store.putFingerprint(one, 'decade'), store.forget(one), store.putFingerprint(one, 'facade')]);
      expect(await store.recall(one)).toBeUndefined();
    });
  });

  describe('damage', () => {
    test('a package that has lost its size is not found, is remembered, and can be stored anew', async () => {
      await putPackage(store, one, bytes, record);
      await fixture.truncate(one);
      expect(await store.find(one)).toBeUndefined();
      expect(await versions()).toEqual([]);
      expect(await store.recall(one)).toEqual(record);
      const stored = await putPackage(store, one, bytes, record);
      expect(await store.find(one)).toEqual(stored);
    });

    test('a package that was altered is neither found nor read, is remembered, and can be stored anew', async ({
      skip,
    }) => {
      if (!fixture.alter) return skip();
      const listed = await putPackage(store, one, bytes, record);
      await fixture.alter(one);
      const replica = await fixture.another();
      expect(await replica.peek(one)).toEqual(listed);
      await expect(replica.read(listed)).rejects.toMatchObject({ code: 'STORAGE_FAILED', gone: true });
      expect(await replica.find(one)).toBeUndefined();
      expect(await replica.list(one.module)).toEqual([]);
      expect(await replica.recall(one)).toEqual(record);
      const stored = await putPackage(replica, one, bytes, record);
      expect(await replica.find(one)).toEqual(stored);
      expect(bytes.equals(await buffer(await replica.read(stored)))).toBe(true);
    });

    test('a package that was written to and is what it was stays', async ({ skip }) => {
      if (!fixture.rewrite) return skip();
      const first = await putPackage(store, one, bytes, record);
      await fixture.rewrite(one);
      const replica = await fixture.another();
      const found = await Promise.all(Array.from({ length: 4 }, () => replica.find(one)));
      for (const stored of found) expect(stored).toMatchObject(record);
      expect(bytes.equals(await buffer(await replica.read(first)))).toBe(true);
      expect(await replica.list(one.module)).toEqual([found[0]]);
    });

    test('verify notices one changed byte, a lost byte and a lost file', async () => {
      const stored = await putPackage(store, one, bytes);
      expect(await store.verify(stored)).toBe(true);
      await fixture.corrupt(one);
      expect(await store.verify(stored)).toBe(false);
      await fixture.truncate(one);
      expect(await store.verify(stored)).toBe(false);
      await store.discard(one);
      expect(await store.verify(stored)).toBe(false);
    });
  });

  describe('work directories', () => {
    test('are empty, one for each, and removed with everything in them', async () => {
      const [first, second] = await Promise.all([store.workDirectory(), store.workDirectory()]);
      expect(first.path).not.toBe(second.path);
      await mkdir(join(first.path, 'deep', 'er'), { recursive: true });
      await writeFile(join(first.path, 'deep', 'er', 'file'), 'x', { mode: 0o400 });
      for (const work of [first, second]) {
        await work.remove();
        await work.remove();
        await expect(access(work.path)).rejects.toMatchObject({ code: 'ENOENT' });
      }
    });
  });

  describe('keeping house', () => {
    test('it is known when a package was last used; looking at it is no use, nor is carrying it away', async () => {
      const stored = await putPackage(store, one, bytes);
      await store.find(one);
      await store.verify(stored);
      await buffer(await store.read(stored, undefined, 'look'));
      expect(await store.lastUse(stored)).toEqual(stored.storedAt);
      const before = Date.now();
      await buffer(await store.read(stored));
      expect((await store.lastUse(stored)).getTime()).toBeGreaterThanOrEqual(before);
    });

    test('what is put into quarantine is not there any more, and its record stays', async () => {
      const stored = await putPackage(store, one, bytes);
      await fixture.corrupt(one);
      expect(await store.quarantine(stored, 'damaged')).toMatch(/^\d{8}T\d{6}Z-[0-9a-f]{8}$/);
      expect(await store.find(one)).toBeUndefined();
      expect(await store.list(one.module)).toEqual([]);
      expect(await store.recall(one)).toMatchObject({ sha256: sha256Hex(bytes) });
      expect(await store.quarantine(stored, 'damaged')).toBeUndefined();
      expect(await store.verify(await putPackage(store, one, bytes))).toBe(true);
    });
  });
}
