import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { DiskUse } from '../../src/mirror/disk-use.ts';
import { Pin, type Pins } from '../../src/mirror/pins.ts';
import { Quota } from '../../src/mirror/quota.ts';
import { Holds } from '../../src/store/holds.ts';
import { paths } from '../../src/store/keys.ts';
import { LastUses } from '../../src/store/last-uses.ts';
import { gate } from '../cache/scripted-source.ts';
import { collect, sha256Hex } from '../contract/archive-store.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
import { type House, openHouse, temporaryDirectory, SIZE as UNIT, version } from './house.ts';
import { type Scene, startScene } from './scene.ts';

const SIZE = 100_000;
const ARCHIVES = 40;
/** Room for half of them. */
const LIMIT = (SIZE * ARCHIVES) / 2;
const LOAD = { timeout: 120_000 };

/** Bytes of all archives on the disk, those that are arriving included. */
async function usage(directory: string): Promise<number> {
  let bytes = 0;
  for (const part of ['providers', 'modules', 'partial']) {
    const names = await readdir(join(directory, part), { recursive: true }).catch(() => []);
    for (const name of names) {
      if (part !== 'partial' && !/\.(zip|tar\.gz)$/.test(name)) continue;
      const file = await stat(join(directory, part, name)).catch(() => undefined);
      if (file?.isFile()) bytes += file.size;
    }
  }
  return bytes;
}

const versionOf = (index: number) => `1.0.${index}`;

/** Of a few documents that are being written. */
const DOCUMENTS_BYTES = 8_000;

async function begin(
  count = ARCHIVES,
  config: Record<string, unknown> = { limits: { disk: `${LIMIT}B` } },
): Promise<Scene> {
  const providers = Array.from({ length: count }, (_, index) => ({ version: versionOf(index), sizeBytes: SIZE }));
  return startScene({ providers, config });
}

const evictions = ({ larder }: Scene) => larder.log.filter(({ message }) => message === 'evicted');

describe('limits.disk', () => {
  it('holds under load of twice as much, without a client seeing an error', LOAD, async () => {
    const scene = await begin();
    const { dataDirectory } = scene.larder.setup;
    let isOver = false;
    let highest = 0;
    const watch = (async () => {
      while (!isOver) {
        highest = Math.max(highest, await usage(dataDirectory));
        await delay(10);
      }
    })();
    let random = 1;
    const next = () => {
      random = (random * 48_271) % 2_147_483_647;
      return random % ARCHIVES;
    };
    const client = async () => {
      for (let count = 0; count < 8; count += 1) {
        const index = next();
        const answer = await scene.archive(versionOf(index));
        expect(answer.status, answer.status === 200 ? '' : answer.text()).toBe(200);
        expect(answer.body.length).toBe(SIZE);
      }
    };
    await Promise.all(Array.from({ length: 30 }, client));
    isOver = true;
    await watch;
    expect(highest).toBeGreaterThan(LIMIT / 2);
    // Files that move while one looks are seen twice, and documents on their way are seen, too.
    expect(highest).toBeLessThanOrEqual(LIMIT + SIZE + DOCUMENTS_BYTES);
    expect(evictions(scene).length).toBeGreaterThan(0);
    const metrics = (await scene.get('/metrics')).text();
    expect(metrics).toContain(`larder_disk_limit_bytes ${LIMIT}`);
    expect(Number(/^larder_evictions_total (\d+)$/m.exec(metrics)?.[1])).toBe(evictions(scene).length);
    expect(Number(/^larder_disk_bytes (\d+)$/m.exec(metrics)?.[1])).toBeLessThanOrEqual(LIMIT);
  });
});

/** Numbers of the versions of the widget that are stored. */
async function present({ store }: House): Promise<number[]> {
  const list = await store.list(version(0).provider);
  return list.map(({ archive }) => Number(archive.version.toString().split('.')[2])).sort((a, b) => a - b);
}

async function fill(house: House, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) await house.bring(version(index));
}

/** What just came is not evicted yet. */
const notYoung = () => delay(600);

async function read({ store }: House, index: number): Promise<void> {
  const stored = await store.find(version(index));
  if (!stored) throw new Error(`${index} is not stored`);
  await buffer(await store.read(stored));
}

const PATIENCE_MS = 15_000;
const WALK_INTERVAL_MS = 10 * 60_000;
const WAITS = 'an arrival waits for room';

const FULL = { code: 'STORAGE_FAILED', full: true };

