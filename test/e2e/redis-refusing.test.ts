import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import type { TestRedis } from '../support/redis.ts';
import { describeWith } from '../support/requirements.ts';
import { expectUsual, GOES, goThrough, landsIn, PASSWORD, redisOf, redisScene, SOON } from './redis-scene.ts';

/** What is written of Larder's permissions in the documentation. */
const COMMANDS =
  '+get +getrange +set +unlink +del +hget +hmget +hset +type +pexpire +time +eval +@connection +cluster|slots';
const ENOUGH = ['~larder:*', ...COMMANDS.split(' ')];

describeWith(['terraform', 'redis-server'], 'init while Redis', () => {
  it('R62: is full, and does not evict', { timeout: 90_000 }, async () => {
    const redis = await redisOf();
    const scene = await redisScene({ url: redis.url });
    await goThrough(scene, {
      befall: () => redis.command('CONFIG', 'SET', 'maxmemory', '1'),
      mend: () => redis.command('CONFIG', 'SET', 'maxmemory', '0'),
      reason: /^using redis failed \(OOM\)$/,
      hasLanded: landsIn(redis),
    });
  });

  it('R62: evicts', { timeout: 90_000 }, async () => {
    const redis = await redisOf({ arguments: ['--maxmemory-policy', 'allkeys-lru'] });
    const scene = await redisScene({ url: redis.url });
    await goThrough(scene, {
      befall: async () => {
        await redis.command('CONFIG', 'SET', 'maxmemory', '3mb');
        for (let n = 0; n < 60; n++) await redis.command('SET', `somebody-elses-${n}`, 'x'.repeat(100_000));
        expect(Number(/evicted_keys:(\d+)/.exec(String(await redis.command('INFO', 'stats')))?.[1])).toBeGreaterThan(0);
      },
      hasLanded: landsIn(redis),
    });
  });

  it('R62: has become a replica, which nobody may write to', { timeout: 90_000 }, async () => {
    const redis = await redisOf();
    const scene = await redisScene({ url: redis.url });
    await goThrough(scene, {
      befall: () => redis.command('REPLICAOF', '127.0.0.1', '1'),
      mend: () => redis.command('REPLICAOF', 'NO', 'ONE'),
      reason: /^using redis failed \(READONLY\)$/,
      hasLanded: landsIn(redis),
    });
  });

  it('does not let its user do enough, whose password is in a file', { timeout: 90_000 }, async () => {
    const directory = await mkdtemp(join(tmpdir(), 'larder-redis-user-'));
    afterTest(() => rm(directory, { recursive: true, force: true }));
    const passwordFile = join(directory, 'password');
    await writeFile(passwordFile, `${PASSWORD} with a space\n`);
    const redis = await redisOf();
    const permit = (...rules: string[]) =>
      redis.command('ACL', 'SETUSER', 'larder', 'reset', 'on', `>${PASSWORD} with a space`, ...rules);
    await permit(...ENOUGH);
    const scene = await redisScene({ url: redis.url.replace(/\/\/.*@/, '//larder@'), passwordFile });
    await goThrough(scene, {
      befall: () => permit('~larder:*', '+@read'),
      mend: () => permit(...ENOUGH),
      reason: /^using redis failed \(NOPERM\)$/,
      hasLanded: landsIn(redis),
    });
  });

  it('R62: is flushed', { timeout: 90_000 }, async () => {
    const redis = await redisOf();
    const scene = await redisScene({ url: redis.url });
    await goThrough(scene, { befall: () => redis.command('FLUSHALL'), hasLanded: landsIn(redis) });
  });

  it('R62: holds nonsense under every key, and replaces it', { timeout: 90_000 }, async () => {
    const redis = await redisOf();
    const scene = await redisScene({ url: redis.url });
    await scene.init('troubled');
    await goThrough(scene, {
      befall: async () => {
        // Nothing is remembered that would be believed instead.
        await scene.larder.close();
        await spoil(redis);
        await scene.restart();
      },
      hasLanded: landsIn(redis),
    });
    await expectUsual(scene);
    expect(scene.said(GOES)).toEqual([]);
    await expect.poll(() => readable(redis), SOON).toBe(true);
  });
});

/** Of each kind of nonsense some. */
async function spoil(redis: TestRedis): Promise<void> {
  const keys = ((await redis.command('KEYS', '*')) as string[]).sort();
  expect(keys.length).toBeGreaterThan(8);
  const future = Date.now() + 365 * 86_400_000;
  const nonsense = [
    '{"half of it',
    '[]',
    '{"value":{"found":{"versions":"many"}},"expires":null}',
    '{"value":{"value":{"found":42},"fetchedAt":1}}',
    `{"value":{"value":{"found":[]},"fetchedAt":${Date.now()}}}`,
    `{"value":{"value":{"absent":"there is no such thing"},"fetchedAt":${future}}}`,
    `{"value":{"value":{"found":{}},"fetchedAt":${future}}}`,
    '\u0000\u00ff',
  ];
  for (const [index, key] of keys.entries()) {
    await redis.command('DEL', key);
    if (index % 10 === 8) await redis.command('RPUSH', key, 'a list');
    // As large as Redis lets values be would take minutes to write; this is more than is ever read.
    else if (index % 10 === 9) await redis.command('SETRANGE', key, String(64 * 1024 * 1024), 'x');
    else await redis.command('SET', key, nonsense[index % 10] ?? '');
  }
}

/** All lists of versions are sound ones. */
async function readable(redis: TestRedis): Promise<boolean> {
  const keys = (await redis.command('KEYS', 'larder::*:versions:*')) as string[];
  const values = await Promise.all(keys.map((key) => redis.command('GET', key)));
  return values.length > 0 && values.every((value) => String(value).startsWith('{"value":{"value":{"found":'));
}
