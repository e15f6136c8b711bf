import { describe, expect, it } from 'vitest';
import type { MirroredAddress } from '../../src/address/mirrored-address.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderPattern } from '../../src/address/provider-pattern.ts';
import { Version } from '../../src/address/version.ts';
import { DriftReports, isOfArchive } from '../../src/mirror/drift.ts';
import { Purge, type PurgedVersion, type PurgeSelection } from '../../src/mirror/purge.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { archiveOf, collect, put, sha256Hex } from '../contract/archive-store.ts';
import { afterTest } from '../support/after-test.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { startScene, stoppedClock, WIDGET } from './scene.ts';

const OPS = 'token-of-the-operators';
const ACCESS = { access: { tokens: [{ name: 'ops', token: OPS, roles: ['admin'] }] } };
const PLATFORMS = ['linux_amd64', 'darwin_arm64'];
const again = { ...WIDGET, platforms: PLATFORMS, zip: () => Buffer.from('other bytes') };

async function startDriftedScene() {
  const scene = await startScene({ providers: [{ platforms: PLATFORMS }], config: ACCESS });
  const { registry, archive, stored, version, get } = scene;
  await version('1.0.0');
  const first = await archive('1.0.0');
  await stored();
  await registry.addProvider(again);
  const purge = async (body: object) => {
    const headers = { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' };
    const answer = await get('/admin/purge', { method: 'POST', headers, body: JSON.stringify(body) });
    expect(answer.status, answer.text()).toBe(200);
    return answer.json();
  };
  const inventory = async () => (await get('/admin/inventory', { headers: { authorization: `Bearer ${OPS}` } })).json();
  return { ...scene, first, purge, inventory, address: `${registry.hostname}/acme/widget` };
}

describe('a version that was published twice', () => {
  it('is refused until it is purged, and then served as it is now', async () => {
    const clock = stoppedClock();
    const { archive, version, purge, inventory, address, first } = await startDriftedScene();
    clock.advance(25 * 3_600_000);
    await version('1.0.0');
    expect((await archive('1.0.0', 'darwin_arm64')).status).toBe(502);
    expect((await archive('1.0.0')).body.equals(first.body)).toBe(true);
    expect((await inventory()).drift).toHaveLength(2);

    const { purged } = await purge({ address, version: '1.0.0' });
    expect(purged).toMatchObject([
      { address, version: '1.0.0', checksums: true, archives: [{ platform: 'linux_amd64' }] },
    ]);
    expect(purged[0].settled.map((drift: { platform: string }) => drift.platform).sort()).toEqual(PLATFORMS.sort());

    for (const platform of PLATFORMS) {
      const now = await archive('1.0.0', platform);
      expect(now.status, now.text()).toBe(200);
      expect(now.text()).toBe('other bytes');
    }
    const hashes = (await version('1.0.0')).json().archives.darwin_arm64.hashes;
    expect(hashes).toContain(`zh:${sha256Hex(Buffer.from('other bytes'))}`);
    expect((await inventory()).drift).toEqual([]);
  });

  it('stays as it is while somebody only looks at what a purge would do', async () => {
    const { archive, purge, address, first } = await startDriftedScene();
    const { dryRun, purged } = await purge({ address: '*/*/*', dryRun: true });
    expect({ dryRun, purged }).toMatchObject({
      dryRun: true,
      purged: [{ address, version: '1.0.0', checksums: true }],
    });
    expect((await archive('1.0.0')).body.equals(first.body)).toBe(true);
    expect((await archive('1.0.0', 'darwin_arm64')).status).toBe(502);
  });

  it('is not settled by purging one platform: the first checksums are those of all', async () => {
    const { archive, purge, address } = await startDriftedScene();
    expect((await archive('1.0.0', 'darwin_arm64')).status).toBe(502);
    const { purged } = await purge({ address, version: '1.0.0', platform: 'linux_amd64' });
    expect(purged).toMatchObject([{ checksums: false, settled: [], archives: [{ platform: 'linux_amd64' }] }]);
    expect((await archive('1.0.0')).status).toBe(502);
  });

  it('is accepted also when nothing of it is stored but its checksums', async () => {
    const { registry, archive, version, get } = await startScene({
      providers: [{ platforms: PLATFORMS }],
      config: ACCESS,
    });
    await version('1.0.0');
    await registry.addProvider(again);
    expect((await archive('1.0.0')).status).toBe(502);
    const answer = await get('/admin/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' },
      body: JSON.stringify({ address: `${registry.hostname}/*/*` }),
    });
    expect(answer.json().purged).toMatchObject([{ version: '1.0.0', checksums: true, archives: [] }]);
    expect((await archive('1.0.0')).text()).toBe('other bytes');
  });
});

