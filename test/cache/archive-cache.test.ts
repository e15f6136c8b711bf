import { once } from 'node:events';
import { mkdtemp, readdir, readlink, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ArchiveCache } from '../../src/cache/archive-cache.ts';
import { NotFound, StorageFailed, UpstreamRefused, UpstreamUnreachable } from '../../src/errors.ts';
import { silentLogger } from '../../src/logger.ts';
import type { ArchiveStore, StoredArchive } from '../../src/store/archive-store.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { paths } from '../../src/store/keys.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { archiveOf, sha256Hex } from '../contract/archive-store.ts';
import { gate, gated, inChunks, reset, ScriptedSource } from './scripted-source.ts';

const hasher = new PackageHasher();
afterAll(() => hasher.close());

const archive = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip');
const other = archiveOf('terraform-provider-widget_1.0.0_darwin_arm64.zip');
const KIB = 1024;
const WITHHELD = 64 * KIB;

let directory: string;
let store: DirectoryArchiveStore;
let cache: ArchiveCache;
let stored: StoredArchive[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-archive-cache-'));
  store = await DirectoryArchiveStore.open({ directory, hasher, logger: silentLogger });
  stored = [];
  cache = cacheOver(store);
});

afterEach(async () => {
  await cache.close();
  try {
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
    await expect.poll(openFiles, { timeout: 10_000 }).toEqual([]);
  } finally {
    await store.close();
    await rm(directory, { recursive: true, force: true });
  }
});

