import { expect, it } from 'vitest';
import { startCluster, startWatched } from '../support/redis-topologies.ts';
import { describeWith } from '../support/requirements.ts';
import { expectRecovery, expectUsual, goThrough, landsIn, PASSWORD, redisScene, SOON } from './redis-scene.ts';

/** Nobody listens there. */
const DEAD = '127.0.0.1:1';

describeWith(['terraform', 'redis-server'], 'init while', () => {
  it('R62: Sentinels make another server the master', { timeout: 120_000 }, async () => {
    const sentinelPassword = `${PASSWORD}-of-sentinel`;
    const { master, replica, sentinelPort } = await startWatched({ password: PASSWORD, sentinelPassword });
    const scene = await redisScene({
      url: `redis+sentinel://:${PASSWORD}@${DEAD},127.0.0.1:${sentinelPort}/main/0`,
      sentinel: { password: sentinelPassword },
    });
    await goThrough(scene, {
      befall: () => master.kill(),
      // Nothing but waiting for the Sentinel.
      mend: () => expect.poll(async () => String(await replica.command('ROLE')), SOON).toContain('master'),
      reason: /^using redis failed \(\w+\)$/,
      hasLanded: (wish) => landsIn(wish === 'ordinary' ? master : replica)(wish),
    });
  });

  it('R62: one node of a cluster is down', { timeout: 120_000 }, async () => {
    const nodes = await startCluster({ password: PASSWORD });
    const [first, second, third] = nodes;
    if (!first || !second || !third) throw new Error('there are three');
    const scene = await redisScene({
      url: `redis+cluster://:${PASSWORD}@${DEAD},127.0.0.1:${first.port},127.0.0.1:${second.port}`,
    });
    await goThrough(scene, {
      befall: () => second.kill(),
      mend: () => second.restart(),
      reason: /^using redis failed \(\w+\)$/,
      // The others may refuse for a moment, while they find out about it.
      most: nodes.length,
      hasLanded: landsIn(...nodes),
    });
    // Each has its part.
    await expect
      .poll(async () => Promise.all([first, third].map(async (node) => Number(await node.command('DBSIZE')))), SOON)
      .toEqual([expect.toSatisfy((n: number) => n > 0), expect.toSatisfy((n: number) => n > 0)]);
  });

  it('R62: all nodes of a cluster are down, at the start as well', { timeout: 120_000 }, async () => {
    const nodes = await startCluster({ password: PASSWORD });
    for (const node of nodes) node.pause();
    const scene = await redisScene({
      url: `redis+cluster://:${PASSWORD}@${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    });
    await expectUsual(scene);
    for (const node of nodes) node.resume();
    await expectRecovery(scene, landsIn(...nodes));
  });
});
