import { createReadStream } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { parseSha256 } from '../../src/address/hash.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { silentLogger } from '../../src/logger.ts';
import { ArchiveIntake } from '../../src/mirror/archive-intake.ts';
import { BroughtDirectory } from '../../src/mirror/brought-directory.ts';
import { DriftReports } from '../../src/mirror/drift.ts';
import { Import, type Imported, type ImportTarget } from '../../src/mirror/import.ts';
import { PackageIntake } from '../../src/mirror/package-intake.ts';
import { ReleaseIntake } from '../../src/mirror/release-intake.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import type { SignaturePolicy } from '../../src/upstream/upstream.ts';
import { sha256Hex } from '../contract/archive-store.ts';
import { releaseOf } from '../contract/module-store.ts';
import { afterTest } from '../support/after-test.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { publish } from '../support/published-provider.ts';
import { bytesOf, packageOf } from './scene.ts';

const HOST = 'registry.example.com';
const WIDGET = { namespace: 'acme', type: 'widget', version: '1.0.0' } as const;
const LIMITS = { download: 10_000_000, unpacked: 10_000_000, files: 1_000, time: 30_000 };

async function directory(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'larder-import-'));
  afterTest(() => rm(made, { recursive: true, force: true }));
  return made;
}

async function begin({ signatures = 'verify' as SignaturePolicy, losing = (): boolean => false } = {}) {
  const data = await directory();
  const hasher = new PackageHasher();
  afterTest(() => hasher.close());
  const logger = silentLogger;
  const store = await DirectoryArchiveStore.open({ directory: data, hasher, logger });
  const modules = await DirectoryModuleStore.open({ directory: data, logger });
  const drift = new DriftReports({ logger });
  const archives = new ArchiveIntake({ store, drift, logger });
  const releases = new ReleaseIntake({ store, signatures: () => signatures });
  const packages = new PackageIntake({ store: modules, drift, limits: LIMITS, logger });
  const target: ImportTarget = {
    takeArchive: async ({ archive, file, ...claims }) =>
      losing() ? { outcome: 'failed', reason: 'lost' } : archives.take(archive, () => createReadStream(file), claims),
    takeRelease: (provider, version, checked) => releases.keep(provider, version, checked),
    takePackage: ({ release, file, ...claims }) => packages.take(release, () => createReadStream(file), claims),
  };
  const run = async (from: string, { isTrusting = false, dryRun = false, list = '' } = {}): Promise<Imported[]> => {
    const source = await BroughtDirectory.open(from);
    const vouchedFor = list === '' ? undefined : await source.vouchedFor(parseSha256(list));
    const all: Imported[] = [];
    const importing = new Import({ source, target, releases, hasher, isTrusting, dryRun, vouchedFor });
    for await (const one of importing.run()) all.push(one);
    return all;
  };
  const find = (version = '1.0.0', platform = 'linux_amd64') =>
    store.find(
      new ProviderArchive(
        ProviderAddress.parse(`${HOST}/acme/widget`),
        Version.parse(version),
        Platform.parse(platform),
      ),
    );
  return { data, store, modules, run, find, drift };
}

/** As the clients write a mirror, with whatever hashes. */
async function mirror(hashes: (of: { zh: string; h1: string | undefined }) => (string | undefined)[]) {
  const target = await directory();
  const home = join(target, HOST, 'acme/widget');
  await mkdir(home, { recursive: true });
  const published = await publish(WIDGET);
  const [one] = [...published.packages.values()];
  if (!one?.bytes) throw new Error('nothing was published');
  const file = join(home, one.filename);
  await writeFile(file, Buffer.concat([...one.bytes.read(0, one.size)]));
  const said = hashes(one);
  if (said.length > 0) {
    const archives = { linux_amd64: { url: one.filename, hashes: said } };
    await writeFile(join(home, '1.0.0.json'), JSON.stringify({ archives }));
  }
  return { target, home, file, published, one };
}

const told = (all: readonly Imported[]) => all.map(({ outcome, why }) => (why ? `${outcome}: ${why}` : outcome));

