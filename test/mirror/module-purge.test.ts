import { describe, expect, it } from 'vitest';
import type { ModuleRelease } from '../../src/address/module.ts';
import { ModulePattern } from '../../src/address/module-pattern.ts';
import { ProviderPattern } from '../../src/address/provider-pattern.ts';
import { Version } from '../../src/address/version.ts';
import { DriftReports } from '../../src/mirror/drift.ts';
import { forgetModuleRelease, ModulePurge, type PurgedModule } from '../../src/mirror/module-purge.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { archiveOf, collect, sha256Hex } from '../contract/archive-store.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { netFiles, publishNet, startModuleScene } from './module-scene.ts';
import { eventually, stoppedClock } from './scene.ts';

const net = 'registry.example.com/acme/net/aws';
const vpc = 'registry.example.com/acme/vpc/aws';
const [was, is] = ['1', '2'].map((text) => sha256Hex(Buffer.from(text))) as [never, never];

async function begin() {
  const { dataDirectory: directory } = await larderSetup();
  const logger = recordingLogger();
  const store = await DirectoryModuleStore.open({ directory, logger });
  for (const [version, module] of [
    ['1.0.0', net],
    ['1.10.0', net],
    ['1.2.0', net],
    ['1.0.0', vpc],
  ] as const) {
    await putPackage(store, releaseOf(version, module), Buffer.from(`${module} ${version}`));
  }
  const drift = new DriftReports({ logger });
  const forgotten: string[] = [];
  const metadata = { forget: async (release: ModuleRelease) => void forgotten.push(release.toString()) };
  const purge = new ModulePurge({ store, metadata, drift, logger });
  const left = async () => {
    const all: string[] = [];
    for await (const module of store.modules()) all.push(...(await store.list(module)).map((one) => `${one.release}`));
    return all.sort();
  };
  return { store, drift, purge, forgotten, left, logger };
}

const select = (address: string, version?: string) => ({
  address: ModulePattern.parse(address),
  ...(version && { version: Version.parse(version) }),
});
const named = (purged: readonly PurgedModule[]) => purged.map(({ release }) => release.toString());

describe('what is purged of modules', () => {
  it.each([
    [net, undefined, [`${net} 1.10.0`, `${net} 1.2.0`, `${net} 1.0.0`]],
    ['Registry.Example.com/Acme/Net/aws', '1.2.0', [`${net} 1.2.0`]],
    ['*/acme/*/aws', '1.0.0', [`${net} 1.0.0`, `${vpc} 1.0.0`]],
    ['*/*/*/google', undefined, []],
    [net, '3.0.0', []],
  ])('%s %s is what is meant and no more', async (address, version, expected) => {
    const { purge, left, forgotten } = await begin();
    const selection = select(address, version);
    expect(named(await collect(purge.plan(selection)))).toEqual(expected);
    expect(await left()).toHaveLength(4);
    expect(forgotten).toEqual([]);
    expect(named(await collect(purge.run(selection)))).toEqual(expected);
    expect(await left()).toHaveLength(4 - expected.length);
    expect([...new Set(forgotten)]).toEqual(expected);
    expect(await collect(purge.run(selection))).toEqual([]);
  });

  it('is package and record, also when one of them is all there is', async () => {
    const { store, purge } = await begin();
    const release = releaseOf('1.0.0');
    await store.discard(release);
    const purged = await collect(purge.run(select(net, '1.0.0')));
    expect(purged).toMatchObject([{ package: undefined, record: true, settled: [] }]);
    expect(await store.recall(release)).toBeUndefined();
    const [whole] = await collect(purge.run(select(net, '1.2.0')));
    expect(whole).toMatchObject({ package: { size: `${net} 1.2.0`.length }, record: true });
    expect(await putPackage(store, release, Buffer.from('another'))).toMatchObject({ size: 7 });
  });

  it('is the package alone where nobody used it for a while: what is remembered of it stays, and nothing is settled', async () => {
    const { store, drift, purge, left } = await begin();
    drift.report(releaseOf('1.2.0'), was, is);
    const longAgo = new Date(Date.now() - 24 * 3_600_000);
    expect(await collect(purge.run({ ...select(net), unusedSince: longAgo }))).toEqual([]);
    const unused = { ...select(net), unusedSince: new Date(Date.now() + 60_000) };
    const purged = await collect(purge.run(unused));
    expect(named(purged)).toEqual([`${net} 1.10.0`, `${net} 1.2.0`, `${net} 1.0.0`]);
    for (const one of purged) expect(one).toMatchObject({ record: false, settled: [], isPinned: false });
    expect(await left()).toEqual([`${vpc} 1.0.0`]);
    expect(await store.recall(releaseOf('1.2.0'))).toBeDefined();
    expect(drift.all).toHaveLength(1);
  });

  it('is settled, of this version and no other', async () => {
    const { drift, purge, logger } = await begin();
    for (const version of ['1.0.0', '1.2.0']) drift.report(releaseOf(version), was, is);
    drift.report(archiveOf('terraform-provider-net_1.0.0_linux_amd64.zip', 'registry.example.com/acme/net'), was, is);
    const [purged] = await collect(purge.run(select(net, '1.0.0')));
    expect(purged?.settled).toMatchObject([{ first: was, published: is }]);
    expect(drift.all).toHaveLength(2);
    expect(logger.lines.at(-1)).toMatchObject({
      message: 'purged',
      fields: { module: net, version: '1.0.0', package: true, settled: 1 },
    });
  });

  it('is nothing that whoever asks may not administer, and nothing of providers', async () => {
    const { purge, left } = await begin();
    const mayHave = (address: object) => String(address) === vpc;
    expect(named(await collect(purge.run({ ...select('*/*/*/*'), mayHave })))).toEqual([`${vpc} 1.0.0`]);
    expect(await collect(purge.run({ ...select(net), mayHave }))).toEqual([]);
    expect(await collect(purge.run({ address: ProviderPattern.parse('*/*/*') }))).toEqual([]);
    expect(await left()).toHaveLength(3);
  });

  it('is asked for anew, as it was written and in lower case', async () => {
    const keys: string[] = [];
    const cache = { forget: async (key: string) => void keys.push(key) };
    await forgetModuleRelease(cache, releaseOf('1.0.0-RC1', 'registry.example.com/Acme/Net/aws'));
    expect(keys.sort()).toEqual([
      'v1:module-location:registry.example.com/Acme/Net/aws/1.0.0-RC1',
      'v1:module-location:registry.example.com/acme/net/aws/1.0.0-RC1',
      'v1:module-versions:registry.example.com/Acme/Net/aws',
      'v1:module-versions:registry.example.com/acme/net/aws',
    ]);
    keys.length = 0;
    await forgetModuleRelease(cache, releaseOf('1.0.0'));
    expect(keys).toHaveLength(2);
  });
});

