import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { afterTest } from './after-test.ts';
import { startRedis, startServer, type TestRedis, unusedPort } from './redis.ts';
import { requirement } from './requirements.ts';

const SOON = { timeout: 20_000, interval: 100 };

/** A server, a replica of it, and a Sentinel that makes the one of the other when it is gone for a second. */
export interface Watched {
  readonly master: TestRedis;
  readonly replica: TestRedis;
  readonly sentinelPort: number;
}

/** Everything is stopped at the end of the test. */
export async function startWatched(options: { password: string; sentinelPassword: string }): Promise<Watched> {
  const { password, sentinelPassword } = options;
  const master = await started({ password, arguments: ['--masterauth', password, '--repl-diskless-sync-delay', '0'] });
  const replica = await started({
    password,
    arguments: ['--masterauth', password, '--replicaof', '127.0.0.1', String(master.port)],
  });
  const online = async () => String(await master.command('INFO', 'replication'));
  await expect.poll(online, SOON).toContain('state=online');

  const directory = await mkdtemp(join(tmpdir(), 'larder-sentinel-'));
  const sentinelPort = await unusedPort();
  const file = join(directory, 'sentinel.conf');
  const lines = [
    `port ${sentinelPort}`,
    'bind 127.0.0.1',
    `dir ${directory}`,
    `requirepass ${sentinelPassword}`,
    `sentinel monitor main 127.0.0.1 ${master.port} 1`,
    'sentinel down-after-milliseconds main 1000',
    'sentinel failover-timeout main 5000',
    `sentinel auth-pass main ${password}`,
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  const program = requirement('redis-server').path as string;
  // Knows the replica by then.
  const sentinel = await startServer(program, [file, '--sentinel'], '+slave');
  afterTest(async () => {
    sentinel.kill('SIGKILL');
    await rm(directory, { recursive: true, force: true });
  });
  return { master, replica, sentinelPort };
}

/** Three nodes with a third of the keys each. Without one of them the others go on. */
export async function startCluster(options: { password: string }): Promise<readonly TestRedis[]> {
  const nodes = await Promise.all(
    [1, 2, 3].map(async () => {
      const bus = await unusedPort();
      const flags = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000', '--cluster-port', String(bus)];
      const more = ['--cluster-require-full-coverage', 'no', '--masterauth', options.password];
      return { bus, redis: await started({ password: options.password, arguments: [...flags, ...more] }) };
    }),
  );
  const bounds = [0, 5461, 10_923, 16_384];
  for (const [index, { redis }] of nodes.entries()) {
    await redis.command('CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1));
    const [from = 0, to = 0] = bounds.slice(index, index + 2);
    await redis.command('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to - 1));
  }
  const [first, ...others] = nodes;
  for (const { redis, bus } of others) {
    await first?.redis.command('CLUSTER', 'MEET', '127.0.0.1', String(redis.port), String(bus));
  }
  for (const { redis } of nodes) {
    const info = async () => String(await redis.command('CLUSTER', 'INFO'));
    await expect.poll(info, SOON).toMatch(/cluster_state:ok[\s\S]*cluster_slots_ok:16384[\s\S]*cluster_known_nodes:3/);
  }
  return nodes.map(({ redis }) => redis);
}

async function started(options: Parameters<typeof startRedis>[0]): Promise<TestRedis> {
  const redis = await startRedis(options);
  if (!redis) throw new Error('no redis-server');
  afterTest(() => redis.stop());
  return redis;
}
