import { createHash } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { parseSha256 } from '../../src/address/hash.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { silentLogger } from '../../src/logger.ts';
import { ArchiveIntake } from '../../src/mirror/archive-intake.ts';
import type { Intake } from '../../src/mirror/carried.ts';
import { DriftReports } from '../../src/mirror/drift.ts';
import { PackageIntake } from '../../src/mirror/package-intake.ts';
import { ReleaseIntake } from '../../src/mirror/release-intake.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { releaseOf } from '../contract/module-store.ts';
import { afterTest } from '../support/after-test.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { publish } from '../support/published-provider.ts';
import { bytesOf, packageOf } from './scene.ts';

const WIDGET = { namespace: 'acme', type: 'widget', version: '1.0.0' } as const;
const PROVIDER = ProviderAddress.parse('registry.example.com/acme/widget');
const ARCHIVE = new ProviderArchive(PROVIDER, Version.parse('1.0.0'), Platform.parse('linux_amd64'));
const NET = releaseOf('1.0.0');
const LIMITS = { download: 10_000_000, unpacked: 10_000_000, files: 1_000, time: 30_000 };

async function begin() {
  const data = await mkdtemp(join(tmpdir(), 'larder-intake-'));
  afterTest(() => rm(data, { recursive: true, force: true }));
  const hasher = new PackageHasher();
  afterTest(() => hasher.close());
  const logger = silentLogger;
  const store = await DirectoryArchiveStore.open({ directory: data, hasher, logger });
  afterTest(() => store.close());
  const modules = await DirectoryModuleStore.open({ directory: data, logger });
  const drift = new DriftReports({ logger });
  return {
    store,
    modules,
    archives: new ArchiveIntake({ store, drift, logger }),
    packages: new PackageIntake({ store: modules, drift, limits: LIMITS, logger }),
    releases: new ReleaseIntake({ store, signatures: () => 'ignore' }),
    partials: () => readdir(join(data, 'partial')),
  };
}

const digest = (bytes: Buffer) => parseSha256(createHash('sha256').update(bytes).digest('hex'));
const of = (bytes: Buffer) => () => Readable.from([bytes]);

/** Somebody who sends the beginning, and the rest when told to. */
function slow(bytes: Buffer) {
  const body = new PassThrough();
  let open = () => body;
  const isOpened = new Promise<void>((resolve) => {
    open = () => {
      resolve();
      return body;
    };
  });
  body.write(bytes.subarray(0, 10));
  return { open, isOpened, finish: () => void body.end(bytes.subarray(10)), body };
}

async function twoArchives(): Promise<[Buffer, Buffer]> {
  const [one, other] = [await publish(WIDGET), await publish({ ...WIDGET, directoryEntries: true })];
  return [bytesOf(packageOf(one)), bytesOf(packageOf(other))];
}

const outcomes = (all: readonly Intake<unknown>[]) => all.map(({ outcome }) => outcome).sort();

describe('of those who bring the same archive at once', () => {
  it('nobody waits for whoever sends slowly, who then has brought what is there', async () => {
    const { archives, partials } = await begin();
    const [bytes] = await twoArchives();
    const claims = { sha256: digest(bytes) };
    const first = slow(bytes);
    const slowly = archives.take(ARCHIVE, first.open, claims);
    await first.isOpened;
    expect((await archives.take(ARCHIVE, of(bytes), claims)).outcome).toBe('imported');
    first.finish();
    expect((await slowly).outcome).toBe('present');
    expect(await partials()).toEqual([]);
  });

  it('whoever is first done wins, and what others bring besides is drift', async () => {
    const { archives, store, partials } = await begin();
    const [bytes, others] = await twoArchives();
    const first = slow(others);
    const slowly = archives.take(ARCHIVE, first.open, { sha256: digest(others) });
    await first.isOpened;
    await archives.take(ARCHIVE, of(bytes), { sha256: digest(bytes) });
    first.finish();
    expect(await slowly).toMatchObject({ outcome: 'refused', why: 'drift' });
    expect((await store.find(ARCHIVE))?.sha256).toBe(digest(bytes));
    expect(await partials()).toEqual([]);
  });

  it('one has brought it, however many are done at the same moment', async () => {
    const { archives, partials } = await begin();
    const [bytes] = await twoArchives();
    const claims = { sha256: digest(bytes) };
    const all = await Promise.all(Array.from({ length: 8 }, () => archives.take(ARCHIVE, of(bytes), claims)));
    expect(outcomes(all)).toEqual(['imported', ...Array(7).fill('present')]);
    expect(await partials()).toEqual([]);
  });

  it('one who breaks off harms nobody', async () => {
    const { archives, partials } = await begin();
    const [bytes] = await twoArchives();
    const claims = { sha256: digest(bytes) };
    const first = slow(bytes);
    const broken = archives.take(ARCHIVE, first.open, claims);
    await first.isOpened;
    first.body.destroy(new Error('gone'));
    await expect(broken).rejects.toThrow('gone');
    expect((await archives.take(ARCHIVE, of(bytes), claims)).outcome).toBe('imported');
    expect(await partials()).toEqual([]);
  });
});