/** What this process holds open below the directory (Linux; elsewhere there is no telling). */
async function openFiles(): Promise<string[]> {
  const descriptors = await readdir('/proc/self/fd').catch(() => []);
  const targets = await Promise.all(descriptors.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
  return targets.filter((target) => target.startsWith(directory));
}

function cacheOver(over: ArchiveStore, concurrentDownloads = 4): ArchiveCache {
  return new ArchiveCache({
    store: over,
    logger: silentLogger,
    concurrentDownloads,
    onStored: (one) => void stored.push(one),
  });
}

async function readWhole(source: ScriptedSource): Promise<Buffer> {
  return buffer(await (await cache.read(archive, source.load)).stream());
}

/** Takes exactly so many bytes and leaves the rest. */
async function take(stream: Readable, length: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let taken = 0;
  const iterator = stream.iterator({ destroyOnReturn: false });
  while (taken < length) {
    const { value, done } = await iterator.next();
    if (done) break;
    chunks.push(value);
    taken += value.length;
  }
  return Buffer.concat(chunks);
}

const whole = (rest: Buffer) => inChunks(rest);

describe('an archive whose length nobody tells', () => {
  const bounded = () =>
    new ArchiveCache({ store, logger: silentLogger, concurrentDownloads: 4, maxUntoldBytes: 200 * KIB });

  test('is taken up to a bound, so that an upstream that never ends does not fill the disk', async () => {
    let sent = 0;
    const source = new ScriptedSource(1, async function* () {
      for (; ; sent += 64 * KIB) yield Buffer.alloc(64 * KIB);
    });
    source.size = undefined;
    await using(bounded(), async (over) => {
      const readable = await over.read(archive, source.load);
      await expect(buffer(await readable.stream())).rejects.toMatchObject({
        code: 'UPSTREAM_INVALID',
        host: 'releases.example.com',
        message: expect.stringMatching(
          /^releases\.example\.com sent more than 204800 bytes of terraform-provider-widget/,
        ),
      });
    });
    expect(sent).toBeLessThan(1024 * KIB);
    expect(source.offsets).toEqual([0]);
    expect(await store.find(archive)).toBeUndefined();
  });

  test('has no bound that matters when it fits, or when its length is told', async () => {
    await using(bounded(), async (over) => {
      const fits = new ScriptedSource(200 * KIB, whole);
      fits.size = undefined;
      expect(fits.bytes.equals(await buffer(await (await over.read(archive, fits.load)).stream()))).toBe(true);
      const told = new ScriptedSource(201 * KIB, whole);
      expect(told.bytes.equals(await buffer(await (await over.read(other, told.load)).stream()))).toBe(true);
    });
  });

  async function using(over: ArchiveCache, work: (over: ArchiveCache) => Promise<void>): Promise<void> {
    try {
      await work(over);
    } finally {
      await over.close();
    }
  }
});

describe('a cold read', () => {
  test('brings the archive into the store, with what was published beside it', async () => {
    const source = new ScriptedSource(300_000, whole);
    source.release = { shasums: Buffer.from('sums'), signature: Buffer.from('signature') };
    const readable = await cache.read(archive, source.load);
    expect(readable).toMatchObject({ state: 'arriving', size: 300_000, sha256: source.promised });
    expect(source.bytes.equals(await buffer(await readable.stream()))).toBe(true);
    await cache.drain(1_000);
    expect(stored).toEqual([await store.find(archive)]);
    expect(await store.getRelease(archive.provider, archive.version)).toEqual(source.release);

    const again = await cache.read(archive, source.load);
    expect(again).toMatchObject({ state: 'stored', size: 300_000, storedAt: stored[0]?.storedAt });
    expect(source.bytes.equals(await buffer(await again.stream()))).toBe(true);
    expect(source.bytes.equals(await buffer(await readable.stream()))).toBe(true);
    expect(source).toMatchObject({ loads: 1, offsets: [0] });
  });

  test('tells when it is in the store, though nobody reads', async () => {
    const source = new ScriptedSource(300_000, whole);
    const readable = await cache.read(archive, source.load);
    await readable.settled?.();
    expect(readable.written).toBe(300_000);
    expect(await store.find(archive)).toMatchObject({ size: 300_000, sha256: source.promised });
    expect((await cache.read(archive, source.load)).settled).toBeUndefined();
  });

  test('tells what keeps it out of the store, though nobody reads', async () => {
    const source = new ScriptedSource(300_000, whole);
    source.promised = sha256Hex(Buffer.from('something else'));
    const readable = await cache.read(archive, source.load);
    await expect(readable.settled?.()).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    expect(await store.find(archive)).toBeUndefined();
  });

  test('R61: answers as soon as upstream does, and bytes flow before it has finished', async () => {
    const end = gate();
    const source = new ScriptedSource(1000 * KIB, gated(end.passed, 100 * KIB));
    const stream = await (await cache.read(archive, source.load)).stream();
    const first = await take(stream, 900 * KIB);
    expect(source.bytes.subarray(0, 900 * KIB).equals(first)).toBe(true);
    end.open();
    expect(source.bytes.subarray(900 * KIB).equals(await buffer(stream))).toBe(true);
  });

  test('R04: twenty followers, early, late and last, get the same bytes of one download', async () => {
    const [middle, end] = [gate(), gate()];
    const source = new ScriptedSource(2000 * KIB, async function* (rest) {
      yield* inChunks(rest.subarray(0, 500 * KIB));
      await middle.passed;
      yield* inChunks(rest.subarray(500 * KIB, 1990 * KIB));
      await end.passed;
      yield* inChunks(rest.subarray(1990 * KIB));
    });
    const join = (count: number) => Array.from({ length: count }, () => readWhole(source));
    const early = join(10);
    const watcher = await (await cache.read(archive, source.load)).stream();
    await take(watcher, 500 * KIB);
    const late = join(9);
    middle.open();
    await take(watcher, 1000 * KIB);
    const last = join(1);
    end.open();
    watcher.destroy();
    for (const body of await Promise.all([...early, ...late, ...last])) expect(source.bytes.equals(body)).toBe(true);
    expect(source).toMatchObject({ loads: 1, offsets: [0] });
  });

  test('the last bytes are withheld until everything is verified', async () => {
    const end = gate();
    const source = new ScriptedSource(500 * KIB, gated(end.passed, 1));
    const stream = await (await cache.read(archive, source.load)).stream();
    const seen: Buffer[] = [];
    stream.on('data', (chunk) => seen.push(chunk));
    const received = () => Buffer.concat(seen).length;
    await expect.poll(received, { timeout: 20_000 }).toBe(500 * KIB - WITHHELD);
    end.open();
    await once(stream, 'end');
    expect(received()).toBe(500 * KIB);
  });

  test('without a known size, whatever came last is withheld', async () => {
    const end = gate();
    const source = new ScriptedSource(500 * KIB, gated(end.passed, 100 * KIB));
    source.size = undefined;
    const readable = await cache.read(archive, source.load);
    expect(readable.size).toBeUndefined();
    const stream = await readable.stream();
    expect((await take(stream, 400 * KIB - WITHHELD)).length).toBe(400 * KIB - WITHHELD);
    end.open();
    expect((await buffer(stream)).length).toBe(100 * KIB + WITHHELD);
  });

  test('an archive smaller than what is withheld arrives in one piece', async () => {
    const source = new ScriptedSource(1_000, whole);
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
  });

  test('a range of what is arriving is the same as of what is stored', async () => {
    const end = gate();
    const source = new ScriptedSource(500 * KIB, gated(end.passed, 100 * KIB));
    const readable = await cache.read(archive, source.load);
    const part = (start: number, until: number) => source.bytes.subarray(start, until + 1);
    const early = await buffer(await readable.stream({ start: 1_000, end: 200_000 }));
    expect(part(1_000, 200_000).equals(early)).toBe(true);
    const tail = readable.stream({ start: 400_000, end: 511_999 }).then(buffer);
    end.open();
    expect(part(400_000, 511_999).equals(await tail)).toBe(true);
    expect(part(0, 0).equals(await buffer(await readable.stream({ start: 0, end: 0 })))).toBe(true);
  });

  test('R61: whoever hangs up disturbs nobody, not even when it was the first', async () => {
    const end = gate();
    const source = new ScriptedSource(500 * KIB, gated(end.passed, 100 * KIB));
    const first = await (await cache.read(archive, source.load)).stream();
    await take(first, 100 * KIB);
    const second = readWhole(source);
    first.destroy();
    end.open();
    expect(source.bytes.equals(await second)).toBe(true);
    expect(source.offsets).toEqual([0]);
  });

  test('when everybody has hung up, the archive is stored all the same', async () => {
    const source = new ScriptedSource(500 * KIB, whole);
    (await (await cache.read(archive, source.load)).stream()).destroy();
    await cache.drain(5_000);
    expect(await store.find(archive)).toBeDefined();
  });

  test('a follower that reads nothing holds up neither the download nor the others', async () => {
    const source = new ScriptedSource(3000 * KIB, whole);
    const slow = await (await cache.read(archive, source.load)).stream();
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
    await cache.drain(1_000);
    await store.discard(archive);
    expect(source.bytes.equals(await buffer(slow))).toBe(true);
  });

  test('find sees what is stored or arriving, and starts nothing', async () => {
    const end = gate();
    const source = new ScriptedSource(500 * KIB, gated(end.passed, 100 * KIB));
    expect(await cache.find(archive)).toBeUndefined();
    await cache.read(archive, source.load);
    expect(await cache.find(archive)).toMatchObject({ state: 'arriving', size: 500 * KIB });
    end.open();
    await cache.drain(5_000);
    expect(await cache.find(archive)).toMatchObject({ state: 'stored', size: 500 * KIB });
    expect(source.loads).toBe(1);
  });

  test('only so many downloads run at once; the others wait for their turn', async () => {
    cache = cacheOver(store, 1);
    const end = gate();
    const first = new ScriptedSource(100 * KIB, gated(end.passed, 1));
    const second = new ScriptedSource(100 * KIB, whole);
    await cache.read(archive, first.load);
    const waiting = cache.read(other, second.load);
    await new Promise((resolve) => setImmediate(resolve));
    expect(second.loads).toBe(0);
    end.open();
    expect(second.bytes.equals(await buffer(await (await waiting).stream()))).toBe(true);
  });
});

describe('what is there already', () => {
  test('a file left by a crash is taken over instead of fetched again', async () => {
    const source = new ScriptedSource(100_000, whole);
    await readWhole(source);
    await cache.drain(1_000);
    await rm(join(directory, paths.version(archive.provider, archive.version)));
    expect(await cache.read(archive, source.load)).toMatchObject({ state: 'stored' });
    expect(source).toMatchObject({ loads: 2, offsets: [0] });
  });

  test('a damaged file is discarded and fetched again', async () => {
    const source = new ScriptedSource(100_000, whole);
    await readWhole(source);
    await cache.drain(1_000);
    const path = join(directory, paths.archive(archive));
    await truncate(path, 50_000);
    await utimes(path, new Date(0), new Date(0));
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
    await cache.drain(1_000);
    expect((await stat(path)).size).toBe(100_000);
  });

  test('a seeded file that is not what upstream promises is replaced', async () => {
    const source = new ScriptedSource(100_000, whole);
    await store.putRelease(archive.provider, archive.version, { shasums: Buffer.from('x'), signature: undefined });
    const path = join(directory, paths.archive(archive));
    expect(dirname(path)).toBe(join(directory, paths.provider(archive.provider)));
    await writeFile(path, 'something else');
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
  });
});

describe('interruptions', () => {
  const cutsBefore = (cuts: number, length: number) =>
    async function* (rest: Buffer, opening: number) {
      if (opening > cuts) return yield* inChunks(rest);
      yield* inChunks(rest.subarray(0, length));
      throw reset();
    };

  test('R44: a cut connection is resumed where it broke off, unseen by those who read', async () => {
    const source = new ScriptedSource(500_000, cutsBefore(2, 150_000));
    const bodies = await Promise.all([readWhole(source), readWhole(source)]);
    for (const body of bodies) expect(source.bytes.equals(body)).toBe(true);
    expect(source.offsets).toEqual([0, 150_000, 300_000]);
  });

  test('an upstream that cannot resume begins again, and the first bytes are skipped', async () => {
    const source = new ScriptedSource(500_000, cutsBefore(1, 150_000));
    source.canResume = false;
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
    expect(source.offsets).toEqual([0, 150_000]);
  });

  test('R44: a clean end short of the announced size is an interruption too', async () => {
    const source = new ScriptedSource(500_000, (rest, opening) =>
      inChunks(opening > 1 ? rest : rest.subarray(0, 1_000)),
    );
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
    expect(source.offsets).toEqual([0, 1_000]);
  });

  test('R03: cut for good: everybody gets the error, nothing stays, and the next read succeeds', async () => {
    let isUp = false;
    const source = new ScriptedSource(500_000, async function* (rest) {
      if (isUp) return yield* inChunks(rest);
      yield rest.subarray(0, 100_000);
      throw reset();
    });
    const outcomes = await Promise.allSettled(Array.from({ length: 5 }, () => readWhole(source)));
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'UPSTREAM_UNREACHABLE' } });
      expect(String((outcome as PromiseRejectedResult).reason)).toContain('releases.example.com');
    }
    expect(source.offsets).toHaveLength(4);
    expect(await store.find(archive)).toBeUndefined();
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
    isUp = true;
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
  });

  test('without progress it is not tried again and again', async () => {
    const source = new ScriptedSource(500_000, async function* (rest, opening) {
      if (opening === 1) yield rest.subarray(0, 100_000);
      throw reset();
    });
    await expect(readWhole(source)).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
    expect(source.offsets).toEqual([0, 100_000]);
  });

  test('R44: a clean short end without an announced size is not the archive', async () => {
    const source = new ScriptedSource(500_000, (rest) => inChunks(rest.subarray(0, 250_000)));
    source.size = undefined;
    await expect(readWhole(source)).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    expect(await store.find(archive)).toBeUndefined();
  });
});