it('what is larger than the limit is refused with 507, which names the limit; what is stored is served on', async () => {
  const scene = await begin(1, { limits: { disk: `${SIZE - 1}B` } });
  const answer = await scene.archive(versionOf(0));
  expect(answer.status).toBe(507);
  expect(answer.text()).toContain('limits.disk');
});

describe('what is evicted', () => {
  it('is what was not used for the longest time, archives and packages alike, and some more than is needed', async () => {
    const house = await openHouse({ limit: 40 * UNIT });
    await fill(house, 38);
    await putPackage(house.modules, releaseOf('1.0.0'), Buffer.alloc(UNIT));
    await putPackage(house.modules, releaseOf('2.0.0'), Buffer.alloc(UNIT));
    // Looking is no use; reading is.
    await house.store.find(version(1));
    await read(house, 0);
    await notYoung();
    await house.bring(version(100));
    expect(house.quota.used).toBeLessThanOrEqual(40 * UNIT * 0.95);
    const left = await present(house);
    expect(left).toContain(0);
    expect(left).not.toContain(1);
    expect(left).toContain(37);
    expect(await collect(house.modules.modules())).toHaveLength(1);
    expect(house.log.filter(({ message }) => message === 'evicted')).toHaveLength(house.quota.evictions);
  });

  it('leaves behind what was first seen: checksums, and the records of packages', async () => {
    const house = await openHouse({ limit: 3 * UNIT });
    const release = releaseOf('1.0.0');
    const { sha256 } = await putPackage(house.modules, release, Buffer.alloc(UNIT));
    await fill(house, 4);
    expect(await house.modules.find(release)).toBeUndefined();
    expect(await house.modules.recall(release)).toMatchObject({ sha256 });
    expect(await present(house)).not.toContain(0);
    expect(await house.store.getRelease(version(0).provider, version(0).version)).toBeDefined();
    await expect(stat(join(house.directory, paths.lastUse, paths.archive(version(0))))).rejects.toThrow('ENOENT');
  });

  it('is never what is pinned; when that leaves no room, what comes is refused, and nothing goes in vain', async () => {
    const house = await openHouse({ limit: 4 * UNIT });
    await fill(house, 4);
    await house.pins.add([0, 1, 2].map((index) => Pin.parse(`registry.example.com/acme/*@1.0.${index}`)));
    await house.bring(version(4));
    expect(await present(house)).toEqual([0, 1, 2, 4]);
    await expect(house.bring(version(5), 2 * UNIT)).rejects.toMatchObject({
      ...FULL,
      message: expect.stringMatching(/limits\.disk \(4000 bytes; 3000 bytes are pinned/),
    });
    expect(await present(house)).toEqual([0, 1, 2, 4]);
    await expect(house.bring(version(6), 5 * UNIT)).rejects.toMatchObject(FULL);
  });

  it('is never what could be fetched with other bytes unnoticed: archives of which no checksums are kept', async () => {
    const house = await openHouse({ limit: 3 * UNIT, keepsChecksums: false });
    await fill(house, 3);
    await expect(house.bring(version(3))).rejects.toMatchObject(FULL);
    expect(await present(house)).toEqual([0, 1, 2]);
  });

  it('is never what somebody brought: packages that no upstream may have', async () => {
    const house = await openHouse({ limit: 3 * UNIT });
    await putPackage(house.modules, releaseOf('1.0.0'), Buffer.alloc(UNIT), { brought: true });
    await putPackage(house.modules, releaseOf('2.0.0'), Buffer.alloc(UNIT));
    await notYoung();
    await house.bring(version(0), 2 * UNIT);
    expect(await house.modules.find(releaseOf('2.0.0'))).toBeUndefined();
    expect(await house.modules.find(releaseOf('1.0.0'))).toMatchObject({ brought: true });
    await expect(house.bring(version(1), 3 * UNIT)).rejects.toMatchObject(FULL);
    expect(await house.modules.find(releaseOf('1.0.0'))).toBeDefined();
  });

  it('is nothing while the mirror is sealed: it could not be had again', async () => {
    const house = await openHouse({ limit: 3 * UNIT, isSealed: () => true });
    await fill(house, 3);
    await expect(house.bring(version(3))).rejects.toMatchObject(FULL);
    expect(await present(house)).toEqual([0, 1, 2]);
  });

  it('is nothing while it cannot be read what is pinned', async () => {
    const house = await openHouse({ limit: 3 * UNIT });
    await fill(house, 3);
    await writeFile(join(house.directory, paths.pins), '{"pins":');
    await expect(house.bring(version(3))).rejects.toMatchObject({ code: 'STORAGE_FAILED', full: false });
    expect(await present(house)).toEqual([0, 1, 2]);
  });

  it('is never what is being read: an arrival waits for its end', async () => {
    const house = await openHouse({ limit: 2 * UNIT });
    await fill(house, 2);
    const stored = await Promise.all([0, 1].map((index) => house.store.find(version(index))));
    const streams = await Promise.all(stored.map((one) => one && house.store.read(one)));
    const arriving = house.bring(version(2));
    await delay(1_000);
    expect(await present(house)).toEqual([0, 1]);
    const [first] = streams;
    if (!first) throw new Error('nothing to read');
    expect((await buffer(first)).length).toBe(UNIT);
    await arriving;
    expect(await present(house)).toEqual([1, 2]);
    streams[1]?.destroy();
  });

  it('is counted from what lies there, also what was put there by somebody else', async () => {
    const directory = await temporaryDirectory();
    const before = await openHouse({ directory });
    await fill(before, 6);
    await before.close();
    const house = await openHouse({ directory, limit: 4 * UNIT });
    await house.quota.settled();
    expect(house.quota.used).toBeLessThanOrEqual(4 * UNIT);
    expect(await present(house)).toEqual([3, 4, 5]);
    await rm(join(directory, paths.archive(version(4))));
    await house.use.walk();
    expect(house.quota.used).toBe(2 * UNIT);
  });

  it('is evicted once, however many processes there are', async () => {
    const directory = await temporaryDirectory();
    const one = await openHouse({ directory, limit: 6 * UNIT });
    await fill(one, 6);
    const other = await openHouse({ directory, limit: 6 * UNIT });
    await other.use.walk();
    await one.bring(version(6));
    const gone = one.quota.evictions;
    expect(gone).toBeGreaterThan(0);
    // It still counts what the other one evicted, and finds it gone when its turn comes.
    await other.bring(version(7));
    await other.use.walk();
    const left = await present(other);
    expect(left).toContain(7);
    expect(left.length).toBeGreaterThanOrEqual(4);
    expect(other.quota.used).toBe(left.length * UNIT);
  });

  it('follows the order of use through jumps of the clock', async () => {
    let now = Date.now();
    const house = await openHouse({ limit: 3 * UNIT, now: () => now });
    await fill(house, 3);
    const year = 365 * 24 * 3_600_000;
    now += year;
    await read(house, 0);
    await house.uses.flush();
    now -= year;
    await house.use.walk();
    now += 60_000;
    await read(house, 2);
    await notYoung();
    await house.bring(version(3));
    expect(await present(house)).toContain(2);
    expect(await present(house)).not.toContain(1);
    now -= 10 * year;
    await house.bring(version(4));
    expect(house.quota.used).toBeLessThanOrEqual(3 * UNIT);
    expect(await present(house)).toContain(4);
  });
});

describe('an arrival that waits for room', () => {
  /** Reads two archives that are stored, and does not come to an end. */
  async function held(house: House) {
    const streams = await Promise.all(
      [0, 1].map(async (index) => {
        const stored = await house.store.find(version(index));
        if (!stored) throw new Error(`${index} is not stored`);
        return house.store.read(stored);
      }),
    );
    return () => Promise.all(streams.map((stream) => buffer(stream)));
  }

  it('holds up no other that fits, be it as it is or once something is evicted', async () => {
    const house = await openHouse({ limit: 5 * UNIT });
    await fill(house, 3);
    await notYoung();
    const letGo = await held(house);
    let hasCome = false;
    const large = house.bring(version(10), 4 * UNIT).then(() => {
      hasCome = true;
    });
    await expect.poll(() => house.log.some(({ message }) => message === WAITS), { timeout: 10_000 }).toBe(true);
    await house.bring(version(11), 2 * UNIT);
    await house.bring(version(12), UNIT);
    expect(await present(house)).toEqual([0, 1, 11, 12]);
    expect(hasCome).toBe(false);
    await letGo();
    await large;
    expect(house.quota.used).toBeLessThanOrEqual(5 * UNIT);
  });

  it('takes up no room once it is given up', async () => {
    const house = await openHouse({ limit: 2 * UNIT });
    await fill(house, 2);
    const letGo = await held(house);
    const incoming = await house.store.receive(version(2));
    const waiting = incoming.expect(2 * UNIT).catch((error: unknown) => error);
    await expect.poll(() => house.log.some(({ message }) => message === WAITS), { timeout: 10_000 }).toBe(true);
    await incoming.abort();
    await letGo();
    expect(await waiting).toMatchObject({ code: 'STORAGE_FAILED' });
    await house.bring(version(3), 2 * UNIT);
    expect(await present(house)).toEqual([3]);
  });

  it('does not hold up the end', async () => {
    const house = await openHouse({ limit: 2 * UNIT });
    await fill(house, 2);
    const letGo = await held(house);
    const waiting = house.bring(version(2)).catch((error: unknown) => error);
    await expect.poll(() => house.log.some(({ message }) => message === WAITS), { timeout: 10_000 }).toBe(true);
    const before = performance.now();
    await house.quota.close();
    expect(await waiting).toMatchObject(FULL);
    expect(performance.now() - before).toBeLessThan(PATIENCE_MS / 2);
    await letGo();
  });
});

describe('what comes without having told its size', () => {
  async function bringInSteps(house: House, index: number, count: number): Promise<void> {
    const incoming = await house.store.receive(version(index));
    try {
      for (let step = 0; step < count; step += 1) await incoming.write(Buffer.alloc(UNIT, 'x'));
      await incoming.commit(sha256Hex(Buffer.alloc(UNIT * count, 'x')));
    } catch (error) {
      await incoming.abort();
      throw error;
    }
  }

  it('comes in when it fits, though it would not with what is set aside ahead of it', async () => {
    const house = await openHouse({ limit: 5 * UNIT });
    await bringInSteps(house, 0, 5);
    expect(await present(house)).toEqual([0]);
    expect(house.quota.used).toBe(5 * UNIT);
  });

  it('is refused at once when it does not: what it set aside itself is nothing to wait for', async () => {
    const house = await openHouse({ limit: 5 * UNIT });
    await house.bring(version(9));
    await house.pins.add([Pin.parse('registry.example.com/acme/*@1.0.9')]);
    const before = performance.now();
    await expect(bringInSteps(house, 0, 5)).rejects.toMatchObject(FULL);
    await expect(bringInSteps(house, 0, 6)).rejects.toMatchObject(FULL);
    expect(performance.now() - before).toBeLessThan(PATIENCE_MS / 2);
    // And gives back what it had.
    await house.bring(version(1), 4 * UNIT);
  });
});

describe('what lies there', () => {
  afterEach(() => void vi.useRealTimers());

  it('is waited for at the first look; later ones hold nobody up', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const directory = await temporaryDirectory();
    const uses = new LastUses({ directory, logger: silentLogger });
    const walks: ReturnType<typeof gate>[] = [];
    class SlowDisk extends DiskUse {
      override async walk(): Promise<number> {
        const walk = gate();
        walks.push(walk);
        await walk.passed;
        return 0;
      }
    }
    const quota = new Quota({
      limit: UNIT,
      use: new SlowDisk({ directory, uses }),
      holds: new Holds(),
      uses,
      pins: { look: async () => () => false } as unknown as Pins,
      isSealed: () => false,
      logger: silentLogger,
    });
    quota.begin({ archives: {}, packages: {} } as Parameters<Quota['begin']>[0]);
    let isReserved = false;
    const first = quota.reserve(UNIT).then((reservation) => {
      isReserved = true;
      return reservation;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isReserved).toBe(false);
    walks[0]?.open();
    (await first).release();
    await quota.settled();
    await vi.advanceTimersByTimeAsync(WALK_INTERVAL_MS);
    expect(walks).toHaveLength(2);
    (await quota.reserve(UNIT)).release();
    walks[1]?.open();
    await quota.close();
  });
});

const EVICTER = fileURLToPath(new URL('./interrupted-evictions.ts', import.meta.url));
const TSX = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;

it('a process killed while it evicts leaves nothing broken, and nothing that is not counted', LOAD, async () => {
  await Promise.all([0, 60].map(checkAfterKill));
});

async function checkAfterKill(afterMs: number): Promise<void> {
  const directory = await temporaryDirectory();
  const child = spawn(process.execPath, ['--import', TSX, EVICTER, directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  for await (const line of createInterface({ input: child.stdout })) if (line === 'evicting') break;
  await delay(afterMs);
  child.kill('SIGKILL');
  await exited;

  const house = await openHouse({ directory, limit: 5 * UNIT, logger: silentLogger });
  await house.quota.settled();
  const list = await house.store.list(version(0).provider);
  for (const stored of list) expect(await house.store.verify(stored)).toBe(true);
  expect(house.quota.used).toBe(await usage(directory));
  expect(house.quota.used).toBeLessThanOrEqual(5 * UNIT);
  expect(list.length).toBeGreaterThan(0);
}