describe('of those who bring something for the same module at once', () => {
  it('to different replicas, what is first there stays, and what comes a moment later is drift', async () => {
    const { packages, modules, partials } = await begin();
    const [first, later] = [moduleTarGz({ 'main.tf': '# one\n' }), moduleTarGz({ 'main.tf': '# another\n' })];
    const claims = { subdir: '', source: 'x', fingerprint: undefined, isTrusted: true };
    // The other replica has looked, and found nothing, when this one puts it there.
    const late = Object.assign(Object.create(modules) as typeof modules, {
      find: (release: typeof NET) => modules.find(release),
      recall: (release: typeof NET) => modules.recall(release),
      workDirectory: () => modules.workDirectory(),
      put: async (...args: Parameters<typeof modules.put>) => {
        await packages.take(NET, of(first), claims);
        return modules.put(...args);
      },
    });
    const drift = new DriftReports({ logger: silentLogger });
    const other = new PackageIntake({ store: late, drift, limits: LIMITS, logger: silentLogger });
    const sha256 = async () => (await modules.find(NET))?.sha256;
    expect(await other.take(NET, of(later), claims)).toMatchObject({ outcome: 'refused', why: 'drift' });
    expect(drift.all).toMatchObject([{ first: await sha256() }]);
    expect(await partials()).toEqual([]);
  });

  it('one has brought it, and another package is drift', async () => {
    const { packages, modules, partials } = await begin();
    const [bytes, others] = [moduleTarGz({ 'main.tf': '# one\n' }), moduleTarGz({ 'main.tf': '# another\n' })];
    const claims = (of: Buffer) => ({ sha256: digest(of), subdir: '', source: 'a test', fingerprint: undefined });
    const all = await Promise.all(
      [bytes, others, bytes, others].map((one) => packages.take(NET, of(one), claims(one))),
    );
    expect(outcomes(all)).toEqual(['imported', 'present', 'refused', 'refused']);
    const kept = all.find(({ outcome }) => outcome === 'imported');
    expect(kept).toMatchObject({ stored: { sha256: (await modules.find(NET))?.sha256 } });
    expect(await partials()).toEqual([]);
  });
});

describe('of those who bring SHA256SUMS of the same version at once', () => {
  it('the first is kept, and what contradicts it is drift', async () => {
    const { releases, store } = await begin();
    const statement = Buffer.from(JSON.stringify({ signing_keys: { gpg_public_keys: [] }, protocols: ['5.0'] }));
    const checked = async (digit: string) => {
      const shasums = Buffer.from(`${digit.repeat(64)}  ${ARCHIVE.filename}\n`);
      const found = await releases.check(PROVIDER, { shasums, signature: undefined, statement });
      if (found.outcome === 'refused') throw new Error(found.reason);
      return found.stored;
    };
    const both = [await checked('a'), await checked('b')];
    const all = await Promise.all(both.map((one) => releases.keep(PROVIDER, ARCHIVE.version, one)));
    expect(all).toMatchObject([{ outcome: 'imported' }, { outcome: 'refused', why: 'drift' }]);
    const kept = await store.getRelease(PROVIDER, ARCHIVE.version);
    expect(kept?.shasums.toString()).toContain('a'.repeat(64));
  });
});
