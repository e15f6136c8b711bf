import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type MakePackage, PackageCache } from '../../src/cache/package-cache.ts';
import { NotFound, StorageFailed, UpstreamRefused, UpstreamUnreachable } from '../../src/errors.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { paths } from '../../src/store/keys.ts';
import type { ModuleStore, StoredPackage } from '../../src/store/module-store.ts';
import { sha256Hex } from '../contract/archive-store.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { gate } from './scripted-source.ts';

const release = releaseOf('1.0.0');
const other = releaseOf('2.0.0');
/** Nothing here takes so long by itself. */
const NO_LIMIT = 60_000;

let directory: string;
let store: DirectoryModuleStore;
let logger: ReturnType<typeof recordingLogger>;
let cache: PackageCache;
let announced: StoredPackage[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-package-cache-'));
  logger = recordingLogger();
  store = await DirectoryModuleStore.open({ directory, logger });
  announced = [];
  cache = cacheOver(store);
});

afterEach(async () => {
  await cache.close();
  try {
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

function cacheOver(over: ModuleStore, { concurrent = 4, timeLimitMs = NO_LIMIT } = {}): PackageCache {
  return new PackageCache({
    store: over,
    logger,
    concurrent,
    timeLimitMs,
    onStored: (stored) => void announced.push(stored),
  });
}

interface Maker {
  readonly make: MakePackage;
  /** How often it was asked. */
  made: number;
  /** Of those that are at it now, the most that ever were. */
  most: number;
}

/** Makes a package of these bytes, with more beside it, once `before` has passed. */
function maker(content: string, before: (signal: AbortSignal) => Promise<void> = async () => {}): Maker {
  let running = 0;
  const self: Maker = {
    made: 0,
    most: 0,
    make: async ({ path }, signal) => {
      self.made += 1;
      running += 1;
      self.most = Math.max(self.most, running);
      try {
        await writeFile(join(path, 'checkout'), 'half a repository');
        await before(signal);
        const file = join(path, 'package.tar.gz');
        const bytes = Buffer.from(content);
        await writeFile(file, bytes);
        return {
          sha256: sha256Hex(bytes),
          size: bytes.length,
          subdir: 'modules/vpc',
          source: 'x',
          fingerprint: 'c0ffee',
          file,
        };
      } finally {
        running -= 1;
      }
    },
  };
  return self;
}

/** Rejects when told to stop, as `fetch` and child processes do. */
function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')), { once: true });
  });
}

