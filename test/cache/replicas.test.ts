import { mkdtemp, readdir, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { ArchiveCache } from '../../src/cache/archive-cache.ts';
import { formatNote } from '../../src/cache/arrival-note.ts';
import { UpstreamRefused } from '../../src/errors.ts';
import { silentLogger } from '../../src/logger.ts';
import type { ArchiveStore } from '../../src/store/archive-store.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { leaseKeys, paths } from '../../src/store/keys.ts';
import { LocalLeases } from '../../src/store/local-leases.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { archiveOf } from '../contract/archive-store.ts';
import { acquired } from '../contract/leases.ts';
import { gate, gated, inChunks, ScriptedSource } from './scripted-source.ts';

const hasher = new PackageHasher();
afterAll(() => hasher.close());

const archive = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip');
const KEY = leaseKeys.archive(archive);
const SIZE = 600_000;
/** What upstream keeps back until the gate opens. */
const HELD_BACK = 200_000;
/** What readers do not get before it is verified. */
const WITHHELD = 64 * 1024;

/** Shared by all replicas of a test. */
class TestLeases extends LocalLeases {
  isAway = false;

  /** As if the time of whoever holds it had run out. */
  async expire(): Promise<void> {
    await this.close();
  }

  override async look(key: string) {
    if (this.isAway) throw new Error('Redis is away');
    return super.look(key);
  }
}

let directory: string;
let leases: TestLeases;
let stores: DirectoryArchiveStore[];
let caches: ArchiveCache[];
let stored: string[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-replicas-'));
  leases = new TestLeases();
  [stores, caches, stored] = [[], [], []];
});

afterEach(async () => {
  await Promise.all(caches.map((cache) => cache.close()));
  try {
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
    await expect.poll(openFiles, { timeout: 10_000 }).toEqual([]);
  } finally {
    await Promise.all(stores.map((store) => store.close()));
    await rm(directory, { recursive: true, force: true });
  }
});