describe('wrong bytes', () => {
  test('R03: another digest: the error names the archive and both digests, and no follower has the end', async () => {
    const source = new ScriptedSource(500_000, whole);
    const actual = source.promised;
    source.promised = sha256Hex(Buffer.from('promised'));
    const stream = await (await cache.read(archive, source.load)).stream();
    let received = 0;
    stream.on('data', (chunk) => {
      received += chunk.length;
    });
    const error = await new Promise<Error>((resolve) => stream.on('error', resolve));
    expect(error).toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    for (const part of [archive.filename, actual, source.promised]) expect(error.message).toContain(part);
    expect(received).toBeLessThanOrEqual(500_000 - WITHHELD);
    expect(source.offsets).toEqual([0]);
    expect(await store.find(archive)).toBeUndefined();
    expect(stored).toEqual([]);
  });

  test('are remembered for a while, so that not everybody who asks costs a whole download', async () => {
    const source = new ScriptedSource(500_000, whole);
    const actual = source.promised;
    source.promised = sha256Hex(Buffer.from('promised'));
    for (const _ of ['first', 'second', 'third']) {
      await expect(readWhole(source)).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
      await cache.drain(5_000);
    }
    expect(source.offsets).toEqual([0]);
    cache.forgetMismatches((one) => one === other);
    await expect(readWhole(source)).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    expect(source.offsets).toEqual([0]);
    cache.forgetMismatches((one) => one === archive);
    await expect(readWhole(source)).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    expect(source.offsets).toEqual([0, 0]);
    // What is promised otherwise by now is tried.
    await cache.drain(5_000);
    source.promised = actual;
    expect((await readWhole(source)).equals(source.bytes)).toBe(true);
  });

  test('are not remembered for longer than that', async () => {
    cache = new ArchiveCache({ store, logger: silentLogger, concurrentDownloads: 1, mismatchKeepMs: 1 });
    const source = new ScriptedSource(1_000, (rest, opening) => inChunks(opening === 1 ? Buffer.from('wrong') : rest));
    source.size = undefined;
    await expect(readWhole(source)).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    await expect.poll(() => readWhole(source).catch(() => undefined), { timeout: 10_000 }).toEqual(source.bytes);
  });

  test('more bytes than announced are not waited for', async () => {
    const source = new ScriptedSource(500_000, async function* (rest) {
      for (;;) yield rest;
    });
    await expect(readWhole(source)).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
  });

  test('a resumed download that does not match is fetched once more from the start', async () => {
    const source = new ScriptedSource(500_000, async function* (rest, opening) {
      if (opening === 1) {
        yield Buffer.alloc(100_000);
        throw reset();
      }
      yield* inChunks(rest);
    });
    await expect(readWhole(source)).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
    expect(source.offsets).toEqual([0, 100_000, 0]);
  });

  test('an upstream that resumes somewhere else is refused', async () => {
    const bytes = Buffer.alloc(500_000, 1);
    const load = async () => ({
      sha256: sha256Hex(bytes),
      size: bytes.length,
      release: undefined,
      open: async () => ({ body: Readable.from([bytes]), offset: 7, size: undefined }),
    });
    await expect(cache.read(archive, load).then((one) => one.stream().then(buffer))).rejects.toMatchObject({
      code: 'UPSTREAM_INVALID',
    });
  });
});