describe('what is purged', () => {
  const provider = 'registry.example.com/acme/widget';
  const archives = ['1.0.0_linux_amd64', '1.0.0_darwin_arm64', '2.0.0_linux_amd64'].map((name) =>
    archiveOf(`terraform-provider-widget_${name}.zip`, provider),
  );
  const elsewhere = archiveOf('terraform-provider-gadget_1.0.0_linux_amd64.zip', 'registry.example.com/acme/gadget');

  async function begin() {
    const { dataDirectory: directory } = await larderSetup();
    const logger = recordingLogger();
    const hasher = new PackageHasher();
    const store = await DirectoryArchiveStore.open({ directory, hasher, logger });
    afterTest(async () => {
      await store.close();
      await hasher.close();
    });
    for (const archive of [...archives, elsewhere]) await put(store, archive, Buffer.from(archive.filename));
    const forgotten: string[] = [];
    const drift = new DriftReports({ logger });
    const purge = new Purge({
      store,
      drift,
      logger,
      metadata: {
        forget: async (of, version, concerned) =>
          void forgotten.push(`${of} ${version} ${concerned.map(({ platform }) => platform)}`),
      },
    });
    const left = async () => {
      const all: string[] = [];
      for await (const one of store.providers()) {
        for (const { archive } of await store.list(one)) all.push(archive.filename.replace('terraform-provider-', ''));
      }
      return all.sort();
    };
    return { store, drift, purge, forgotten, left };
  }

  it('includes what has just reached its readers, which is waited for, and what had wrong bytes is tried again', async () => {
    const { store, drift } = await begin();
    const asked: string[] = [];
    const late = archiveOf('terraform-provider-widget_3.0.0_linux_amd64.zip', provider);
    const all = [...archives, late, elsewhere];
    const purge = new Purge({
      store,
      drift,
      logger: recordingLogger(),
      metadata: { forget: async () => {} },
      arrivals: {
        putAway: async (isMeant) => {
          asked.push(`waited for ${all.filter(isMeant).map(({ filename }) => filename)}`);
          if (isMeant(late)) await put(store, late, Buffer.from('late'));
        },
        forgetMismatches: (isMeant) => void asked.push(`tries ${all.filter(isMeant).map(({ filename }) => filename)}`),
      },
    });
    const removed: string[] = [];
    for await (const { archives: gone } of purge.plan(select(provider, '3.0.0'))) {
      removed.push(...gone.map(({ archive }) => archive.filename));
    }
    expect(removed).toEqual([late.filename]);
    expect(asked).toEqual([`waited for ${late.filename}`]);
    for await (const { isPinned } of purge.run(select(provider, '3.0.0'))) expect(isPinned).toBe(false);
    expect(await store.find(late)).toBeUndefined();
    expect(asked.slice(1)).toEqual([`waited for ${late.filename}`, `tries ${late.filename}`]);
  });

  const select = (address: string, version?: string, platform?: string): PurgeSelection => ({
    address: ProviderPattern.parse(address),
    ...(version && { version: Version.parse(version) }),
    ...(platform && { platform: Platform.parse(platform) }),
  });
  const isGadget = (address: MirroredAddress) => String(address).endsWith('/gadget');
  const named = (purged: readonly PurgedVersion[]) =>
    purged.map(({ version, archives: gone }) => `${version}: ${gone.map(({ archive }) => archive.platform)}`);

  it.each([
    [provider, undefined, undefined, ['2.0.0: linux_amd64', '1.0.0: darwin_arm64,linux_amd64'], 1],
    [provider, '1.0.0', undefined, ['1.0.0: darwin_arm64,linux_amd64'], 2],
    [provider, undefined, 'linux_amd64', ['2.0.0: linux_amd64', '1.0.0: linux_amd64'], 2],
    ['*/*/*', '1.0.0', 'linux_amd64', ['1.0.0: linux_amd64', '1.0.0: linux_amd64'], 2],
    ['other.example.com/*/*', undefined, undefined, [], 4],
    [provider, '3.0.0', undefined, [], 4],
  ])('%s %s %s is what is meant and no more', async (address, version, platform, expected, count) => {
    const { purge, left } = await begin();
    const selection = select(address, version, platform);
    expect(named(await collect(purge.plan(selection)))).toEqual(expected);
    expect(await left()).toHaveLength(4);
    expect(named(await collect(purge.run(selection)))).toEqual(expected);
    expect(await left()).toHaveLength(count);
    expect(await collect(purge.run(selection))).toEqual([]);
  });

  it('is nothing that whoever asks may not administer', async () => {
    const { purge, left } = await begin();
    await collect(purge.run({ ...select('*/*/*'), mayHave: isGadget }));
    await collect(purge.run({ ...select(provider), mayHave: isGadget }));
    expect(await left()).toHaveLength(3);
  });

  it('is forgotten with the documents of every archive that its checksums name', async () => {
    const { store, purge, forgotten } = await begin();
    const { version } = archives[0] as (typeof archives)[number];
    const shasums = ['linux_amd64.zip', 'windows_amd64.zip', 'manifest.json']
      .map((end) => `${'a'.repeat(64)}  terraform-provider-widget_1.0.0_${end}\n`)
      .join('');
    await store.putRelease(elsewhere.provider, version, { shasums: Buffer.from('no list'), signature: undefined });
    await store.putRelease((archives[0] as (typeof archives)[number]).provider, version, {
      shasums: Buffer.from(shasums),
      signature: Buffer.from('sig'),
    });
    await collect(purge.run(select('registry.example.com/acme/*', '1.0.0')));
    expect([...new Set(forgotten)].sort()).toEqual([
      'registry.example.com/acme/gadget 1.0.0 linux_amd64',
      `${provider} 1.0.0 darwin_arm64,linux_amd64,linux_amd64,windows_amd64`,
    ]);
    expect(await store.releases(elsewhere.provider)).toEqual([]);
    expect(await store.releases((archives[0] as (typeof archives)[number]).provider)).toEqual([]);
  });

  it('settles the drift of one platform where there are no checksums of the whole version', async () => {
    const { drift, purge } = await begin();
    const [linux, darwin] = archives;
    if (!linux || !darwin) return;
    drift.report(linux, sha256Hex(Buffer.from('1')), sha256Hex(Buffer.from('2')));
    drift.report(darwin, sha256Hex(Buffer.from('1')), sha256Hex(Buffer.from('2')));
    const purged = await collect(purge.run(select(provider, '1.0.0', 'linux_amd64')));
    expect(purged).toMatchObject([{ settled: [{ archive: linux }], unsettled: [] }]);
    expect(drift.all.map((one) => isOfArchive(one) && one.archive)).toEqual([darwin]);
  });
});
