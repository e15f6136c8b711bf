import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { ArchiveCache } from '../../src/cache/archive-cache.ts';
import { PackageCache } from '../../src/cache/package-cache.ts';
import { silentLogger } from '../../src/logger.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { archiveOf, put } from '../contract/archive-store.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
import { inChunks, ScriptedSource } from './scripted-source.ts';

const hasher = new PackageHasher();
afterAll(() => hasher.close());

const archive = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip');
const bytes = Buffer.alloc(100_000, 'widget');
let directory: string;
let store: DirectoryArchiveStore;
let cache: ArchiveCache;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-gone-'));
  store = await DirectoryArchiveStore.open({ directory, hasher, logger: silentLogger });
  cache = new ArchiveCache({ store, logger: silentLogger, concurrentDownloads: 1 });
});

afterEach(async () => {
  await cache.close();
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

/** As another replica does it, which knows nothing of this one's readers. */
async function evict(): Promise<void> {
  const other = await DirectoryArchiveStore.open({ directory, hasher, logger: silentLogger });
  await other.discard(archive);
  await other.close();
}

test('what another replica evicts between being found and being opened is fetched anew, and nobody notices', async () => {
  await put(store, archive, bytes);
  const source = new ScriptedSource(bytes, (rest) => inChunks(rest));
  const readable = await cache.read(archive, source.load);
  expect(readable.state).toBe('stored');
  await evict();
  const body = await buffer(await readable.stream({ start: 10, end: 50_009 }));
  expect(body.equals(bytes.subarray(10, 50_010))).toBe(true);
});

test('other bytes in its place are not sent under the digest that was told', async () => {
  await put(store, archive, bytes);
  const other = new ScriptedSource(Buffer.alloc(bytes.length, 'gadget'), (rest) => inChunks(rest));
  const readable = await cache.read(archive, other.load);
  await evict();
  await expect(readable.stream()).rejects.toMatchObject({ code: 'STORAGE_FAILED', gone: true });
});

test('what is opened already is read to its end', async () => {
  await put(store, archive, bytes);
  const source = new ScriptedSource(bytes, (rest) => inChunks(rest));
  const stream = await (await cache.read(archive, source.load)).stream();
  await evict();
  expect((await buffer(stream)).equals(bytes)).toBe(true);
});

test('module packages are made anew in the same way', async () => {
  const modules = await DirectoryModuleStore.open({ directory, logger: silentLogger });
  const packages = new PackageCache({ store: modules, logger: silentLogger, concurrent: 1, timeLimitMs: 60_000 });
  const release = releaseOf('1.0.0');
  const stored = await putPackage(modules, release, bytes);
  const readable = packages.readable(stored, () => putPackage(modules, release, bytes));
  await modules.discard(release);
  expect((await buffer(await readable.stream())).equals(bytes)).toBe(true);
  await packages.close();
});
