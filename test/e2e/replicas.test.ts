import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { sha256Of } from '../support/byte-source.ts';
import { holdAfter } from '../support/faults.ts';
import type { HttpAnswer } from '../support/http.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import type { PublishedPackage } from '../support/published-provider.ts';
import { type Neighbourhood, neighbourhood } from '../support/replicas.ts';
import { describeWith } from '../support/requirements.ts';
import { startS3 } from '../support/s3.ts';

const CLIENTS = 100;
const SIZE = 2_000_000;
/** Most of it is for starting two processes on a busy machine. */
const PATIENCE = { timeout: 150_000 };
/** How long whoever dies holds others up, and what a busy machine adds to that. */
const LEASE_MS = 10_000;
const BUSY_MS = 10_000;

async function publish({ registry }: Neighbourhood, type: string, sizeBytes: number): Promise<PublishedPackage> {
  const published = await registry.addProvider({ namespace: 'acme', type, version: '1.0.0', sizeBytes });
  const archive = published.packages.get('linux_amd64');
  if (!archive) throw new Error('not published');
  return archive;
}

const pathOf = ({ registry }: Neighbourhood, { filename }: PublishedPackage) =>
  `/providers/${registry.hostname}/acme/${filename.split('_')[0]?.replace('terraform-provider-', '')}/${filename}`;

const upstreamGets = ({ registry }: Neighbourhood, { filename }: PublishedPackage) =>
  registry.releases.requests.filter('GET', new RegExp(`/${filename}`));

async function isWhole(answer: HttpAnswer, archive: PublishedPackage): Promise<boolean> {
  if (answer.status !== 200 || !archive.bytes) return false;
  return createHash('sha256').update(answer.body).digest('hex') === (await sha256Of(archive.bytes));
}

describeWith(['redis-server'], 'two replicas and one Redis', () => {
  // The server of the bucket is in this very process, and answers one request at a time.
  it.each([
    ['a directory', CLIENTS],
    ['a bucket', CLIENTS / 5],
  ])(
    'R24: cold clients spread over both, which share %s (%i clients): one upstream GET for each archive and module, and the same bytes for all',
    PATIENCE,
    async (place, count) => {
      const all = await neighbourhood(place === 'a bucket' ? { config: { s3: (await startS3()).settings } } : {});
      const { registry } = all;
      const archives = await Promise.all(['one', 'two', 'three', 'four'].map((type) => publish(all, type, SIZE)));
      const { url } = registry.addModuleArchive('/net-1.0.0.tar.gz', moduleTarGz({ 'main.tf': '# hello\n' }));
      registry.addModule({ namespace: 'acme', name: 'net', system: 'aws', version: '1.0.0', location: url });
      const replicas = [await all.start(), await all.start()] as const;
      const turn = (index: number) => (index % 2 ? replicas[1] : replicas[0]);
      // Slow enough that all of them come while it arrives.
      const hold = holdAfter(SIZE / 2);
      registry.releases.on(/^GET .*\.zip/, hold.fault);

      const path = `/registry/${registry.hostname}/v1/modules/acme/net/aws/1.0.0/download`;
      const modules = Array.from({ length: count / 5 }, (_, index) => all.get(turn(index), path));
      const clients = Array.from({ length: count }, async (_, index) => {
        const archive = archives[Math.floor(index / 2) % archives.length] as PublishedPackage;
        return isWhole(await all.get(turn(index), pathOf(all, archive)), archive);
      });
      await hold.reached;
      setTimeout(hold.release, 1_000);
      expect((await Promise.all(clients)).filter((whole) => whole)).toHaveLength(count);

      const told = (await Promise.all(modules)).map(({ status, headers }) => [status, headers['x-terraform-get']]);
      expect(new Set(told.map(String)).size).toBe(1);
      expect(told[0]?.[0]).toBe(204);
      // Where a busy machine kept Redis from answering in time, a replica has said so and gone on by itself.
      const unshared = await Promise.all(
        replicas.map(async (replica) => {
          const [, count] =
            /^larder_leases_unshared_total (\d+)$/m.exec((await all.get(replica, '/metrics')).text()) ?? [];
          return Number(count);
        }),
      );
      const most = 1 + unshared.reduce((sum, one) => sum + one, 0);
      const gets = [
        ...archives.map((archive) => upstreamGets(all, archive).length),
        registry.releases.requests.count('GET', /net-1\.0\.0/),
      ];
      expect(Math.min(...gets)).toBe(1);
      expect(Math.max(...gets), gets.join()).toBeLessThanOrEqual(most);
      const unfinished = () => readdir(join(all.setup.dataDirectory, 'partial')).catch(() => []);
      await expect.poll(unfinished, { timeout: 10_000 }).toEqual([]);
    },
  );

  it(
    'R24: killed in mid-download, the other replica goes on where it ended, within the lease, and nobody notices',
    PATIENCE,
    async () => {
      const all = await neighbourhood();
      const archive = await publish(all, 'widget', SIZE);
      const path = pathOf(all, archive);
      const [leader, other] = [await all.start(), await all.start()];
      const hold = holdAfter(SIZE / 2);
      all.registry.releases.on(/^GET .*\.zip/, hold.fault, { times: 1 });
      const cut = all.get(leader, path).catch((error: unknown) => error);
      await hold.reached;
      const followers = Array.from({ length: 20 }, () => all.get(other, path));
      const partial = () => sizeOfPartial(all);
      await expect.poll(partial, { timeout: 10_000 }).toBe(SIZE / 2);

      leader.signal('SIGKILL');
      await leader.ended;
      const diedAt = performance.now();
      expect(await cut).toBeInstanceOf(Error);
      const answers = await Promise.all(followers);
      expect(performance.now() - diedAt).toBeLessThan(LEASE_MS + BUSY_MS);
      for (const answer of answers) expect(await isWhole(answer, archive)).toBe(true);
      const gets = upstreamGets(all, archive);
      expect(gets.map(({ headers }) => headers.range)).toEqual([undefined, `bytes=${SIZE / 2}-`]);
    },
  );
});

async function sizeOfPartial({ setup }: Neighbourhood): Promise<number> {
  const directory = join(setup.dataDirectory, 'partial');
  const sizes = await Promise.all(
    (await readdir(directory)).map(async (name) => (await stat(join(directory, name))).size),
  );
  return Math.max(0, ...sizes);
}