describe('an import', () => {
  it('takes what has the package hash that its mirror tells, and knows both hashes then', async () => {
    const { target, one } = await mirror(({ h1 }) => [h1]);
    const { run, find } = await begin();
    expect(told(await run(target, { dryRun: true }))).toEqual(['would be imported']);
    expect(await find()).toBeUndefined();
    expect(told(await run(target))).toEqual(['imported']);
    expect(await find()).toMatchObject({ sha256: one.sha256, h1: one.h1 });
    expect(told(await run(target))).toEqual(['present']);
  });

  it('refuses what nothing vouches for, unless somebody does, and never what is no zip', async () => {
    const { target, file } = await mirror(() => []);
    const { run, find } = await begin();
    expect(told(await run(target))).toEqual(['refused: unverifiable']);
    expect(told(await run(target, { isTrusting: true }))).toEqual(['imported']);
    expect(await find()).toBeDefined();
    const other = await begin();
    await writeFile(file, 'no zip');
    expect(told(await other.run(target, { isTrusting: true }))).toEqual(['refused: invalid']);
    expect(await other.find()).toBeUndefined();
  });

  it('refuses what has another hash than any of those that are told of it', async () => {
    for (const hashes of [[`zh:${'0'.repeat(64)}`], [`h1:${'A'.repeat(43)}=`]]) {
      const { target } = await mirror(() => hashes);
      const { run, find } = await begin();
      expect(told(await run(target))).toEqual(['refused: digest']);
      expect(await find()).toBeUndefined();
    }
  });

  it('holds SHA256SUMS against VERSION.json, and a signature against its keys', async () => {
    const { target, home, published, one } = await mirror(({ zh }) => [zh]);
    const base = join(home, 'terraform-provider-widget_1.0.0');
    const keys = published.keys.map((key) => ({ ascii_armor: key.armored }));
    await writeFile(`${base}_SHA256SUMS`, `${'0'.repeat(64)}  ${one.filename}\n`);
    const { run, store } = await begin();
    expect(told(await run(target))).toEqual(['refused: digest']);
    expect([...(await store.releases(ProviderAddress.parse(`${HOST}/acme/widget`)))]).toEqual([]);
    await writeFile(`${base}_SHA256SUMS.sig`, published.signature);
    await writeFile(
      `${base}_release.json`,
      JSON.stringify({ signing_keys: { gpg_public_keys: keys }, protocols: ['5.0'] }),
    );
    expect(told(await run(target))).toEqual(['refused: signature', 'refused: signature']);
    await writeFile(`${base}_SHA256SUMS`, published.shasums);
    expect(told(await run(target))).toEqual(['imported', 'imported']);
  });

  it('takes nothing unsigned of a registry that has to sign', async () => {
    const { target, home, published } = await mirror(({ zh }) => [zh]);
    await writeFile(join(home, 'terraform-provider-widget_1.0.0_SHA256SUMS'), published.shasums);
    const { run } = await begin({ signatures: 'require' });
    expect(told(await run(target))).toEqual(['refused: signature', 'refused: signature']);
  });

  it('keeps what was seen first, of archives and of modules', async () => {
    const { target, file } = await mirror(({ zh }) => [zh]);
    const { run, drift, modules } = await begin();
    const home = join(target, 'modules', HOST, 'acme/net/aws');
    await mkdir(home, { recursive: true });
    await mkdir(join(target, 'providers'));
    await cp(join(target, HOST), join(target, 'providers', HOST), { recursive: true });
    const put = async (text: string) => {
      const bytes = moduleTarGz({ 'main.tf': text });
      await writeFile(join(home, '1.0.0.tar.gz'), bytes);
      const record = { sha256: sha256Hex(bytes), size: bytes.length, subdir: '', source: 'git::x' };
      await writeFile(join(home, '1.0.0.json'), JSON.stringify(record));
    };
    await put('# one\n');
    expect(told(await run(target))).toEqual(['imported', 'imported']);
    const stored = await modules.find(releaseOf('1.0.0'));
    expect(stored).toMatchObject({ source: 'git::x' });

    const other = await publish({ ...WIDGET, directoryEntries: true });
    const [two] = [...other.packages.values()];
    const there = join(target, 'providers', file.slice(target.length));
    await writeFile(there, Buffer.concat([...(two?.bytes?.read(0, two.size) ?? [])]));
    const archives = { linux_amd64: { url: two?.filename, hashes: [two?.zh] } };
    await writeFile(join(there, '../1.0.0.json'), JSON.stringify({ archives }));
    await put('# two\n');
    expect(told(await run(target))).toEqual(['refused: drift', 'refused: drift']);
    expect(drift.all).toHaveLength(2);
    expect(await modules.find(releaseOf('1.0.0'))).toMatchObject({ sha256: stored?.sha256 });
  });

  it('goes on past what does not get there, of which it keeps no SHA256SUMS either', async () => {
    const { target, home, published } = await mirror(({ zh }) => [zh]);
    await writeFile(join(home, 'terraform-provider-widget_1.0.0_SHA256SUMS'), published.shasums);
    const later = packageOf(await publish({ ...WIDGET, version: '1.1.0' }));
    await writeFile(join(home, later.filename), bytesOf(later));
    const archives = { linux_amd64: { url: later.filename, hashes: [later.zh] } };
    await writeFile(join(home, '1.1.0.json'), JSON.stringify({ archives }));
    let lost = 0;
    const { run, store } = await begin({ signatures: 'ignore', losing: () => lost++ === 0 });
    const all = await run(target);
    expect(told(all)).toEqual(['failed', 'imported']);
    expect(all[0]).toMatchObject({ reason: 'lost' });
    expect(await store.releases(ProviderAddress.parse(`${HOST}/acme/widget`))).toEqual([]);
    expect(told(await run(target))).toEqual(['imported', 'imported', 'present']);
  });

  it('takes no package whose record is missing or speaks of another one', async () => {
    const target = await directory();
    const home = join(target, 'modules', HOST, 'acme/net/aws');
    await mkdir(home, { recursive: true });
    const bytes = moduleTarGz({ 'main.tf': '# one\n' });
    await writeFile(join(home, '1.0.0.tar.gz'), bytes);
    const { run } = await begin();
    expect(told(await run(target))).toEqual(['refused: unverifiable']);
    const record = { sha256: '0'.repeat(64), size: bytes.length, subdir: '', source: 'git::x' };
    await writeFile(join(home, '1.0.0.json'), JSON.stringify(record));
    expect(told(await run(target))).toEqual(['refused: digest']);
  });

  it('takes only what is in the list whose digest was carried by another way', async () => {
    const { target, home, one, published } = await mirror(({ zh }) => [zh]);
    await writeFile(join(home, 'terraform-provider-widget_1.0.0_SHA256SUMS'), published.shasums);
    await mkdir(join(target, 'providers'));
    await cp(join(target, HOST), join(target, 'providers', HOST), { recursive: true });
    const { run, store } = await begin();
    const list = async (archives: unknown[]) => {
      const text = JSON.stringify({ format: 1, archives, packages: [] });
      await writeFile(join(target, 'larder-export.json'), text);
      return sha256Hex(Buffer.from(text));
    };
    expect(told(await run(target, { list: await list([]) }))).toEqual([
      'refused: unverifiable',
      'refused: unverifiable',
    ]);
    const entry = { address: `${HOST}/acme/widget`, version: '1.0.0', platform: 'linux_amd64', size: one.size };
    const other = await list([{ ...entry, sha256: '0'.repeat(64) }]);
    expect(told(await run(target, { list: other }))).toEqual(['refused: unverifiable', 'refused: digest']);
    const right = await list([{ ...entry, sha256: one.sha256 }]);
    await expect(run(target, { list: other })).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    // The archive is in the list, the checksums beside it are not: they may be anybody's.
    expect(told(await run(target, { list: right }))).toEqual(['refused: unverifiable', 'imported']);
    expect(await store.releases(ProviderAddress.parse(`${HOST}/acme/widget`))).toEqual([]);
  });

  it('reads no pipes and nothing that is no file, and says what is no mirror', async () => {
    const { target, file } = await mirror(({ zh }) => [zh]);
    await rm(file);
    await symlink('/dev/zero', file);
    const { run } = await begin();
    expect(told(await run(target))).toEqual(['refused: invalid']);
    await expect(BroughtDirectory.open(join(target, 'nowhere'))).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(BroughtDirectory.open(await directory())).rejects.toThrow('holds no mirror');
    expect(await readFile(join(target, HOST, 'acme/widget/1.0.0.json'), 'utf8')).toContain('zh:');
  });
});
