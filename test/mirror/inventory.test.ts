import { expect, it } from 'vitest';
import { parseSha256 } from '../../src/address/hash.ts';
import { ModulePattern } from '../../src/address/module-pattern.ts';
import { ProviderPattern } from '../../src/address/provider-pattern.ts';
import { Version } from '../../src/address/version.ts';
import { DriftReports, isOfArchive } from '../../src/mirror/drift.ts';
import { Inventory, type Selection } from '../../src/mirror/inventory.ts';
import type { StoredArchive } from '../../src/store/archive-store.ts';
import type { StoredPackage } from '../../src/store/module-store.ts';
import { archiveOf, collect } from '../contract/archive-store.ts';
import { releaseOf } from '../contract/module-store.ts';
import { recordingLogger } from '../support/recording-logger.ts';

const digest = (letter: string) => parseSha256(letter.repeat(64));
const stored = (version: string, platform: string, provider = 'registry.example.com/acme/widget'): StoredArchive => ({
  archive: archiveOf(`terraform-provider-${provider.split('/')[2]}_${version}_${platform}.zip`, provider),
  size: 10,
  sha256: digest('a'),
  h1: undefined,
  storedAt: new Date(0),
});

const packaged = (version: string, module = 'registry.example.com/acme/net/aws'): StoredPackage => ({
  release: releaseOf(version, module),
  size: 10,
  sha256: digest('e'),
  subdir: '',
  source: 'git::https://git.example.com/acme/net',
  fingerprint: undefined,
  storedAt: new Date(0),
});

function inventoryOf(...stored: (StoredArchive | StoredPackage)[]) {
  const archives = stored.filter((one) => 'archive' in one);
  const packages = stored.filter((one) => 'release' in one);
  const asked: string[] = [];
  const drift = new DriftReports({ logger: recordingLogger() });
  const providers = new Map(archives.map(({ archive }) => [archive.provider.toString(), archive.provider]));
  const lastUse = async ({ storedAt }: StoredArchive | StoredPackage) => storedAt;
  const store = {
    lastUse,
    providers: async function* () {
      yield* providers.values();
    },
    list: async (provider: unknown) => {
      asked.push(String(provider));
      return Object.freeze(archives.filter(({ archive }) => String(archive.provider) === String(provider)));
    },
  };
  const addresses = new Map(packages.map(({ release }) => [release.module.toString(), release.module]));
  const modules = {
    lastUse,
    modules: async function* () {
      yield* addresses.values();
    },
    list: async (module: unknown) => {
      asked.push(String(module));
      return Object.freeze(packages.filter(({ release }) => String(release.module) === String(module)));
    },
  };
  const inventory = new Inventory({ store, modules, drift });
  const names = async (selection?: Selection) =>
    (await collect(inventory.archives(selection))).map((entry) => entry.stored.archive.toString());
  const moduleNames = async (selection?: Selection) =>
    (await collect(inventory.packages(selection))).map((entry) => entry.stored.release.toString());
  return { inventory, drift, asked, names, moduleNames };
}

it('tells every archive, newest versions first', async () => {
  const { names } = inventoryOf(
    stored('1.2.0', 'linux_amd64'),
    stored('1.10.0', 'linux_amd64'),
    stored('1.10.0', 'darwin_arm64'),
  );
  expect(await names()).toEqual([
    'registry.example.com/acme/widget/terraform-provider-widget_1.10.0_darwin_arm64.zip',
    'registry.example.com/acme/widget/terraform-provider-widget_1.10.0_linux_amd64.zip',
    'registry.example.com/acme/widget/terraform-provider-widget_1.2.0_linux_amd64.zip',
  ]);
});

it('tells those that are meant, by address, version and who asks', async () => {
  const gadget = 'registry.example.com/acme/gadget';
  const other = 'other.example.com:8443/acme/widget';
  const { names } = inventoryOf(
    stored('1.0.0', 'linux_amd64'),
    stored('2.0.0', 'linux_amd64'),
    stored('1.0.0', 'linux_amd64', gadget),
    stored('1.0.0', 'linux_amd64', other),
  );
  const address = ProviderPattern.parse('registry.example.com/*/*');
  expect(await names({ address })).toHaveLength(3);
  expect(await names({ address, version: Version.parse('1.0.0') })).toHaveLength(2);
  expect(await names({ address, mayHave: (provider) => String(provider) === gadget })).toHaveLength(1);
  expect(await names({ address: ProviderPattern.parse(other) })).toHaveLength(1);
  expect(await names({ address: ProviderPattern.parse(other), mayHave: () => false })).toEqual([]);
  expect(await names({ version: Version.parse('3.0.0') })).toEqual([]);
});