describe('failures', () => {
  test.each([
    new NotFound('no such archive'),
    new UpstreamUnreachable('registry.example.com', 'timeout', 'did not answer'),
    new UpstreamRefused('registry.example.com', 'answered 403'),
  ])('of the load reach all who wait and are not remembered: $code', async (failure) => {
    let loads = 0;
    const failing = async () => {
      loads += 1;
      throw failure;
    };
    const reads = await Promise.allSettled(Array.from({ length: 5 }, () => cache.read(archive, failing)));
    for (const read of reads) expect(read).toEqual({ status: 'rejected', reason: failure });
    expect(loads).toBe(1);
    const source = new ScriptedSource(1_000, whole);
    await expect(cache.read(archive, failing)).rejects.toBe(failure);
    expect(loads).toBe(2);
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
  });

  test('R36: a refused archive is the error, with no retry of our own', async () => {
    let openings = 0;
    const load = async () => ({
      sha256: sha256Hex(Buffer.from('x')),
      size: undefined,
      release: undefined,
      open: async () => {
        openings += 1;
        throw new NotFound('releases.example.com has no such archive');
      },
    });
    await expect(cache.read(archive, load)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(openings).toBe(1);
  });

  test('R83: what does not fit on the disk is refused before anybody is given anything of it', async () => {
    const source = new ScriptedSource(300_000, inChunks);
    source.size = Number.MAX_SAFE_INTEGER;
    await expect(cache.read(archive, source.load)).rejects.toMatchObject({ code: 'STORAGE_FAILED', full: true });
    expect(source.offsets).toEqual([0]);
  });

  test('R83: a disk that fails in the middle is said to all, and the next read tries again', async () => {
    let isFull = true;
    const failing = new Proxy(store, {
      get(target, name) {
        if (name === 'receive' && isFull) {
          return async (...args: Parameters<ArchiveStore['receive']>) => {
            const incoming = await target.receive(...args);
            let written = 0;
            return new Proxy(incoming, {
              get(file, member) {
                if (member === 'write') {
                  return async (chunk: Uint8Array) => {
                    written += chunk.length;
                    if (written > 200_000) throw new StorageFailed('writing an archive', { code: 'ENOSPC' });
                    return file.write(chunk);
                  };
                }
                const value = Reflect.get(file, member);
                return typeof value === 'function' ? value.bind(file) : value;
              },
            });
          };
        }
        const value = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    cache = cacheOver(failing);
    const source = new ScriptedSource(500_000, whole);
    const outcomes = await Promise.allSettled([readWhole(source), readWhole(source)]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'STORAGE_FAILED', full: true } });
    }
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
    expect(source.offsets).toEqual([0]);
    isFull = false;
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
  });

  test('an observer that throws does not fail the download', async () => {
    cache = new ArchiveCache({
      store,
      logger: silentLogger,
      concurrentDownloads: 1,
      onStored: () => {
        throw new Error('observer');
      },
    });
    const source = new ScriptedSource(1_000, whole);
    expect(source.bytes.equals(await readWhole(source))).toBe(true);
  });
});

describe('what is brought in while it is fetched', () => {
  /** All but the end of it has come, and then somebody stores `brought` under its name. */
  async function overtaken(source: ScriptedSource, rest: { open(): void }, brought: Buffer) {
    const drift: unknown[] = [];
    cache = new ArchiveCache({
      store,
      logger: silentLogger,
      concurrentDownloads: 1,
      onStored: (one) => void stored.push(one),
      onDrift: (...of) => void drift.push(of),
    });
    const readable = await cache.read(archive, source.load);
    const settled = readable.settled?.().catch((error: unknown) => error);
    const reading = readable.stream().then(buffer);
    const read = reading.catch((error: unknown) => error);
    const incoming = await store.receive(archive);
    await incoming.write(brought);
    await incoming.commit(sha256Hex(brought));
    rest.open();
    return { readable, drift, read: await read, settled: await settled };
  }

  test('stays when it is something else: the one that comes second is drift, and read by nobody', async () => {
    const rest = gate();
    const source = new ScriptedSource(300_000, gated(rest.passed, 1_000));
    source.release = { shasums: Buffer.from('sums'), signature: undefined };
    const first = Buffer.from('brought by hand');
    const { drift, read, settled } = await overtaken(source, rest, first);
    for (const error of [read, settled]) {
      expect(error).toMatchObject({ code: 'INTEGRITY_MISMATCH', hint: expect.stringContaining('larder purge') });
    }
    expect(drift).toEqual([[archive, sha256Hex(first), source.promised]]);
    expect(await store.find(archive)).toMatchObject({ sha256: sha256Hex(first), size: first.length });
    expect(await store.getRelease(archive.provider, archive.version)).toBeUndefined();
    expect((await readWhole(source)).equals(first)).toBe(true);
    expect(source.offsets).toEqual([0]);
    expect(stored).toEqual([]);
  });

  test('is as good as what was fetched when it is the same', async () => {
    const rest = gate();
    const source = new ScriptedSource(300_000, gated(rest.passed, 1_000));
    const { readable, drift, read } = await overtaken(source, rest, source.bytes);
    expect(source.bytes.equals(read as Buffer)).toBe(true);
    expect(source.bytes.equals(await buffer(await readable.stream()))).toBe(true);
    expect(drift).toEqual([]);
    // Whoever brought it has told of it.
    expect(stored).toEqual([]);
  });

  test('is not fetched once more for having been resumed', async () => {
    const rest = gate();
    const source = new ScriptedSource(300_000, async function* (bytes, opening) {
      if (opening > 1) {
        yield* gated(rest.passed, 1_000)(bytes, opening);
        return;
      }
      yield bytes.subarray(0, 10_000);
      throw reset();
    });
    const { settled } = await overtaken(source, rest, Buffer.from('brought by hand'));
    expect(settled).toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    expect(source.offsets).toEqual([0, 10_000]);
  });
});

describe('shutting down', () => {
  test('drain waits for what is running, up to its time limit', async () => {
    const end = gate();
    const source = new ScriptedSource(500 * KIB, gated(end.passed, 100 * KIB));
    await cache.read(archive, source.load);
    await cache.drain(10);
    expect(await store.find(archive)).toBeUndefined();
    const drained = cache.drain(10_000);
    end.open();
    await drained;
    expect(await store.find(archive)).toBeDefined();
  });

  test('close ends what is running or waiting, and says so', async () => {
    cache = cacheOver(store, 1);
    const source = new ScriptedSource(500 * KIB, gated(gate().passed, 100 * KIB));
    const reading = readWhole(source).catch((error: unknown) => error);
    await cache.read(archive, source.load);
    const waiting = cache.read(other, source.load).catch((error: unknown) => error);
    const loading = cacheOver(store);
    const stuck = loading.read(other, () => new Promise(() => {})).catch((error: unknown) => error);
    await new Promise((resolve) => setImmediate(resolve));
    await Promise.all([cache.close(), loading.close()]);
    expect(await stuck).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'busy' });
    expect(await reading).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'busy' });
    expect(await waiting).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'busy' });
    await expect(cache.read(other, source.load)).rejects.toMatchObject({ reason: 'busy' });
  });

  test('close ends what has not asked yet where it comes from, and never will', async () => {
    const [looking, looked] = [gate(), gate()];
    let looks = 0;
    const slow: ArchiveStore = Object.assign(Object.create(store), {
      find: async () => {
        looks += 1;
        // The first look is the reader's, the second that of the download.
        if (looks < 2) return undefined;
        looking.open();
        await looked.passed;
        return undefined;
      },
    });
    cache = cacheOver(slow);
    const reading = cache.read(archive, () => new Promise(() => {})).catch((error: unknown) => error);
    await looking.passed;
    const closed = cache.close();
    looked.open();
    await closed;
    expect(await reading).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'busy' });
  });
});