describe('a read', () => {
  test('of what is absent makes it, stores it, and leaves nothing else behind', async () => {
    const { make } = maker('bytes');
    const stored = await cache.read(release, make);
    expect(stored).toMatchObject({ size: 5, sha256: sha256Hex(Buffer.from('bytes')), subdir: 'modules/vpc' });
    expect(await store.find(release)).toEqual(stored);
    expect(announced).toEqual([stored]);
    expect(cache.makings).toBe(0);
    await cache.drain(10_000);
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
  });

  test('of what is stored makes nothing, also while others are being made', async () => {
    const stored = await putPackage(store, release, Buffer.from('bytes'));
    const end = gate();
    cache = cacheOver(store, { concurrent: 1 });
    const busy = cache.read(other, maker('other', () => end.passed).make);
    const untouched = maker('never');
    expect(await cache.read(release, untouched.make)).toEqual(stored);
    expect(await cache.find(release)).toEqual(stored);
    expect(untouched.made).toBe(0);
    expect(announced).toEqual([]);
    end.open();
    await busy;
  });

  test('can be sent, whole and in part', async () => {
    const readable = cache.readable(await cache.read(release, maker('0123456789').make));
    expect(readable).toMatchObject({ state: 'stored', size: 10, sha256: sha256Hex(Buffer.from('0123456789')) });
    expect(readable.storedAt).toBeInstanceOf(Date);
    expect((await buffer(await readable.stream())).toString()).toBe('0123456789');
    expect((await buffer(await readable.stream({ start: 2, end: 4 }))).toString()).toBe('234');
  });

  test('R24: by many at once is one making for all, early and late', async () => {
    const [begun, end] = [gate(), gate()];
    const maker1 = maker('bytes', async () => {
      begun.open();
      await end.passed;
    });
    const early = Array.from({ length: 10 }, () => cache.read(release, maker1.make));
    await begun.passed;
    const late = Array.from({ length: 10 }, () => cache.read(release, maker1.make));
    expect(cache.isMaking(release)).toBe(true);
    expect(cache.isMaking(other)).toBe(false);
    expect(await cache.find(release)).toBeUndefined();
    end.open();
    const [first, ...all] = await Promise.all([...early, ...late]);
    for (const stored of all) expect(stored).toEqual(first);
    expect(maker1.made).toBe(1);
    expect(announced).toHaveLength(1);
    expect(cache.isMaking(release)).toBe(false);
  });

  test('that looked before a making ended does not begin another', async () => {
    const [looked, go] = [gate(), gate()];
    const slow = maker('bytes');
    let looks = 0;
    const late: ModuleStore = Object.create(store, {
      find: {
        value: async (which: typeof release) => {
          const found = await store.find(which);
          looks += 1;
          if (looks > 1) return found;
          looked.open();
          await go.passed;
          return found;
        },
      },
      ...bound(store),
    });
    const over = cacheOver(late);
    const first = over.read(release, slow.make);
    await looked.passed;
    await putPackage(store, release, Buffer.from('bytes'));
    go.open();
    expect(await first).toEqual(await store.find(release));
    expect(slow.made).toBe(0);
    expect(announced).toEqual([]);
    await over.close();
  });

  test('goes on when whoever asked has gone away', async () => {
    const end = gate();
    const reading = cache.read(release, maker('bytes', () => end.passed).make);
    const left = await Promise.race([reading, delay(20, 'left')]);
    expect(left).toBe('left');
    end.open();
    await cache.drain(10_000);
    expect(await store.find(release)).toBeDefined();
  });
});

/** The methods of a store, for objects that have it as their prototype: private fields are not inherited. */
function bound(from: ModuleStore): PropertyDescriptorMap {
  const names = ['recall', 'list', 'read', 'workDirectory', 'put', 'discard', 'forget'] as const;
  return Object.fromEntries(names.map((name) => [name, { value: (from[name] as () => unknown).bind(from) }]));
}

/** The store, with some methods replaced. */
function storeWith(replaced: Partial<ModuleStore>): ModuleStore {
  const values = Object.entries(replaced).map(([name, value]) => [name, { value }]);
  return Object.create(store, {
    ...bound(store),
    find: { value: store.find.bind(store) },
    ...Object.fromEntries(values),
  });
}

