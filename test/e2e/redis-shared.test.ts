import { expect, it } from 'vitest';
import { doorsFor, OPS } from '../mirror/warm-scene.ts';
import { afterTest } from '../support/after-test.ts';
import { holdAnswer } from '../support/faults.ts';
import { HttpClient, type HttpOptions } from '../support/http.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import { larderSetup } from '../support/larder-setup.ts';
import type { TestRedis } from '../support/redis.ts';
import { describeWith } from '../support/requirements.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';
import { PASSWORD, redisOf, SOON } from './redis-scene.ts';

const CI = 'token-of-the-builds';

const troubles: [string, (redis: TestRedis) => unknown, (redis: TestRedis) => unknown][] = [
  ['down', (redis) => redis.kill(), (redis) => redis.restart()],
  ['paused', (redis) => redis.pause(), (redis) => redis.resume()],
];

/** Two that have nothing but Redis in common, and a third on the data directory of the first. */
async function replicas(redis: TestRedis) {
  const registry = await UpstreamRegistry.start();
  afterTest(() => registry.stop());
  for (const type of ['before', 'held', 'during', 'after']) {
    await registry.addProvider({ namespace: 'acme', type, version: '1.0.0' });
  }
  const tokens = [
    { name: 'ops', token: OPS, roles: ['admin', 'read'] },
    { name: 'ci', token: CI, roles: ['read'] },
  ];
  const config = { listen: { drainDelay: null }, redis: { url: redis.url }, access: { anonymous: 'none', tokens } };
  const [one, two] = [
    await larderSetup({ registries: [registry], config }),
    await larderSetup({ registries: [registry], config }),
  ];
  return {
    registry,
    first: await replica(await startLarder({ setup: one }), registry),
    distant: await replica(await startLarder({ setup: two }), registry),
    beside: await replica(await startLarder({ setup: one }), registry),
  };
}

async function replica(larder: Larder, registry: UpstreamRegistry) {
  const http = new HttpClient({ ca: larder.ca });
  afterTest(() => http.close());
  const get = (path: string, options?: HttpOptions) => http.get(`${larder.url}${path}`, options);
  const directory = (type: string) => `/providers/${registry.hostname}/acme/${type}/`;
  return {
    ...doorsFor(get),
    larder,
    get,
    /** The link for an archive, as a client is given it. */
    async link(type: string): Promise<string> {
      const version = await get(`${directory(type)}1.0.0.json`, { headers: { authorization: `Bearer ${CI}` } });
      expect(version.status, version.text()).toBe(200);
      return new URL(version.json().archives.linux_amd64.url, `https://localhost${directory(type)}`).pathname;
    },
    async isSealed(): Promise<boolean> {
      return (await get('/readyz')).json().sealed ?? false;
    },
    seal: (sealed: boolean) =>
      get('/admin/seal', {
        method: 'PUT',
        headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' },
        body: JSON.stringify({ sealed }),
      }),
  };
}

describeWith(['redis-server'], 'what replicas share through Redis', () => {
  it.each(troubles)(
    'R62: goes on in each of them while it is %s, and is shared again afterwards: links, leases, jobs, the seal',
    { timeout: 120_000 },
    async (_what, befall, mend) => {
      const redis = await redisOf();
      const { registry, first, distant, beside } = await replicas(redis);
      const given = await first.link('before');
      const held = await first.link('held');
      expect((await distant.get(given)).status).toBe(200);

      const hold = holdAnswer();
      registry.releases.on(/^GET .*held.*\.zip/, hold.fault);
      const job = await first.warm({ providers: [`${registry.hostname}/acme/held`] });
      await hold.reached;

      await befall(redis);
      // Links: those that were given and those that are.
      expect((await distant.get(given)).status).toBe(200);
      const link = await distant.link('during');
      expect((await first.get(link)).status).toBe(200);
      // Leases: whoever wants it fetches it.
      expect((await Promise.all([first, beside].map(({ get }) => get(link)))).map(({ status }) => status)).toEqual([
        200, 200,
      ]);
      // Jobs: what is under way goes on.
      hold.release();
      await expect.poll(async () => (await first.get(held, { method: 'HEAD' })).status, SOON).toBe(200);
      // The seal: where it was said, at once.
      expect((await first.seal(true)).status).toBe(200);
      expect(await first.isSealed()).toBe(true);

      await mend(redis);
      await expect.poll(() => distant.isSealed(), SOON).toBe(true);
      expect((await distant.seal(false)).status).toBe(200);
      await expect.poll(() => first.isSealed(), SOON).toBe(false);
      await expect.poll(() => beside.isSealed(), SOON).toBe(false);
      expect(await distant.ended(job)).toMatchObject({ state: 'finished', totals: { failed: 0 } });
      for (const { get } of [first, beside]) {
        await expect.poll(async () => (await get('/readyz')).json().status, SOON).toBe('ready');
      }
      const later = await first.link('after');
      const answers = await Promise.all([first, beside].flatMap(({ get }) => [get(later), get(later)]));
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      expect(registry.releases.requests.count('GET', /after.*\.zip$/)).toBe(1);

      for (const { larder } of [first, distant, beside]) {
        const shown = larder.log.map((entry) => JSON.stringify(entry) + String(entry.fields['error']));
        expect(shown.filter((line) => line.includes(PASSWORD))).toEqual([]);
      }
    },
  );
});