it('looks at one provider at a time, and at no other than the one that is meant', async () => {
  const { inventory, asked, names } = inventoryOf(
    stored('1.0.0', 'linux_amd64', 'registry.example.com/acme/one'),
    stored('1.0.0', 'linux_amd64', 'registry.example.com/acme/two'),
  );
  const archives = inventory.archives();
  await archives.next();
  expect(asked).toEqual(['registry.example.com/acme/one']);
  await archives.return(undefined);

  asked.length = 0;
  await names({ address: ProviderPattern.parse('registry.example.com/acme/two') });
  expect(asked).toEqual(['registry.example.com/acme/two']);
});

it('tells where upstream contradicts what is stored, and what is not stored because of that', async () => {
  const kept = stored('1.0.0', 'linux_amd64');
  const { inventory, drift } = inventoryOf(kept, stored('1.0.0', 'darwin_arm64'));
  const absent = stored('1.0.0', 'windows_amd64').archive;
  drift.report(kept.archive, digest('a'), digest('b'));
  drift.report(absent, digest('c'), digest('d'));
  const entries = await collect(inventory.archives());
  expect(entries.map((entry) => entry.drift?.published)).toEqual([undefined, digest('b')]);
  expect(inventory.drift().map((one) => isOfArchive(one) && one.archive.platform.toString())).toEqual([
    'linux_amd64',
    'windows_amd64',
  ]);
  expect(inventory.drift({ version: Version.parse('2.0.0') })).toEqual([]);
  expect(inventory.drift({ address: ProviderPattern.parse('other.example.com/*/*') })).toEqual([]);
  expect(inventory.drift({ mayHave: () => false })).toEqual([]);
});

it('tells every module package, newest versions first, beside the archives', async () => {
  const { names, moduleNames } = inventoryOf(
    packaged('1.2.0'),
    packaged('1.10.0'),
    stored('1.0.0', 'linux_amd64'),
    packaged('1.0.0', 'registry.example.com/acme/vpc/aws'),
  );
  expect(await moduleNames()).toEqual([
    'registry.example.com/acme/net/aws 1.10.0',
    'registry.example.com/acme/net/aws 1.2.0',
    'registry.example.com/acme/vpc/aws 1.0.0',
  ]);
  expect(await names()).toHaveLength(1);
});

it('takes three parts for providers and four for modules', async () => {
  const { inventory, drift, asked, names, moduleNames } = inventoryOf(
    stored('1.0.0', 'linux_amd64', 'registry.example.com/acme/net'),
    packaged('1.0.0'),
    packaged('2.0.0'),
    packaged('1.0.0', 'other.example.com/acme/net/aws'),
  );
  drift.report(stored('1.0.0', 'linux_amd64', 'registry.example.com/acme/net').archive, digest('a'), digest('b'));
  drift.report(releaseOf('1.0.0'), digest('e'), digest('f'));
  const providers = { address: ProviderPattern.parse('registry.example.com/acme/net') };
  const modules = { address: ModulePattern.parse('registry.example.com/*/net/*') };
  expect([await names(providers), await moduleNames(providers)].map((list) => list.length)).toEqual([1, 0]);
  expect([await names(modules), await moduleNames(modules)].map((list) => list.length)).toEqual([0, 2]);
  expect(inventory.drift(providers).map(isOfArchive)).toEqual([true]);
  expect(inventory.drift(modules).map(isOfArchive)).toEqual([false]);
  expect(inventory.drift()).toHaveLength(2);
  expect(await moduleNames({ ...modules, version: Version.parse('2.0.0') })).toHaveLength(1);
  expect(await moduleNames({ mayHave: ({ hostname }) => String(hostname) === 'other.example.com' })).toHaveLength(1);
  asked.length = 0;
  const exact = { address: ModulePattern.parse('Registry.Example.com/Acme/Net/aws') };
  expect(await moduleNames(exact)).toHaveLength(2);
  expect(await moduleNames({ ...exact, mayHave: () => false })).toEqual([]);
  expect(asked).toHaveLength(1);
});

it('tells which module versions upstream has moved', async () => {
  const { inventory, drift } = inventoryOf(packaged('1.0.0'), packaged('2.0.0'));
  drift.report(releaseOf('1.0.0', 'registry.example.com/Acme/Net/aws'), digest('e'), digest('f'));
  const entries = await collect(inventory.packages());
  expect(entries.map((entry) => entry.drift?.published)).toEqual([undefined, digest('f')]);
});