describe('turns', () => {
  test('no more are made at a time than may be, and all are made in the end', async () => {
    cache = cacheOver(store, { concurrent: 2 });
    const counted = maker('bytes', () => delay(5));
    const releases = Array.from({ length: 8 }, (_, index) => releaseOf(`1.${index}.0`));
    const reads = releases.map((one) => cache.read(one, counted.make));
    await Promise.all(reads);
    expect(counted).toMatchObject({ made: 8, most: 2 });
    expect(await store.list(release.module)).toHaveLength(8);
  });

  test('waiting for one does not count as time', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      cache = cacheOver(store, { concurrent: 1, timeLimitMs: 1_000 });
      const [begun, end] = [gate(), gate()];
      const first = cache.read(
        release,
        maker('bytes', () => {
          begun.open();
          return end.passed;
        }).make,
      );
      await begun.passed;
      const [nextBegun, nextEnd] = [gate(), gate()];
      const next = cache.read(
        other,
        maker('bytes', () => {
          nextBegun.open();
          return nextEnd.passed;
        }).make,
      );
      await vi.advanceTimersByTimeAsync(900);
      end.open();
      await first;
      await nextBegun.passed;
      await vi.advanceTimersByTimeAsync(900);
      nextEnd.open();
      expect(await next).toMatchObject({ size: 5 });
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('failures', () => {
  test.each([
    new NotFound('no such version'),
    new UpstreamUnreachable('git.example.com', 'connection', 'broke off'),
    new UpstreamRefused('git.example.com', 'answered 403'),
    new TypeError('a fault of ours'),
  ])('reach all who wait, are not remembered, and leave nothing: $name', async (failure) => {
    const failing = maker('bytes', async () => {
      throw failure;
    });
    const reads = await Promise.allSettled(Array.from({ length: 5 }, () => cache.read(release, failing.make)));
    for (const read of reads) expect(read).toEqual({ status: 'rejected', reason: failure });
    expect(failing.made).toBe(1);
    await cache.drain(10_000);
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
    expect(await store.recall(release)).toBeUndefined();
    await expect(cache.read(release, failing.make)).rejects.toBe(failure);
    expect(failing.made).toBe(2);
    expect(await cache.read(release, maker('bytes').make)).toBeDefined();
  });

  test('before the first await are failures like any other', async () => {
    const make = () => {
      throw new NotFound('no such version');
    };
    await expect(cache.read(release, make)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('of one release are nothing to another', async () => {
    const failing = maker('bytes', async () => {
      throw new NotFound('no such version');
    });
    const [failed, made] = await Promise.allSettled([
      cache.read(release, failing.make),
      cache.read(other, maker('other').make),
    ]);
    expect([failed.status, made.status]).toEqual(['rejected', 'fulfilled']);
  });

  test('of the disk are told, wherever they happen', async () => {
    const full = async () => {
      throw new StorageFailed('storing a package', { code: 'ENOSPC' });
    };
    for (const broken of [{ find: full }, { workDirectory: full }, { put: full }]) {
      const over = cacheOver(storeWith(broken));
      const reading = over.read(release, maker('bytes').make);
      await expect(reading, Object.keys(broken)[0]).rejects.toMatchObject({ code: 'STORAGE_FAILED', full: true });
      await over.close();
      expect(await readdir(join(directory, paths.partial))).toEqual([]);
    }
  });

  test('of whoever is told of packages fail nobody else', async () => {
    cache = new PackageCache({
      store,
      logger,
      concurrent: 1,
      timeLimitMs: NO_LIMIT,
      onStored: () => {
        throw new Error('not now');
      },
    });
    expect(await cache.read(release, maker('bytes').make)).toBeDefined();
    expect(logger.lines.map(({ level }) => level)).toEqual(['error']);
  });
});

describe('time', () => {
  test('that runs out ends the making, names the host, and is not remembered', async () => {
    cache = cacheOver(store, { timeLimitMs: 30 });
    const slow = maker('bytes', untilAborted);
    const reads = await Promise.allSettled([cache.read(release, slow.make), cache.read(release, slow.make)]);
    for (const read of reads) {
      expect(read).toMatchObject({
        status: 'rejected',
        reason: { code: 'UPSTREAM_UNREACHABLE', reason: 'timeout', host: 'registry.example.com' },
      });
      expect(String((read as PromiseRejectedResult).reason)).toContain('acme/net/aws 1.0.0');
    }
    expect(slow.made).toBe(1);
    expect(cache.isMaking(release)).toBe(false);
    await cache.drain(10_000);
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
    cache = cacheOver(store);
    expect(await cache.read(release, maker('bytes').make)).toBeDefined();
  });

  test('is up also for a maker that does not listen, whose late package is not taken', async () => {
    cache = cacheOver(store, { timeLimitMs: 30 });
    const end = gate();
    const reading = cache.read(release, maker('bytes', () => end.passed).make);
    await expect(reading).rejects.toMatchObject({ reason: 'timeout' });
    // It still has its directory, and its turn.
    expect(await readdir(join(directory, paths.partial))).toHaveLength(1);
    end.open();
    await cache.drain(10_000);
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
    expect(await store.find(release)).toBeUndefined();
  });

  test('is not for ever for a maker that never ends', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      cache = cacheOver(store, { timeLimitMs: 1_000 });
      const [begun, never] = [gate(), gate()];
      const reading = cache.read(
        release,
        maker('bytes', () => {
          begun.open();
          return never.passed;
        }).make,
      );
      await begun.passed;
      const failed = expect(reading).rejects.toMatchObject({ reason: 'timeout' });
      await vi.advanceTimersByTimeAsync(1_000);
      await failed;
      const drained = cache.close();
      await vi.advanceTimersByTimeAsync(10_000);
      await drained;
      expect(await readdir(join(directory, paths.partial))).toEqual([]);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('what was first made', () => {
  test('is not replaced by something else, whatever the maker thinks', async () => {
    const first = await cache.read(release, maker('bytes').make);
    await store.discard(release);
    const changed = cache.read(release, maker('other').make);
    await expect(changed).rejects.toMatchObject({
      code: 'INTEGRITY_MISMATCH',
      hint: expect.stringContaining('larder purge registry.example.com/acme/net/aws 1.0.0'),
    });
    expect(await store.recall(release)).toMatchObject({ sha256: first.sha256 });
    expect(await store.find(release)).toBeUndefined();
    expect(await cache.read(release, maker('bytes').make)).toMatchObject({ sha256: first.sha256 });
  });

  test('may be replaced once it is forgotten', async () => {
    await cache.read(release, maker('bytes').make);
    await store.forget(release);
    expect(await cache.read(release, maker('other').make)).toMatchObject({ sha256: sha256Hex(Buffer.from('other')) });
  });
});

describe('the end', () => {
  test('drain waits for those under way and those that wait, and no longer than it may', async () => {
    cache = cacheOver(store, { concurrent: 1 });
    const end = gate();
    for (const one of [release, other]) void cache.read(one, maker(String(one), () => end.passed).make);
    await expect.poll(() => cache.makings, { timeout: 10_000 }).toBe(2);
    await cache.drain(20);
    expect(cache.makings).toBe(2);
    end.open();
    await cache.drain(10_000);
    expect(cache.makings).toBe(0);
    expect(await store.list(release.module)).toHaveLength(2);
  });

  test('gives up what is being made or waits, and tells those who wait', async () => {
    cache = cacheOver(store, { concurrent: 1 });
    const begun = gate();
    const slow = maker('bytes', (signal) => {
      begun.open();
      return untilAborted(signal);
    });
    const reads = [release, other].map((one) => cache.read(one, slow.make));
    const outcomes = Promise.allSettled(reads);
    await begun.passed;
    await expect.poll(() => cache.makings, { timeout: 10_000 }).toBe(2);
    await cache.close();
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'UPSTREAM_UNREACHABLE', reason: 'busy' } });
    }
    expect(slow.made).toBe(1);
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
  });

  test('begins nothing new, and still gives what is stored', async () => {
    const stored = await cache.read(release, maker('bytes').make);
    await cache.close();
    expect(await cache.read(release, maker('bytes').make)).toEqual(stored);
    const never = maker('never');
    await expect(cache.read(other, never.make)).rejects.toMatchObject({ reason: 'busy' });
    expect(never.made).toBe(0);
    await cache.close();
  });

  test('waits for a package that is on its way into the store', async () => {
    const [storing, go] = [gate(), gate()];
    const over = cacheOver(
      storeWith({
        put: async (which, made) => {
          storing.open();
          await go.passed;
          return store.put(which, made);
        },
      }),
    );
    const reading = over.read(release, maker('bytes').make);
    await storing.passed;
    const closed = over.close();
    go.open();
    await closed;
    expect(await reading).toEqual(await store.find(release));
  });
});
