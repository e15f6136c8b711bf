import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { ArchiveCache } from '../../src/cache/archive-cache.ts';
import { StorageFailed } from '../../src/errors.ts';
import { silentLogger } from '../../src/logger.ts';
import type { IncomingArchive } from '../../src/store/archive-store.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { paths } from '../../src/store/keys.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { archiveOf } from '../contract/archive-store.ts';
import { gate, inChunks, ScriptedSource } from './scripted-source.ts';

const hasher = new PackageHasher();
afterAll(() => hasher.close());

const archive = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip');

let directory: string;
let store: DirectoryArchiveStore;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-putting-away-'));
  store = await DirectoryArchiveStore.open({ directory, hasher, logger: silentLogger });
});

afterEach(async () => {
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

/** A cache over the store, with this in front of every commit. */
function cacheBefore(commit: () => Promise<void>): ArchiveCache {
  const receive = async (...args: Parameters<typeof store.receive>): Promise<IncomingArchive> => {
    const incoming = await store.receive(...args);
    return {
      write: (chunk) => incoming.write(chunk),
      expect: (size) => incoming.expect(size),
      openReader: () => incoming.openReader(),
      abort: () => incoming.abort(),
      commit: async (sha256) => {
        await commit();
        return incoming.commit(sha256);
      },
    };
  };
  const slow = new Proxy(store, {
    get(target, name) {
      if (name === 'receive') return receive;
      const value = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return new ArchiveCache({ store: slow, logger: silentLogger, concurrentDownloads: 4 });
}

test('a verified archive has reached its readers, also late ones, before it is safely on disk', async () => {
  const disk = gate();
  const cache = cacheBefore(() => disk.passed);
  const source = new ScriptedSource(300_000, (rest) => inChunks(rest));
  for (const _ of ['early', 'late']) {
    const readable = await cache.read(archive, source.load);
    expect(source.bytes.equals(await buffer(await readable.stream()))).toBe(true);
  }
  expect(await store.find(archive)).toBeUndefined();
  disk.open();
  await cache.close();
  expect(await store.find(archive)).toMatchObject({ sha256: source.promised });
  expect(source.loads).toBe(1);
});

test('a verified archive that is being put away can be waited for, for a time', async () => {
  const disk = gate();
  const cache = cacheBefore(() => disk.passed);
  const source = new ScriptedSource(300_000, (rest) => inChunks(rest));
  await buffer(await (await cache.read(archive, source.load)).stream());
  await cache.putAway(() => true, 10);
  await cache.putAway(() => false, 3_600_000);
  expect(await store.find(archive)).toBeUndefined();
  const put = cache.putAway((one) => one === archive, 3_600_000);
  disk.open();
  await put;
  expect(await store.find(archive)).toMatchObject({ sha256: source.promised });
  await cache.close();
});

test('R83: a verified archive that cannot be kept is served all the same, and fetched again by the next', async () => {
  const disk = gate();
  let failures = 0;
  const cache = cacheBefore(async () => {
    await disk.passed;
    failures += 1;
    if (failures === 1) throw new StorageFailed('publishing a file', { code: 'ENOSPC' });
  });
  const source = new ScriptedSource(300_000, (rest) => inChunks(rest));
  const reading = await (await cache.read(archive, source.load)).stream();
  const whole = buffer(reading);
  disk.open();
  expect(source.bytes.equals(await whole)).toBe(true);
  await cache.drain(5_000);
  expect(await readdir(join(directory, paths.partial))).toEqual([]);
  expect(await store.find(archive)).toBeUndefined();

  const again = await cache.read(archive, source.load);
  expect(source.bytes.equals(await buffer(await again.stream()))).toBe(true);
  await cache.close();
  expect(await store.find(archive)).toMatchObject({ sha256: source.promised });
});
