import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { startBalancer } from '../support/balancer.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { neighbourhood } from '../support/replicas.ts';
import { describeWith } from '../support/requirements.ts';

const REQUESTS = 10_000;
const CLIENTS = 16;
/** Between two requests of one client, in milliseconds. */
const PAUSE_MS = 30;
const PROVIDERS = 40;
/** So many are fetched by whoever asks first, the others beforehand: a cold stampede is not what this is about. */
const COLD = 6;
const SIZE = 200_000;
/** Four processes are started, one after the other. */
const PATIENCE = { timeout: 480_000 };

/** Paths of each provider among what is wanted. */
const DOORS = 5;

interface Wanted {
  readonly path: string;
  readonly status: number;
  /** Bytes; any for what is made by Larder. */
  readonly size?: number;
}

describeWith(['redis-server'], 'two replicas behind a load balancer', () => {
  it(
    'a rolling restart of both: ten thousand requests of clients that retry nothing, and none fails',
    PATIENCE,
    async () => {
      const all = await neighbourhood({ config: { listen: { drainDelay: '3s' }, log: { level: 'info' } } });
      const wanted = await publish(all.registry);
      const balancer = await startBalancer({ ca: all.setup.ca });
      let [first, second] = [await all.start(), await all.start()];
      balancer.add(first);
      balancer.add(second);
      await expect.poll(() => balancer.ready, { timeout: 30_000 }).toBe(2);
      for (const { path } of wanted.slice(COLD * DOORS)) await all.get(first, path);

      const failures: string[] = [];
      let done = 0;
      let isOver = false;
      const client = async (number: number) => {
        const dispatcher = new Agent({ connections: 1, connect: { ca: all.setup.ca }, keepAliveTimeout: 60_000 });
        afterTest(() => dispatcher.destroy());
        for (let turn = number; !isOver || done < REQUESTS; turn += 1) {
          // Each has its own order of them: some meet at what is cold, some do not.
          const { path, status, size } = wanted[(turn * (2 * number + 1)) % wanted.length] as Wanted;
          try {
            const answer = await request(`${balancer.url}${path}`, { dispatcher });
            const { byteLength } = await answer.body.arrayBuffer();
            if (answer.statusCode !== status || (size !== undefined && byteLength !== size)) {
              failures.push(`${path}: ${answer.statusCode}, ${byteLength} bytes`);
            }
          } catch (error) {
            failures.push(`${path}: ${error}`);
          }
          done += 1;
          await delay(PAUSE_MS);
        }
      };
      const clients = Array.from({ length: CLIENTS }, (_, index) => client(index));

      for (const [index, old] of [first, second].entries()) {
        await expect.poll(() => done, { timeout: 120_000 }).toBeGreaterThan(REQUESTS * (0.1 + 0.4 * index));
        old.signal('SIGTERM');
        expect(await old.ended).toEqual({ code: 0, signal: undefined });
        const next = await all.start();
        [first, second] = [second, next];
        balancer.add(next);
        await expect.poll(() => balancer.ready, { timeout: 30_000 }).toBe(2);
      }
      isOver = true;
      await Promise.all(clients);
      expect(failures).toEqual([]);
      expect(done).toBeGreaterThanOrEqual(REQUESTS);
      // Not even by replicas that came and went was anything fetched twice.
      const fetched = all.registry.releases.requests.filter(/^GET .*\.zip/).map(({ path }) => path);
      expect(fetched).toHaveLength(PROVIDERS);
    },
  );
});

async function publish(registry: Awaited<ReturnType<typeof neighbourhood>>['registry']): Promise<Wanted[]> {
  const wanted: Wanted[] = [];
  for (let index = 0; index < PROVIDERS; index += 1) {
    const type = `number${index}`;
    const about = { namespace: 'acme', type, version: '1.0.0', sizeBytes: SIZE };
    const { filename = '' } = (await registry.addProvider(about)).packages.get('linux_amd64') ?? {};
    const mirror = `/providers/${registry.hostname}/acme/${type}`;
    const door = `/registry/${registry.hostname}/v1/providers/acme/${type}`;
    wanted.push({ path: `${mirror}/index.json`, status: 200 });
    wanted.push({ path: `${mirror}/1.0.0.json`, status: 200 });
    wanted.push({ path: `${mirror}/${filename}`, status: 200, size: SIZE });
    wanted.push({ path: `${door}/versions`, status: 200 });
    wanted.push({ path: `${door}/1.0.0/download/linux/amd64`, status: 200 });
  }
  const { url } = registry.addModuleArchive('/net-1.0.0.tar.gz', moduleTarGz({ 'main.tf': '# hello\n' }));
  registry.addModule({ namespace: 'acme', name: 'net', system: 'aws', version: '1.0.0', location: url });
  const module = `/registry/${registry.hostname}/v1/modules/acme/net/aws`;
  wanted.push({ path: `${module}/versions`, status: 200 }, { path: `${module}/1.0.0/download`, status: 204 });
  return wanted;
}
