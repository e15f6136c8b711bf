import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { holdAnswer } from '../support/faults.ts';
import { startRedis } from '../support/redis.ts';
import { describeWith } from '../support/requirements.ts';
import { doorsFor, startWarmScene } from './warm-scene.ts';

describeWith(['redis-server'], 'replicas with a common Redis', () => {
  it('show and cancel jobs of each other, and one goes on with what another one leaves', {
    timeout: 60_000,
  }, async () => {
    const redis = await startRedis();
    if (!redis) throw new Error('there is a Redis');
    afterTest(() => redis.stop());
    const config = { redis: { url: redis.url } };
    const one = await startWarmScene({ config });
    const two = await startWarmScene({ config, registry: one.registry });
    const other = doorsFor(two.get);
    const hold = holdAnswer();
    one.registry.releases.on(/\.zip/, hold.fault);
    const wish = { providers: [`${one.registry.hostname}/acme/widget`] };

    const cancelled = await one.warm(wish);
    await hold.reached;
    expect((await other.admin('GET', 'jobs')).json().jobs).toMatchObject([{ id: cancelled, state: 'running' }]);
    await other.admin('DELETE', `jobs/${cancelled}`);
    expect((await other.ended(cancelled)).state).toBe('cancelled');

    const left = await one.warm(wish);
    await expect.poll(async () => (await other.job(left)).totals.items).toBe(1);
    hold.cut();
    one.registry.heal();
    await one.larder.close();
    const { state, totals } = await other.ended(left);
    expect([state, totals.failed]).toEqual(['finished', 0]);
    expect((await two.archive()).status).toBe(200);
  });
});
