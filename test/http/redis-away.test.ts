import { expect, it } from 'vitest';
import { OPS, startWarmScene } from '../mirror/warm-scene.ts';

/** Where nothing listens. */
const REDIS = 'redis://127.0.0.1:1';

it('R62: while Redis is away jobs are not to be had, and whoever wants one is told that it is Redis', async () => {
  const scene = await startWarmScene({ config: { redis: { url: REDIS } } });
  const wish = JSON.stringify({ providers: [`${scene.registry.hostname}/acme/widget`] });
  const begun = await scene.get('/admin/warm', {
    method: 'POST',
    headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' },
    body: wish,
  });
  for (const answer of [
    begun,
    await scene.admin('GET', 'jobs'),
    await scene.admin('GET', 'jobs/01234567'),
    await scene.admin('POST', 'jobs/01234567/cancel'),
  ]) {
    expect([answer.status, answer.json().code]).toEqual([503, 'REDIS_UNAVAILABLE']);
    expect(answer.json().errors[0]).toMatch(
      /^Redis does not answer as it should \(metadata \w+ failed \(\w+\)\); no job /,
    );
  }
  const text = (await scene.get('/metrics')).text();
  expect(text).toContain('larder_ready{check="archives"} 1');
  expect(text).toContain('larder_ready{check="metadata"} 0');
});
