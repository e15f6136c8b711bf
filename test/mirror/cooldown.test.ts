import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import type { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import type { MetadataRead } from '../../src/cache/metadata-cache.ts';
import { UpstreamUnreachable } from '../../src/errors.ts';
import { silentLogger } from '../../src/logger.ts';
import { Cooldown } from '../../src/mirror/cooldown.ts';
import { FirstSeen } from '../../src/mirror/first-seen.ts';
import type { MetadataStore } from '../../src/store/metadata-store.ts';
import type { Upstream } from '../../src/upstream/upstream.ts';
import { archiveOf } from '../contract/archive-store.ts';
import { afterTest } from '../support/after-test.ts';
import { json, reset } from '../support/faults.ts';
import { startLarder } from '../support/larder.ts';
import type { PublishedVersion } from '../support/published-provider.ts';
import { moduleVersionsIn, publishNet, startModuleScene } from './module-scene.ts';
import { platformsIn, type Scene, startClient, startScene, stoppedClock, versionsIn, WIDGET } from './scene.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const WEEK = { default: '7d' };
const PLATFORMS = ['linux_amd64', 'darwin_arm64'];

/** What caches remember of the time, at most. */
const CACHED_TIME_MS = 20;

type Entry = Parameters<MetadataStore['put']>[1];
type Publish = (version: string) => Promise<PublishedVersion>;

/** Larder that asks for an age of seven days, has seen 1.0.0 at its first look, and 1.1.0 just now. */
async function begin(cooldown: Record<string, unknown> = WEEK) {
  const clock = stoppedClock();
  const scene = await startScene({
    config: { cooldown, freshness: { keep: '900d' } },
    providers: [{ platforms: PLATFORMS }],
  });
  const publish: Publish = (version) => scene.registry.addProvider({ ...WIDGET, version, platforms: PLATFORMS });
  expect(versionsIn(await scene.index())).toEqual(['1.0.0']);
  await publish('1.1.0');
  clock.advance(10 * MINUTE_MS);
  return { ...scene, clock, publish, doors: doorsOf(scene) };
}

/** The door for clients that verify signatures themselves. */
function doorsOf({ get, registry }: Scene) {
  const base = `/registry/${registry.hostname}/v1/providers/acme/widget`;
  return {
    versions: async () =>
      (await get(`${base}/versions`)).json().versions.map(({ version }: { version: string }) => version),
    download: (version: string, platform = 'linux/amd64') => get(`${base}/${version}/download/${platform}`),
    checksums: (version: string) => get(`${base}/${version}/SHA256SUMS`),
  };
}

describe('a version that is too young', () => {
  it('is left out of lists and absent everywhere, until it is old enough', async () => {
    const { index, version, archive, doors, clock, registry } = await begin();
    const until = new Date(Date.now() + 7 * DAY_MS).toISOString();
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect(await doors.versions()).toEqual(['1.0.0']);
    expect(platformsIn(await version('1.1.0'))).toEqual([]);
    for (const answer of [
      await archive('1.1.0'),
      await archive('1.1.0', 'linux_amd64', { method: 'HEAD' }),
      await doors.download('1.1.0'),
      await doors.checksums('1.1.0'),
    ]) {
      expect(answer.status).toBe(404);
      if (answer.body.length > 0) expect(answer.json()).toMatchObject({ hint: expect.stringContaining(until) });
    }
    expect(registry.releases.requests.count('GET', /1\.1\.0/)).toBe(0);
    expect(platformsIn(await version('1.0.0'))).toEqual([...PLATFORMS].sort());

    clock.advance(7 * DAY_MS - 1);
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    clock.advance(1);
    expect(versionsIn(await index())).toEqual(['1.1.0', '1.0.0']);
    expect(await doors.versions()).toEqual(['1.1.0', '1.0.0']);
    expect(platformsIn(await version('1.1.0'))).toEqual([...PLATFORMS].sort());
    expect((await doors.download('1.1.0')).status).toBe(200);
    expect((await archive('1.1.0')).status).toBe(200);
  });

  it('is so from the moment on at which it is first asked for, also when no list named it before', async () => {
    const { version, archive, publish, index, clock } = await begin();
    await index();
    await publish('1.2.0');
    clock.advance(6_000);
    expect(platformsIn(await version('1.2.0'))).toEqual([]);
    expect((await archive('1.2.0')).status).toBe(404);
    expect(platformsIn(await version('9.9.9'))).toEqual([]);
    clock.advance(7 * DAY_MS);
    expect((await archive('1.2.0')).status).toBe(200);
  });

  it('is remembered over a restart, and gone through without upstream', async () => {
    const { larder, registry, index, clock } = await begin();
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    await larder.close();
    clock.advance(6 * DAY_MS);
    const again = await startLarder({ setup: larder.setup });
    const client = startClient(again);
    const list = () => client.get(`${again.url}/providers/${registry.hostname}/acme/widget/index.json`);
    expect(versionsIn(await list())).toEqual(['1.0.0']);
    await registry.stop();
    clock.advance(DAY_MS);
    expect(versionsIn(await list())).toEqual(['1.1.0', '1.0.0']);
  });
});

describe('a version is there at once', () => {
  it('when it was there at the very first look', async () => {
    const { publish, version, clock } = await begin({ patterns: [{ address: '*/other/*', age: '7d' }] });
    await publish('1.2.0');
    clock.advance(10 * MINUTE_MS);
    expect(platformsIn(await version('1.2.0'))).toEqual([...PLATFORMS].sort());
  });

  it('when the operator allows it', async () => {
    const { index, version } = await begin({ ...WEEK, allow: ['*/acme/widget@1.1.0'] });
    expect(versionsIn(await index())).toEqual(['1.1.0', '1.0.0']);
    expect(platformsIn(await version('1.1.0'))).toEqual([...PLATFORMS].sort());
  });

  it('when the first pattern that matches asks for no age', async () => {
    const patterns = [
      { address: '*/acme/widget', age: null },
      { address: '*/acme/*', age: '90d' },
    ];
    const { index } = await begin({ ...WEEK, patterns });
    expect(versionsIn(await index())).toEqual(['1.1.0', '1.0.0']);
  });

  it('when upstream says that it is old enough; what it says of a later day counts for nothing', async () => {
    const { registry, index, version, clock, publish } = await begin();
    const dates: Record<string, string> = {
      '1.1.0': new Date(Date.now() - 6 * DAY_MS).toISOString(),
      '1.2.0': new Date(Date.now() + 30 * DAY_MS).toISOString(),
    };
    registry.on(/GET \/.*\/acme\/widget\/1\.\d\.0$/, ({ path }) =>
      json({ published_at: dates[path.split('/').pop() ?? ''] }),
    );
    await publish('1.2.0');
    clock.advance(10 * MINUTE_MS);
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    clock.advance(DAY_MS);
    expect(versionsIn(await index())).toEqual(['1.1.0', '1.0.0']);
    expect(platformsIn(await version('1.1.0'))).toEqual([...PLATFORMS].sort());
    clock.advance(6 * DAY_MS);
    expect(versionsIn(await index())).toEqual(['1.2.0', '1.1.0', '1.0.0']);
  });
});

describe('what upstream says of dates', () => {
  it('counts for the newest versions at the very first look, which are asked for once', async () => {
    const clock = stoppedClock();
    const { registry, index } = await startScene({ config: { cooldown: WEEK }, providers: [] });
    const versions = ['0.1.0', '1.0.0', '1.1.0', '1.2.0', '1.3.0', '2.0.0'];
    for (const version of versions) await registry.addProvider({ ...WIDGET, version });
    const yesterday = new Date(Date.now() - DAY_MS).toISOString();
    const details = registry.on(/GET \/.*\/acme\/widget\/[12]\.\d\.0$/, ({ path }) =>
      path.endsWith('/2.0.0') ? json({ published_at: yesterday }) : json({ id: 'acme/widget' }),
    );
    expect(versionsIn(await index())).toEqual(versions.slice(0, -1).reverse());
    expect(details.applied).toBe(5);
    clock.advance(6 * DAY_MS);
    expect(versionsIn(await index())).toEqual([...versions].reverse());
    expect(details.applied).toBe(5);
  });

  it('is asked for once, and lists do not fail for want of it', async () => {
    const { registry, index } = await begin();
    const broken = registry.on(/acme\/widget\/1\.1\.0$/, reset());
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    const { applied } = broken;
    expect(applied).toBeGreaterThan(0);
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect(broken.applied).toBe(applied);
  });
});

describe('a date that upstream was asked for in vain', () => {
  it('is asked for again soon, but not with every list', async () => {
    const began = performance.now();
    const clock = vi.spyOn(performance, 'now').mockReturnValue(began);
    afterTest(async () => clock.mockRestore());
    const kept = new Map<string, Entry>();
    const store = {
      get: async (key: string) => kept.get(key),
      put: async (key: string, entry: Entry) => void kept.set(key, entry),
    };
    const provider = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip').provider;
    const upstream = { hostname: provider.hostname } as Upstream;
    let answer: () => Promise<Date> = async () => {
      throw new UpstreamUnreachable('registry.example.com', 'connection', 'is away');
    };
    let asked = 0;
    const cooldown = new Cooldown<ProviderAddress>({
      rules: { default: 7 * DAY_MS, patterns: [], allow: [] },
      firstSeen: new FirstSeen({ store, logger: silentLogger }),
      publishedAt: () => {
        asked += 1;
        return answer();
      },
      isSealed: () => false,
      logger: silentLogger,
    });
    const value = { versions: [{ version: Version.parse('1.0.0'), published: '1.0.0' }] };
    const list = async () => {
      const read = Promise.resolve({ value, isStale: false } as unknown as MetadataRead<typeof value>);
      const { versions } = (await cooldown.sift(upstream, provider, read)).value;
      return versions.map(({ version }) => version.toString());
    };
    // What is there at the first look counts as old while its age is not told.
    expect(await list()).toEqual(['1.0.0']);
    answer = async () => new Date();
    expect(await list()).toEqual(['1.0.0']);
    expect(asked).toBe(1);
    clock.mockReturnValue(began + MINUTE_MS + 1);
    await delay(CACHED_TIME_MS);
    expect(await list()).toEqual([]);
    expect(asked).toBe(2);
  });
});

describe('what is stored', () => {
  it('stays, alone of its version, in lists and as it is', async () => {
    const clock = stoppedClock();
    const first = await startScene({ providers: [{ platforms: PLATFORMS }] });
    await first.registry.addProvider({ ...WIDGET, version: '1.1.0', platforms: PLATFORMS });
    await first.archive('1.1.0');
    await first.stored('1.1.0');
    first.registry.removeVersion({ ...WIDGET, version: '1.1.0' });
    await first.larder.close();
    clock.advance(10 * MINUTE_MS);

    const scene = await startScene({
      registry: first.registry,
      config: { cooldown: WEEK, data: first.larder.setup.dataDirectory },
    });
    expect(versionsIn(await scene.index())).toEqual(['1.1.0', '1.0.0']);
    await first.registry.addProvider({ ...WIDGET, version: '1.1.0', platforms: PLATFORMS });
    clock.advance(10 * MINUTE_MS);
    expect(versionsIn(await scene.index())).toEqual(['1.1.0', '1.0.0']);
    expect(platformsIn(await scene.version('1.1.0'))).toEqual(['linux_amd64']);
    expect((await scene.archive('1.1.0')).status).toBe(200);
    expect((await scene.archive('1.1.0', 'darwin_arm64')).status).toBe(404);
    const doors = doorsOf(scene);
    expect((await doors.download('1.1.0')).status).toBe(200);
    expect((await doors.download('1.1.0', 'darwin/arm64')).status).toBe(404);
    expect((await doors.checksums('1.1.0')).status).toBe(200);
  });
});

describe('modules', () => {
  it('have to be as old, and are there at once when they are allowed', async () => {
    const clock = stoppedClock();
    const scene = await startModuleScene({ config: { cooldown: { ...WEEK, allow: ['*/acme/net@1.2.0'] } } });
    expect(moduleVersionsIn(await scene.moduleVersions())).toEqual(['1.0.0']);
    publishNet(scene.registry, '1.1.0');
    publishNet(scene.registry, '1.2.0');
    clock.advance(10 * MINUTE_MS);
    expect(moduleVersionsIn(await scene.moduleVersions())).toEqual(['1.2.0', '1.0.0']);
    const young = await scene.download('1.1.0');
    expect(young.status).toBe(404);
    expect(young.json().hint).toContain(new Date(Date.now() + 7 * DAY_MS).toISOString());
    expect((await scene.package('1.2.0')).status).toBe(200);
    clock.advance(7 * DAY_MS);
    expect(moduleVersionsIn(await scene.moduleVersions())).toEqual(['1.2.0', '1.1.0', '1.0.0']);
    expect((await scene.package('1.1.0')).status).toBe(200);
  });
});