/** What this process holds open below the directory (Linux; elsewhere there is no telling). */
async function openFiles(): Promise<string[]> {
  const descriptors = await readdir('/proc/self/fd').catch(() => []);
  const targets = await Promise.all(descriptors.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
  return targets.filter((target) => target.startsWith(directory));
}

/** @param change lets a store be of another kind */
async function replica(change: (store: ArchiveStore) => ArchiveStore = (store) => store): Promise<ArchiveCache> {
  const store = await DirectoryArchiveStore.open({ directory, hasher, logger: silentLogger });
  const name = `replica ${caches.length + 1}`;
  const cache = new ArchiveCache({
    store: change(store),
    leases,
    logger: silentLogger,
    concurrentDownloads: 4,
    onStored: () => void stored.push(name),
  });
  stores.push(store);
  caches.push(cache);
  return cache;
}

/** As a bucket is: nobody sees what others are writing there. */
function bucket(store: ArchiveStore): ArchiveStore {
  const hidden = new Set<unknown>(['openPartial']);
  return new Proxy(store, {
    get: (target, name) => {
      if (hidden.has(name)) return undefined;
      const value = Reflect.get(target, name) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

const readWhole = async (cache: ArchiveCache, source: ScriptedSource) =>
  buffer(await (await cache.read(archive, source.load)).stream());

/** One that has begun to fetch and waits for upstream, and another replica's followers that have all but the rest. */
async function inMidDownload(count = 5, changed?: (store: ArchiveStore) => ArchiveStore) {
  const rest = gate();
  const first = await replica();
  const second = await replica(changed);
  const source = new ScriptedSource(SIZE, gated(rest.passed, HELD_BACK));
  const own = readWhole(first, source);
  own.catch(() => {});
  await expect.poll(async () => (await first.find(archive))?.written).toBe(SIZE - HELD_BACK);
  const there = new ScriptedSource(source.bytes, (left) => inChunks(left));
  const followers = Array.from({ length: count }, () => readWhole(second, there));
  for (const follower of followers) follower.catch(() => {});
  await second.read(archive, there.load);
  return { first, second, source, there, own, followers, rest };
}

test('R24: one replica fetches, the readers of both have the bytes while they come, and one has stored it', async () => {
  const { first, second, source, there, own, followers, rest } = await inMidDownload();
  const arriving = await second.find(archive);
  expect(arriving).toMatchObject({ state: 'arriving', size: SIZE, sha256: source.promised });
  await expect.poll(() => arriving?.written).toBe(SIZE - HELD_BACK);
  const early = await (await second.read(archive, there.load)).stream({ start: 100_000, end: 199_999 });
  expect(source.bytes.subarray(100_000, 200_000).equals(await buffer(early))).toBe(true);
  rest.open();
  for (const body of await Promise.all([own, ...followers])) expect(source.bytes.equals(body)).toBe(true);
  expect([source.offsets, there.offsets]).toEqual([[0], []]);
  await Promise.all([first.drain(5_000), second.drain(5_000)]);
  expect(stored).toEqual(['replica 1']);
  expect(await leases.look(KEY)).toBeUndefined();
});

test('R04: no replica gives away the end of what is not verified', async () => {
  const cache = await replica();
  const source = new ScriptedSource(SIZE, (left) => inChunks(left));
  const incoming = await (stores[0] as DirectoryArchiveStore).receive(archive);
  await incoming.write(source.bytes);
  const lease = await acquired(leases, KEY);
  const note = { partial: incoming.partialName, sha256: source.promised, size: SIZE, taken: 0, takenFrom: [] };
  await lease.note(formatNote({ ...note, isVerified: false }));
  const stream = await (await cache.read(archive, source.load)).stream();
  const got: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => void got.push(Buffer.from(chunk)));
  const ended = new Promise((resolve) => stream.once('end', resolve));
  const length = () => Buffer.concat(got).length;
  await expect.poll(length).toBe(SIZE - WITHHELD);
  // Several looks later it is still so.
  await new Promise((resolve) => setTimeout(resolve, 350));
  expect(length()).toBe(SIZE - WITHHELD);
  await lease.note(formatNote({ ...note, isVerified: true }));
  await ended;
  expect(source.bytes.equals(Buffer.concat(got))).toBe(true);
  await incoming.commit(source.promised);
  await lease.release();
  await cache.drain(5_000);
  expect(source.offsets).toEqual([]);
});

test('R24: where replicas share no files, readers have size and digest at once, and the bytes when they are stored', async () => {
  const { second, source, there, own, followers, rest } = await inMidDownload(5, bucket);
  expect(await second.find(archive)).toMatchObject({ state: 'arriving', size: SIZE, sha256: source.promised });
  const some = await (await second.read(archive, there.load)).stream({ start: 300_000, end: 399_999 });
  rest.open();
  for (const body of await Promise.all([own, ...followers])) expect(source.bytes.equals(body)).toBe(true);
  expect(source.bytes.subarray(300_000, 400_000).equals(await buffer(some))).toBe(true);
  expect(there.offsets).toEqual([]);
});

test('R24: when the one that fetches dies, another replica goes on where it ended, unseen by those who read', async () => {
  const { second, source, there, own, followers, rest } = await inMidDownload();
  const slow = await (await second.read(archive, there.load)).stream();
  await expect.poll(async () => (await second.find(archive))?.written).toBe(SIZE - HELD_BACK);
  await leases.expire();
  for (const body of await Promise.all(followers)) expect(source.bytes.equals(body)).toBe(true);
  expect(there.offsets).toEqual([SIZE - HELD_BACK]);
  expect(source.bytes.equals(await buffer(slow))).toBe(true);
  // It was only slow: what it has is what is stored.
  rest.open();
  expect(source.bytes.equals(await own)).toBe(true);
  await second.drain(5_000);
  expect(stored).toContain('replica 2');
});

test('R24: it dies when everything is there and nothing is stored: nothing is fetched again', async () => {
  const source = new ScriptedSource(SIZE, (left) => inChunks(left));
  const cache = await replica();
  const incoming = await (stores[0] as DirectoryArchiveStore).receive(archive);
  await incoming.write(source.bytes);
  const lease = await acquired(leases, KEY);
  const note = { partial: incoming.partialName, sha256: source.promised, size: SIZE, taken: 0, takenFrom: [] };
  await lease.note(formatNote({ ...note, isVerified: false }));
  const reading = readWhole(cache, source);
  await expect.poll(async () => (await cache.find(archive))?.written).toBe(SIZE);
  await leases.expire();
  expect(source.bytes.equals(await reading)).toBe(true);
  expect(source.offsets).toEqual([]);
  await incoming.abort();
});

test('R24: the third goes on following when the second takes over', async () => {
  const { second, source, there, followers, own, rest } = await inMidDownload();
  const third = await replica();
  const slowly = gate();
  const other = new ScriptedSource(source.bytes, gated(slowly.passed, HELD_BACK / 2));
  const away = Array.from({ length: 5 }, () => readWhole(third, other));
  await expect.poll(async () => (await third.find(archive))?.written).toBe(SIZE - HELD_BACK);
  await leases.expire();
  for (const body of await Promise.all([...followers, ...away])) {
    expect(source.bytes.equals(body)).toBe(true);
    slowly.open();
  }
  expect(there.offsets.length + other.offsets.length).toBe(1);
  expect([...there.offsets, ...other.offsets]).toEqual([SIZE - HELD_BACK]);
  rest.open();
  await own;
  await second.drain(5_000);
});

test('R24: bytes of a dead replica that are not right are fetched anew, once', async () => {
  const cache = await replica();
  const source = new ScriptedSource(SIZE, (left) => inChunks(left));
  const incoming = await (stores[0] as DirectoryArchiveStore).receive(archive);
  await incoming.write(Buffer.alloc(300_000, 'wrong'));
  const lease = await acquired(leases, KEY);
  const note = { partial: incoming.partialName, sha256: source.promised, size: SIZE, taken: 0, takenFrom: [] };
  await lease.note(formatNote({ ...note, isVerified: false }));
  const misled = readWhole(cache, source);
  misled.catch(() => {});
  await expect.poll(async () => (await cache.find(archive))?.written).toBe(300_000);
  await leases.expire();
  await expect(misled).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
  expect(source.bytes.equals(await readWhole(cache, source))).toBe(true);
  expect(source.offsets).toEqual([300_000, 0]);
  await incoming.abort();
});

test('what another replica cannot have, this one tries itself, and its readers hear of its own failure', async () => {
  const [first, second] = [await replica(), await replica()];
  const refused = gate();
  const failing = async () => {
    await refused.passed;
    throw new UpstreamRefused('releases.example.com', 'answered 403');
  };
  const source = new ScriptedSource(SIZE, (left) => inChunks(left));
  const load = async () => ({ ...(await source.load()), open: failing });
  const own = first.read(archive, load);
  const there = second.read(archive, load);
  // Either may come first.
  there.catch(() => {});
  refused.open();
  await expect(own).rejects.toMatchObject({ code: 'UPSTREAM_REFUSED' });
  await expect(there).rejects.toMatchObject({ code: 'UPSTREAM_REFUSED' });
});

test('a replica that shuts down leaves what it has to the others', async () => {
  const { first, second, source, there, own, followers, rest } = await inMidDownload();
  await expect.poll(async () => (await second.find(archive))?.written).toBe(SIZE - HELD_BACK);
  const closed = first.close();
  rest.open();
  await closed;
  await expect(own).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
  for (const body of await Promise.all(followers)) expect(source.bytes.equals(body)).toBe(true);
  expect(there.offsets).toEqual([SIZE - HELD_BACK]);
});

test('R62: without Redis those who follow go on following', async () => {
  const { source, there, followers, own, rest } = await inMidDownload();
  await expect.poll(async () => (await caches[1]?.find(archive))?.written).toBe(SIZE - HELD_BACK);
  leases.isAway = true;
  rest.open();
  for (const body of await Promise.all([own, ...followers])) expect(source.bytes.equals(body)).toBe(true);
  expect(there.offsets).toEqual([]);
});

test('closing ends those who follow, and the other replica fetches on', async () => {
  const { second, source, own, followers, rest } = await inMidDownload();
  await second.close();
  for (const follower of followers) await expect(follower).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
  rest.open();
  expect(source.bytes.equals(await own)).toBe(true);
});

test('somebody who was told of other bytes by upstream is not followed', async () => {
  const rest = gate();
  const [first, second] = [await replica(), await replica()];
  const source = new ScriptedSource(SIZE, gated(rest.passed, HELD_BACK));
  const own = readWhole(first, source);
  await expect.poll(async () => (await first.find(archive))?.written).toBe(SIZE - HELD_BACK);
  const other = new ScriptedSource(SIZE, (left) => inChunks(left));
  const there = readWhole(second, other);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(await second.find(archive)).toBeUndefined();
  rest.open();
  expect(source.bytes.equals(await own)).toBe(true);
  // What was stored first stays.
  expect(source.bytes.equals(await there)).toBe(true);
  expect(other.offsets).toEqual([]);
});
