import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { RedisLeases } from '../../src/store/redis-leases.ts';
import { acquired, leasesContract } from '../contract/leases.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { describeWith } from '../support/requirements.ts';

/** Short, so that leases expire while somebody waits for it, and long enough for a busy machine. */
const TIMES = { ttlMs: 2_000, renewMs: 300 };
/** The limit of one command is 250 ms; the rest is for a loaded machine. */
const SOON_MS = 1_500;
const PATIENCE = { timeout: 15_000, interval: 50 };
const KEY = 'archive:h.example/ns/type';

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function redis(options?: Parameters<typeof startRedis>[0]): Promise<TestRedis> {
  const started = await startRedis(options);
  if (!started) throw new Error('no redis-server');
  stops.push(() => started.stop());
  return started;
}

async function replica(server: TestRedis, times = TIMES, logger = silentLogger): Promise<RedisLeases> {
  const leases = await RedisLeases.open({ url: server.url, logger, times });
  stops.push(() => leases.close());
  return leases;
}

/** Of a replica that died over it: nobody renews what it held. */
const NEVER = { ...TIMES, renewMs: 3_600_000 };

describeWith(['redis-server'], 'leases in Redis', () => {
  describe('sound', () => {
    let shared: TestRedis;
    beforeAll(async () => {
      shared = (await startRedis()) as TestRedis;
    });
    afterAll(() => shared.stop());

    leasesContract('Redis', async () => {
      const open = () => RedisLeases.open({ url: shared.url, logger: silentLogger });
      const [here, there] = await Promise.all([open(), open()]);
      return { here, there, close: async () => void (await Promise.all([here.close(), there.close()])) };
    });
  });

  it('whoever dies over it is succeeded within its time to live, and not before', async () => {
    const server = await redis();
    const lease = await acquired(await replica(server, NEVER), KEY);
    const began = performance.now();
    await lease.note('half of it');
    const other = await replica(server);
    expect(await other.acquire(KEY)).toEqual({ heldBy: { token: lease.token, text: 'half of it' } });
    await expect.poll(() => other.look(KEY), PATIENCE).toBeUndefined();
    expect(performance.now() - began).toBeGreaterThan(TIMES.ttlMs - 100);
    expect((await acquired(other, KEY)).token).toBeGreaterThan(lease.token);
  });

  it('whoever lives keeps it for as long as it takes', async () => {
    const server = await redis();
    const lease = await acquired(await replica(server), KEY);
    const other = await replica(server);
    for (const until = performance.now() + 2 * TIMES.ttlMs; performance.now() < until; ) {
      expect(await other.acquire(KEY)).toMatchObject({ heldBy: { token: lease.token } });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  });

  it('whoever stood still for too long holds it no longer once somebody else has it, and takes nothing from them', async () => {
    const server = await redis();
    const lease = await acquired(await replica(server, NEVER), KEY);
    const other = await replica(server);
    await expect.poll(() => other.look(KEY), PATIENCE).toBeUndefined();
    const successor = await acquired(other, KEY);
    await lease.note('I am back');
    await lease.release();
    expect(await other.look(KEY)).toEqual({ token: successor.token, text: undefined });
  });

  it('R62: FLUSHALL: the holder takes it again, and tokens go on growing', async () => {
    const server = await redis();
    const lease = await acquired(await replica(server), KEY);
    await lease.note('half of it');
    const before = lease.token;
    await server.command('FLUSHALL');
    const other = await replica(server);
    await expect.poll(() => other.look(KEY), PATIENCE).toMatchObject({ text: 'half of it' });
    await expect.poll(() => lease.token).toBeGreaterThan(before);
    expect(await other.acquire(KEY)).toEqual({ heldBy: { token: lease.token, text: 'half of it' } });
  });

  it('R62: down at start everybody has a lease at once, and shares it when Redis comes up', async () => {
    const server = await redis({ started: false });
    const logger = recordingLogger();
    const here = await replica(server, TIMES, logger);
    const began = performance.now();
    const lease = await acquired(here, KEY);
    await acquired(here, 'another');
    expect(performance.now() - began).toBeLessThan(SOON_MS);
    expect(lease.token).toBe(0);
    expect(here.unshared).toBe(2);
    expect(logger.lines.map(({ level }) => level)).toEqual(['warn']);
    await expect(here.look(KEY)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    await server.restart();
    await expect.poll(() => lease.token, PATIENCE).toBeGreaterThan(0);
    expect(await (await replica(server)).acquire(KEY)).toMatchObject({ heldBy: { token: lease.token } });
  });

  it('R62: paused nobody waits for it, and what was held is held on to when it goes on', async () => {
    const server = await redis();
    const here = await replica(server);
    const lease = await acquired(here, KEY);
    server.pause();
    const began = performance.now();
    const alone = await acquired(here, 'another');
    await lease.note('half of it');
    await alone.release();
    await expect(here.look(KEY)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    expect(performance.now() - began).toBeLessThan(2 * SOON_MS);
    expect(alone.token).toBe(0);
    // Until it has expired.
    await new Promise((resolve) => setTimeout(resolve, TIMES.ttlMs));
    server.resume();
    const other = await replica(server);
    await expect.poll(() => other.look(KEY), PATIENCE).toMatchObject({ text: 'half of it' });
    await expect.poll(async () => (await other.look(KEY))?.token === lease.token, PATIENCE).toBe(true);
  });

  it('R62: full or read-only it refuses, and everybody has a lease', async () => {
    const server = await redis();
    const here = await replica(server);
    await server.command('CONFIG', 'SET', 'maxmemory', '1');
    expect((await acquired(here, KEY)).token).toBe(0);
    await server.command('CONFIG', 'SET', 'maxmemory', '0');
    await server.command('REPLICAOF', '127.0.0.1', '1');
    expect((await acquired(here, 'another')).token).toBe(0);
    expect(here.unshared).toBe(2);
  });

  it('R62: what is no lease under its key is in nobody’s way', async () => {
    const server = await redis();
    const here = await replica(server);
    await server.command('SET', `larder:{leases}:${KEY}`, 'not a lease');
    expect(await here.look(KEY)).toBeUndefined();
    expect((await acquired(here, KEY)).token).toBeGreaterThan(0);
  });

  it('R62: paused it does not hold up closing', async () => {
    const server = await redis();
    const here = await replica(server);
    for (let index = 0; index < 20; index += 1) await acquired(here, `${index}`);
    server.pause();
    const began = performance.now();
    await here.close();
    expect(performance.now() - began).toBeLessThan(SOON_MS);
    server.resume();
  });
});
