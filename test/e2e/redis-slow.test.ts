import { expect, it } from 'vitest';
import { describeWith } from '../support/requirements.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import {
  COMES_BACK,
  expectRecovery,
  expectUsual,
  GOES,
  goThrough,
  landsIn,
  redisOf,
  redisScene,
  SOON,
} from './redis-scene.ts';

describeWith(['terraform', 'redis-server'], 'init while Redis', () => {
  it('R62: takes 300 ms for each answer', { timeout: 90_000 }, async () => {
    const redis = await redisOf();
    const proxy = await startTcpProxy(redis.port);
    const scene = await redisScene({ url: redis.url.replace(String(redis.port), String(proxy.port)) });
    await goThrough(scene, {
      befall: () => {
        proxy.delayMs = 300;
      },
      mend: () => {
        proxy.delayMs = 0;
      },
      reason: /^using redis failed \(TIMEOUT\)$/,
      hasLanded: landsIn(redis),
    });
  });

  it('R62: sleeps for some seconds', { timeout: 90_000 }, async () => {
    const redis = await redisOf({ arguments: ['--enable-debug-command', 'yes'] });
    const scene = await redisScene({ url: redis.url });
    let sleeping: Promise<unknown> | undefined;
    await goThrough(scene, {
      befall: () => {
        sleeping = redis.command('DEBUG', 'SLEEP', '6');
      },
      mend: () => sleeping,
      reason: /^using redis failed \(\w+\)$/,
      hasLanded: landsIn(redis),
    });
  });

  it('R62: breaks connections in the middle of its answers', { timeout: 90_000 }, async () => {
    const redis = await redisOf();
    const proxy = await startTcpProxy(redis.port);
    const scene = await redisScene({ url: redis.url.replace(String(redis.port), String(proxy.port)) });
    await scene.init('ordinary');
    await scene.init('troubled');
    await expect.poll(() => landsIn(redis)('troubled'), SOON).toBe(true);
    // What it remembers it would not ask for.
    await scene.larder.close();
    proxy.cuts = 3;
    await scene.restart();
    await expectUsual(scene);
    expect(proxy.cuts).toBeLessThan(3);
    proxy.cuts = 0;
    await expectRecovery(scene, landsIn(redis));
    expect(scene.said(GOES).length).toBe(scene.said(COMES_BACK).length);
  });
});
