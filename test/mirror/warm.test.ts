import { describe, expect, it } from 'vitest';
import { StorageFailed } from '../../src/errors.ts';
import { silentLogger } from '../../src/logger.ts';
import type { WantedItem } from '../../src/mirror/wanted.ts';
import { Warm } from '../../src/mirror/warm.ts';
import { archiveOf } from '../contract/archive-store.ts';
import { holdAnswer, status } from '../support/faults.ts';
import { publishNet, withModules } from './module-scene.ts';
import { archiveName, eventually, hashesIn } from './scene.ts';
import { NARROW, outcomes, startWarmScene } from './warm-scene.ts';

const neverAsked = async (): Promise<never> => {
  throw new Error('nobody should ask');
};

describe('what becomes of what is wanted', () => {
  it.each([
    ['may pass while a stored file is being compared', true, { outcome: 'failed', mayPass: true }],
    ['does not pass by itself when the disk fails', false, { outcome: 'failed' }],
  ])('%s', async (_, busy, expected) => {
    const openArchive = async () => {
      throw new StorageFailed('comparing', new Error('takes longer'), { busy });
    };
    const warm = new Warm({
      providers: { openArchive, listVersions: neverAsked, listPackages: neverAsked },
      releases: { describe: neverAsked, checksums: neverAsked },
      modules: { describePackage: neverAsked, openPackage: neverAsked, list: neverAsked },
      logger: silentLogger,
    });
    const archive = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip');
    expect(await warm.bring({ kind: 'archive', archive } as WantedItem)).toEqual({
      ...expected,
      reason: 'comparing failed',
    });
  });

  it('is told item by item: present, stored, unsupported, failed', async () => {
    const scene = await startWarmScene({
      providers: [{}, { type: 'gadget', version: '2.0.0' }, { type: 'broken' }],
    });
    const { registry } = scene;
    const host = registry.hostname;
    await scene.archive();
    await scene.stored();
    registry.releases.on(/broken.*\.zip/, status(500));
    const id = await scene.warm({
      providers: [`${host}/acme/widget@1.0.0`, `${host}/acme/gadget`, `${host}/acme/broken`, `${host}/acme/absent`],
      platforms: ['linux_amd64', 'plan9_386'],
    });
    const job = await scene.ended(id);
    expect(job.state).toBe('finished');
    expect(outcomes(job)).toEqual({
      [`${host}/acme/widget 1.0.0 linux_amd64`]: 'present',
      [`${host}/acme/widget 1.0.0 plan9_386`]: 'unsupported',
      [`${host}/acme/gadget 2.0.0 linux_amd64`]: 'stored',
      [`${host}/acme/gadget 2.0.0 plan9_386`]: 'unsupported',
      [`${host}/acme/broken 1.0.0 linux_amd64`]: 'failed',
      [`${host}/acme/broken 1.0.0 plan9_386`]: 'unsupported',
      [`${host}/acme/absent`]: 'failed',
    });
    expect(job.totals).toEqual({ items: 7, present: 1, stored: 1, unsupported: 3, failed: 2, waiting: 0 });
    const stored = job.items.find(({ outcome }) => outcome === 'stored');
    expect(job.bytes).toBe(stored?.bytes);
    expect(job.bytes).toBeGreaterThan(0);
    const failed = job.items.find(({ name }) => name.includes('broken') && name.includes('linux'));
    expect(failed?.reason).toContain(new URL(registry.releases.url).hostname);
    const metrics = (await scene.get('/metrics')).text();
    expect(metrics).toContain('larder_warm_items_total{outcome="unsupported"} 3');
    expect(metrics).toContain('larder_warm_items_total{outcome="stored"} 1');
    expect(metrics).toMatch(/larder_warm_jobs 0/);
  });

  it('serves through both doors once every upstream has stopped', async () => {
    const scene = await startWarmScene();
    const { registry } = scene;
    publishNet(registry, '1.2.0');
    const id = await scene.warm({
      providers: [`${registry.hostname}/acme/widget@~> 1.0`],
      modules: [`${registry.hostname}/acme/net/aws`],
    });
    const job = await scene.ended(id);
    expect(job.items.map(({ outcome }) => outcome)).toEqual(['stored', 'stored']);
    await registry.stop();

    const answered = async (path: string) => {
      const answer = await scene.get(path);
      expect(answer.status, `${path}: ${answer.text()}`).toBeLessThan(300);
      return answer;
    };
    const own = `/registry/${registry.hostname}/v1`;
    expect((await scene.index()).status).toBe(200);
    expect((await scene.version('1.0.0')).json().archives['linux_amd64']).toBeDefined();
    expect((await scene.archive()).status).toBe(200);
    expect((await answered(`${own}/providers/acme/widget/versions`)).json().versions).toHaveLength(1);
    await answered(`${own}/providers/acme/widget/1.0.0/download/linux/amd64`);
    const modules = withModules(scene);
    expect((await modules.moduleVersions()).status).toBe(200);
    expect((await modules.package('1.2.0')).status).toBe(200);
  });

  it('R58: an archive that a lock file does not accept is stored, and said not to be covered by it', async () => {
    const scene = await startWarmScene({ providers: [{ platforms: ['linux_amd64', 'darwin_arm64'] }] });
    const { registry } = scene;
    const darwin = await scene.archive('1.0.0', 'darwin_arm64');
    expect(darwin.status).toBe(200);
    const known = async (): Promise<string | undefined> =>
      hashesIn(await scene.version('1.0.0'), 'darwin_arm64').find((hash) => hash.startsWith('h1:'));
    await eventually(known).toBeDefined();
    const h1 = await known();
    const lock = `provider "${registry.hostname}/acme/widget" {\n  version = "1.0.0"\n  hashes = [\n    "${h1}",\n  ]\n}\n`;
    const id = await scene.warm(lock, {
      query: '?file=.terraform.lock.hcl&platform=linux_amd64&platform=darwin_arm64',
    });
    const job = await scene.ended(id);
    const byPlatform = Object.fromEntries(job.items.map((item) => [item.name.split(' ')[2], item]));
    expect(byPlatform['linux_amd64']).toMatchObject({ outcome: 'stored', note: 'not covered by the lock file' });
    expect(byPlatform['darwin_arm64']).toMatchObject({ outcome: 'present' });
    expect(byPlatform['darwin_arm64']?.note).toBeUndefined();
  });

  it('trouble that passes is waited for', async () => {
    const scene = await startWarmScene();
    scene.registry.releases.on(new RegExp(archiveName('1.0.0', 'linux_amd64')), status(503), { times: 4 });
    const job = await scene.ended(await scene.warm({ providers: [`${scene.registry.hostname}/acme/widget`] }));
    expect(job.items).toMatchObject([{ outcome: 'stored' }]);
  });

  it('clients find a turn, however much is being warmed', async () => {
    const scene = await startWarmScene({
      providers: ['a', 'b', 'c', 'd', 'widget'].map((type) => ({ type })),
      config: { limits: { downloads: 2 }, warm: { concurrency: 4 } },
    });
    const { registry } = scene;
    const hold = holdAnswer();
    registry.releases.on(/provider-[abcd]_.*\.zip/, hold.fault);
    const id = await scene.warm({ providers: ['a', 'b', 'c', 'd'].map((type) => `${registry.hostname}/acme/${type}`) });
    await hold.reached;
    expect((await scene.archive()).status).toBe(200);
    expect(registry.releases.requests.count(/^GET .*provider-[abcd]_.*\.zip/)).toBe(1);
    hold.release();
    expect((await scene.ended(id)).totals).toMatchObject({ stored: 4 });
  });

  it('a token for some addresses warms those, and sees its own jobs only', async () => {
    const scene = await startWarmScene({ providers: [{}, { namespace: 'other', type: 'gadget' }] });
    const host = scene.registry.hostname;
    const wish = { providers: [`${host}/acme/widget`, `${host}/other/gadget`] };
    const theirs = await scene.ended(await scene.warm(wish, { token: NARROW }));
    expect(outcomes(theirs)).toEqual({
      [`${host}/acme/widget 1.0.0 linux_amd64`]: 'stored',
      [`${host}/other/gadget`]: 'failed',
    });
    expect(theirs.items.find(({ outcome }) => outcome === 'failed')?.reason).toContain('this token is not for');
    expect(scene.registry.requests.count(/gadget/)).toBe(0);
    const all = await scene.warm(wish);
    await scene.ended(all);
    expect((await scene.admin('GET', `jobs/${all}`, NARROW)).status).toBe(404);
    expect((await scene.admin('GET', 'jobs', NARROW)).json().jobs).toHaveLength(1);
    expect((await scene.admin('GET', 'jobs')).json().jobs).toHaveLength(2);
  });
});
