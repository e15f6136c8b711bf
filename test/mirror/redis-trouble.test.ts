import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { describeWith } from '../support/requirements.ts';
import {
  eventually,
  hashesIn,
  packageOf,
  platformsIn,
  startRegistry,
  startScene,
  versionsIn,
  WIDGET,
} from './scene.ts';

/** What a client may be kept waiting by Redis alone, on a busy machine. */
const SOON_MS = 4_000;

describeWith(['redis-server'], 'with Redis', () => {
  let redis: TestRedis;
  beforeAll(async () => {
    const started = await startRedis();
    if (!started) throw new Error('redis-server was there a moment ago');
    redis = started;
  });
  afterAll(() => redis?.stop());
  beforeEach(() => redis.restart());

  const config = () => ({ redis: { url: redis.url } });

  /** Everything a client asks for, none of it known before. */
  async function install({ index, version, archive }: Awaited<ReturnType<typeof startScene>>, type = 'widget') {
    const provider = `acme/${type}`;
    const started = performance.now();
    expect(versionsIn(await index(provider))).toEqual(['1.0.0']);
    expect(platformsIn(await version('1.0.0', provider))).toEqual(['linux_amd64']);
    expect((await archive('1.0.0', 'linux_amd64', { provider })).status).toBe(200);
    return performance.now() - started;
  }

  async function overwriteEverything(): Promise<number> {
    const keys = (await redis.command('KEYS', '*')) as string[];
    for (const key of keys) await redis.command('SET', key, '{"half of it');
    return keys.length;
  }

  const troubles: [string, () => unknown, (() => unknown) | undefined][] = [
    ['frozen', () => redis.pause(), () => redis.resume()],
    [
      'full',
      () => redis.command('CONFIG', 'SET', 'maxmemory', '1'),
      () => redis.command('CONFIG', 'SET', 'maxmemory', '0'),
    ],
    [
      'a read-only replica',
      () => redis.command('REPLICAOF', '127.0.0.1', '1'),
      () => redis.command('REPLICAOF', 'NO', 'ONE'),
    ],
    ['emptied', () => redis.command('FLUSHALL'), undefined],
    ['overwritten', () => overwriteEverything(), undefined],
    ['restarted', () => redis.restart(), undefined],
  ];

  it.each(troubles)(
    'R62: that is %s nothing known is lost, everything new is fetched, and nobody waits',
    async (_what, befall, mend) => {
      const scene = await startScene({ config: config(), providers: [{}, { type: 'gadget' }, { type: 'gizmo' }] });
      await install(scene);
      await befall();
      try {
        expect(await install(scene)).toBeLessThan(SOON_MS);
        expect(await install(scene, 'gadget')).toBeLessThan(SOON_MS);
      } finally {
        await mend?.();
      }
      await install(scene, 'gizmo');
      expect(scene.larder.log.filter(({ level }) => level === 'error')).toEqual([]);
    },
  );

  it('R62: that is away at start is no failure, and is used once it is there', async () => {
    const later = await startRedis({ started: false });
    try {
      const scene = await startScene({
        config: { redis: { url: later?.url } },
        providers: [{}, { type: 'gadget' }],
      });
      expect(await install(scene)).toBeLessThan(SOON_MS);
      const ready = await scene.get('/readyz');
      expect(ready.status).toBe(200);
      await later?.restart();
      await eventually(() => scene.larder.log.some(({ message }) => message.includes('redis answers again'))).toBe(
        true,
      );
      await install(scene, 'gadget');
      await eventually(async () => (await later?.command('KEYS', '*gadget*')) as string[]).not.toEqual([]);
    } finally {
      await later?.stop();
    }
  });

  it('R62: emptied while upstream is away, archives and hashes come from disk and nothing is "not found"', async () => {
    const registry = await startRegistry();
    const published = await registry.addProvider(WIDGET);
    const first = await startScene({ registry, config: config() });
    await install(first);
    await eventually(async () => hashesIn(await first.version('1.0.0'))).toHaveLength(2);
    await first.larder.close();
    await registry.stop();
    await redis.command('FLUSHALL');
    const { index, version, archive } = await startScene({ registry, setup: first.larder.setup });
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    const { h1, zh } = packageOf(published);
    expect(hashesIn(await version('1.0.0'))).toEqual([h1, zh]);
    expect((await archive()).status).toBe(200);
    expect((await index('acme/gadget')).status).toBe(502);
  });

  it('what one replica has learnt, another need not ask for', async () => {
    const registry = await startRegistry();
    await registry.addProvider(WIDGET);
    const first = await startScene({ registry, config: config() });
    await install(first);
    await eventually(async () => ((await redis.command('KEYS', '*')) as string[]).length).toBeGreaterThanOrEqual(4);
    registry.requests.clear();
    registry.releases.requests.clear();
    const second = await startScene({ registry, config: config() });
    await install(second);
    expect(registry.requests.all).toEqual([]);
    expect(registry.releases.requests.all.map(({ method }) => method)).toEqual(['GET']);
  });
});
