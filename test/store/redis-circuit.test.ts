import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { REDIS_TIME_LIMIT_MS, RedisCircuit, type RedisTrouble } from '../../src/store/redis-circuit.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Something that hangs, refuses or answers, and what was told of it. */
function circuit() {
  const redis: { answer: () => Promise<string>; probes: number } = { answer: async () => 'ok', probes: 0 };
  const told: string[] = [];
  const made = new RedisCircuit({
    probe: () => {
      redis.probes += 1;
      return redis.answer();
    },
    onTrouble: (state: string, { code }: RedisTrouble) => told.push(`${state} ${code}`),
    onWell: () => told.push('well'),
  });
  const run = () => made.run(() => redis.answer()).catch((error: unknown) => error);
  return { redis, told, circuit: made, run };
}

const hang = () => new Promise<never>(() => {});

it('R62: of many who come while it hangs, the first ones wait for the time limit, and nobody after them', async () => {
  const { redis, run, told } = circuit();
  redis.answer = hang;
  const first = run();
  await vi.advanceTimersByTimeAsync(REDIS_TIME_LIMIT_MS);
  expect(await first).toMatchObject({ code: 'TIMEOUT' });
  for (let second = 0; second < 60; second += 1) {
    // Without time passing.
    expect(await run()).toMatchObject({ code: 'TIMEOUT' });
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(told).toEqual(['away TIMEOUT']);
  expect(redis.probes).toBeGreaterThan(50);

  redis.answer = async () => 'ok';
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await run()).toBe('ok');
  expect(told).toEqual(['away TIMEOUT', 'well']);
});

it('of a hiccup nobody is told', async () => {
  const { redis, run, told } = circuit();
  redis.answer = hang;
  const late = run();
  await vi.advanceTimersByTimeAsync(REDIS_TIME_LIMIT_MS);
  await late;
  redis.answer = async () => 'ok';
  await vi.advanceTimersByTimeAsync(50);
  expect(await run()).toBe('ok');
  expect(told).toEqual([]);
});

it('R62: refusing, it is asked on, and tried until it carries out what it is asked', async () => {
  const { redis, run, told, circuit: made } = circuit();
  redis.answer = async () => {
    throw new Error("OOM command not allowed when used memory > 'maxmemory'.");
  };
  expect(await run()).toMatchObject({ message: expect.stringMatching(/^OOM/) });
  expect(made.trouble).toMatchObject({ code: 'OOM' });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(await run()).toMatchObject({ message: expect.stringMatching(/^OOM/) });
  await expect(made.test()).rejects.toMatchObject({ code: 'OOM' });
  redis.answer = async () => 'ok';
  await made.test();
  expect(made.trouble).toBeUndefined();
  expect(told).toEqual(['refusing OOM', 'well']);
});

it('an error about the command is none of Redis itself', async () => {
  const { redis, run, told, circuit: made } = circuit();
  redis.answer = async () => {
    throw new Error('WRONGTYPE Operation against a key holding the wrong kind of value');
  };
  await run();
  expect(made.trouble).toBeUndefined();
  expect(told).toEqual([]);
});

it('closed, it tries no more', async () => {
  const { redis, circuit: made } = circuit();
  redis.answer = hang;
  made.lost(new Error('gone'));
  made.close();
  const { probes } = redis;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(redis.probes - probes).toBeLessThanOrEqual(1);
});