describe('reports of moved versions', () => {
  it('are one for each, name the module, and end when somebody has decided', async () => {
    const logger = recordingLogger();
    const drift = new DriftReports({ logger, now: () => 0 });
    const release = releaseOf('1.0.0');
    for (let time = 0; time < 3; time += 1) drift.report(releaseOf('1.0.0', net), was, is);
    expect(drift.all).toEqual([{ release, first: was, published: is, noticedAt: new Date(0) }]);
    expect(logger.lines).toMatchObject([{ level: 'warn', fields: { module: net, version: '1.0.0', first: was } }]);
    drift.settle(releaseOf('2.0.0'));
    expect(drift.all).toHaveLength(1);
    drift.settle(release);
    expect(drift.all).toEqual([]);
  });
});

describe('a version of a module that upstream moved', () => {
  const OPS = 'token-of-the-operators';
  const config = { access: { tokens: [{ name: 'ops', token: OPS, roles: ['admin'] }] } };

  it('is served as it was until it is purged, in whatever case, and then as upstream has it', async () => {
    const clock = stoppedClock();
    const { registry, get, link, package: fetch } = await startModuleScene({ config });
    const headers = { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' };
    const inventory = async () => (await get('/admin/inventory', { headers })).json();
    const first = await fetch();
    const { checksum } = await link();
    publishNet(registry, '1.0.0', { files: netFiles('1.0.0 but other') });
    clock.advance(2 * 86_400_000);
    expect((await fetch()).body.equals(first.body)).toBe(true);
    await eventually(async () => (await inventory()).drift.length).toBe(1);
    expect((await link()).checksum).toBe(checksum);
    const address = `${registry.hostname}/acme/net/aws`;
    const told = await inventory();
    expect(told.modules).toMatchObject([{ address, version: '1.0.0', published: told.drift[0].published }]);
    expect(told.drift).toMatchObject([{ address, version: '1.0.0', first: checksum?.replace('sha256:', '') }]);

    const body = JSON.stringify({ address: `${registry.hostname}/Acme/Net/aws`, version: '1.0.0' });
    const { purged } = (await get('/admin/purge', { method: 'POST', headers, body })).json();
    expect(purged).toMatchObject([{ address, record: true, settled: [{ published: told.drift[0].published }] }]);
    const now = await link();
    expect(now.checksum).toBe(`sha256:${told.drift[0].published}`);
    expect((await get(now.path)).body.equals(first.body)).toBe(false);
    expect((await inventory()).drift).toEqual([]);
  });
});
