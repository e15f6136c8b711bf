import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { type Hash, parseSha256, type Sha256 } from '../../src/address/hash.ts';
import { Hostname } from '../../src/address/hostname.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { MetadataCache } from '../../src/cache/metadata-cache.ts';
import { NotFound, UpstreamUnreachable } from '../../src/errors.ts';
import { DriftReports } from '../../src/mirror/drift.ts';
import { metadataKinds, privateMetadataKinds } from '../../src/mirror/metadata-kinds.ts';
import { ProviderMetadata } from '../../src/mirror/provider-metadata.ts';
import { UpstreamMetadata } from '../../src/mirror/upstream-metadata.ts';
import type { ReleaseFiles } from '../../src/store/archive-store.ts';
import type { MetadataEntry, MetadataStore } from '../../src/store/metadata-store.ts';
import type { ProviderRegistry } from '../../src/upstream/provider-registry.ts';
import type { PackageDocument, ReleaseChecksums } from '../../src/upstream/registry-answers.ts';
import type { ServiceDiscovery } from '../../src/upstream/service-discovery.ts';
import type { Upstream } from '../../src/upstream/upstream.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { stoppedClock } from './scene.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const FRESHNESS = { versions: 5 * MINUTE, discovery: HOUR, packages: 24 * HOUR, absent: MINUTE, keep: 90 * 24 * HOUR };

const provider = ProviderAddress.parse('registry.example.com/acme/widget');
const upstream: Upstream = {
  hostname: Hostname.parse('registry.example.com'),
  token: async () => undefined,
  ca: undefined,
  clientCertificate: undefined,
  privateNetwork: false,
  signatures: 'verify',
  archiveHosts: new Set(),
};

function digest(text: string): Sha256 {
  return parseSha256(createHash('sha256').update(text).digest('hex'));
}

/** A release as its publisher made it. */
interface Published {
  readonly version: string;
  readonly published?: string;
  /** File names by platform. */
  readonly files: Readonly<Record<string, string>>;
  /** What the versions list says, when that is not the platforms of the files. */
  readonly listedPlatforms?: readonly string[];
  /** Leaves these out of SHA256SUMS. */
  readonly unlisted?: readonly string[];
  readonly packages?: PackageDocument['packages'];
  readonly withoutShasums?: boolean;
  /** Published again: the same names, other bytes. */
  readonly edition?: number;
}

const release = (version: string, ...platforms: string[]): Published => ({
  version,
  files: Object.fromEntries(
    platforms.map((platform) => [platform, `terraform-provider-widget_${version}_${platform}.zip`]),
  ),
});

function digestIn({ edition = 1 }: Published, filename: string): Sha256 {
  return digest(edition === 1 ? filename : `${filename} ${edition}`);
}

/** A registry in memory that notes what it is asked. */
class Registry
  implements Pick<ProviderRegistry, 'versions' | 'findPackage' | 'checksums' | 'openArchive' | 'archiveLength'>
{
  readonly asked: string[] = [];
  releases: Published[] = [];
  missingDocuments = new Set<string>();
  failure: Error | undefined;

  async versions() {
    this.#note('versions');
    return {
      versions: this.releases.map(({ version, published, files, listedPlatforms }) => ({
        version: Version.parse(version),
        published: published ?? version,
        protocols: ['5.0'],
        platforms: (listedPlatforms ?? Object.keys(files)).map((text) => Platform.parse(text)),
      })),
      skipped: [],
      warnings: [],
    };
  }

  async findPackage(_upstream: Upstream, _base: URL, _provider: ProviderAddress, version: string, platform: Platform) {
    this.#note(`document ${version} ${platform}`);
    const found = this.releases.find((entry) => (entry.published ?? entry.version) === version);
    const filename = found?.files[platform.toString()];
    if (!found || !filename || this.missingDocuments.has(platform.toString())) throw new NotFound('no such package');
    return {
      platform,
      filename,
      downloadUrl: new URL(`https://files.example.com/${filename}`),
      sha256: digestIn(found, filename),
      shasumsUrl: new URL(`https://files.example.com/${found.version}/SHA256SUMS`),
      signatureUrl: undefined,
      signingKeys: [],
      statement: { signing_keys: { gpg_public_keys: [] }, protocols: ['5.0'] },
      packages: found.packages ?? new Map(),
    } satisfies PackageDocument;
  }

  async checksums(_upstream: Upstream, document: PackageDocument): Promise<ReleaseChecksums> {
    this.#note('checksums');
    const version = document.shasumsUrl?.pathname.split('/')[1];
    const found = this.releases.find((entry) => entry.version === version);
    const verdict = { state: 'unsigned', keyId: undefined, notes: [] } as const;
    if (found?.withoutShasums) {
      const digests = new Map([[document.filename, document.sha256]]);
      return { digests, shasums: Buffer.alloc(0), signature: undefined, verdict };
    }
    if (!found) throw new NotFound('no such checksums');
    const names = Object.values(found.files).filter((name) => !found.unlisted?.includes(name));
    return {
      digests: new Map(names.map((name) => [name, digestIn(found, name)])),
      shasums: Buffer.from(names.map((name) => `${digestIn(found, name)}  ${name}\n`).join('')),
      signature: undefined,
      verdict,
    };
  }

  async openArchive() {
    return { body: Readable.from([]), offset: 0, size: undefined };
  }

  async archiveLength() {
    return undefined;
  }

  #note(what: string): void {
    this.asked.push(what);
    if (this.failure) throw this.failure;
  }
}

class MemoryStore implements MetadataStore {
  readonly #entries = new Map<string, string>();
  async get(key: string) {
    const text = this.#entries.get(key);
    return text === undefined ? undefined : (JSON.parse(text) as MetadataEntry);
  }
  async put(key: string, entry: MetadataEntry) {
    this.#entries.set(key, JSON.stringify(entry));
  }
  async delete(key: string) {
    this.#entries.delete(key);
  }
  async check() {}
  async close() {}
}

function setUp(...releases: Published[]) {
  const clock = stoppedClock();
  const registry = new Registry();
  registry.releases = releases;
  const logger = recordingLogger();
  const store = new MemoryStore();
  const known = new Map<Sha256, Hash>();
  const kept = new Map<string, ReleaseFiles>();
  let discoveries = 0;
  const start = () => {
    const cache = new MetadataCache({ store, logger, deadlineMs: 8 * SECOND });
    onTestFinished(() => cache.close());
    const discovery = {
      discover: async () => {
        discoveries += 1;
        return { 'providers.v1': 'https://registry.example.com/v1/providers/' };
      },
    } as unknown as ServiceDiscovery;
    return new ProviderMetadata({
      upstreams: new UpstreamMetadata({
        cache,
        kinds: metadataKinds(FRESHNESS),
        privateKinds: privateMetadataKinds(FRESHNESS),
        discovery,
      }),
      registry: registry as unknown as ProviderRegistry,
      knownPackageHash: async (sha256) => known.get(sha256),
      store: {
        getRelease: async (_provider, version) => kept.get(version.toString()),
        putRelease: async (_provider, version, files) => void kept.set(version.toString(), files),
      },
      drift: new DriftReports({ logger }),
      logger,
    });
  };
  const metadata = start();
  return {
    clock,
    registry,
    logger,
    known,
    /** The same once more, with nothing in memory. */
    restart: start,
    release: (version: string, of = metadata) => of.release(upstream, provider, Version.parse(version)),
    document: (version: string, platform: string, renew = false) =>
      metadata.document(
        upstream,
        new ProviderArchive(provider, Version.parse(version), Platform.parse(platform)),
        renew,
      ),
    versions: () => metadata.versions(upstream, provider),
    discoveries: () => discoveries,
  };
}

describe('what upstream says of a release', () => {
  it('costs discovery, versions, one document and the checksums; a second version costs two requests less', async () => {
    const {
      registry,
      release: ask,
      discoveries,
    } = setUp(
      release('1.0.0', 'linux_amd64', 'darwin_arm64', 'windows_amd64'),
      release('1.1.0', 'linux_amd64', 'darwin_arm64', 'windows_amd64'),
    );
    expect([...(await ask('1.0.0')).value.packages.keys()].sort()).toEqual([
      'darwin_arm64',
      'linux_amd64',
      'windows_amd64',
    ]);
    // The checksums are two requests: SHA256SUMS and its signature.
    expect(registry.asked).toEqual(['versions', 'document 1.0.0 linux_amd64', 'checksums']);
    expect(discoveries()).toBe(1);
    await ask('1.1.0');
    expect(registry.asked.slice(3)).toEqual(['document 1.1.0 linux_amd64', 'checksums']);
    expect(discoveries()).toBe(1);
    await ask('1.0.0');
    await ask('1.1.0');
    expect(registry.asked).toHaveLength(5);
  });

  it('is asked about with the spelling that upstream uses', async () => {
    const { registry, release: ask } = setUp({ ...release('1.0.0', 'linux_amd64'), published: 'v1.0.0' });
    await ask('1.0.0');
    expect(registry.asked).toContain('document v1.0.0 linux_amd64');
  });

  it.each([
    [['darwin_arm64', 'linux_arm64'], 'linux_arm64'],
    [['solaris_amd64', 'darwin_amd64'], 'darwin_amd64'],
    [['solaris_amd64', 'openbsd_386'], 'solaris_amd64'],
  ])('begins with the platform that is most likely wanted of %j', async (platforms, first) => {
    const { registry, release: ask } = setUp(release('1.0.0', ...platforms));
    await ask('1.0.0');
    expect(registry.asked.filter((what) => what.startsWith('document'))).toEqual([`document 1.0.0 ${first}`]);
  });

  it('asks for the documents of archives that are not named like the others', async () => {
    const name = (suffix: string) => `terraform-provider-widget_1.0.0_${suffix}.zip`;
    const { registry, release: ask } = setUp({
      version: '1.0.0',
      files: { linux_amd64: name('linux_amd64'), linux_arm: name('linux_armv6'), darwin_arm64: name('darwin_arm64') },
    });
    const { value } = await ask('1.0.0');
    expect(value.packages.get('linux_arm')?.sha256).toBe(digest(name('linux_armv6')));
    expect(value.complete).toBe(true);
    expect(registry.asked.filter((what) => what.startsWith('document'))).toEqual([
      'document 1.0.0 linux_amd64',
      'document 1.0.0 linux_arm',
    ]);
  });

  it('keeps the first digest of an archive that is not named like the others, too', async () => {
    const odd = 'terraform-provider-widget_1.0.0_linux_armv6.zip';
    const files = { linux_amd64: 'terraform-provider-widget_1.0.0_linux_amd64.zip', linux_arm: odd };
    const { clock, registry, logger, release: ask } = setUp({ version: '1.0.0', files });
    await ask('1.0.0');
    registry.releases = [{ version: '1.0.0', files, edition: 2 }];
    clock.advance(FRESHNESS.packages + SECOND);
    const { packages } = (await ask('1.0.0')).value;
    const published = digestIn({ version: '1.0.0', files, edition: 2 }, odd);
    expect(packages.get('linux_arm')).toMatchObject({ sha256: digest(odd), drifted: published });
    expect(logger.lines.filter(({ message }) => message.includes('publishes other bytes'))).toHaveLength(2);
  });

  it('takes the platforms from SHA256SUMS when the list names none', async () => {
    const { release: ask } = setUp({ ...release('1.0.0', 'linux_amd64', 'freebsd_386'), listedPlatforms: [] });
    expect([...(await ask('1.0.0')).value.packages.keys()].sort()).toEqual(['freebsd_386', 'linux_amd64']);
  });

  it('asks for each document when there is no SHA256SUMS at all', async () => {
    const { registry, release: ask } = setUp({
      ...release('1.0.0', 'linux_amd64', 'darwin_arm64'),
      withoutShasums: true,
    });
    const { value } = await ask('1.0.0');
    expect([...value.packages.keys()].sort()).toEqual(['darwin_arm64', 'linux_amd64']);
    expect(value.files).toBeUndefined();
    expect(registry.asked.filter((what) => what.startsWith('document'))).toHaveLength(2);
  });

  it('leaves out an archive that SHA256SUMS does not name, and says so', async () => {
    const odd = 'odd.zip';
    const { release: ask, logger } = setUp({
      version: '1.0.0',
      files: { linux_amd64: 'terraform-provider-widget_1.0.0_linux_amd64.zip', linux_arm: odd },
      unlisted: [odd],
    });
    const { value } = await ask('1.0.0');
    expect([...value.packages.keys()]).toEqual(['linux_amd64']);
    expect(value.complete).toBe(false);
    expect(logger.lines.filter(({ message }) => message.includes('does not name'))).toHaveLength(1);
  });

  it('tries the next likely platform when a document is missing, and a few of them at most', async () => {
    const platforms = ['linux_amd64', 'linux_arm64', 'darwin_arm64', 'windows_amd64', 'darwin_amd64', 'freebsd_amd64'];
    const { registry, release: ask } = setUp(release('1.0.0', ...platforms));
    registry.missingDocuments = new Set(['linux_amd64']);
    expect((await ask('1.0.0')).value.packages.size).toBe(platforms.length);
    expect(registry.asked.filter((what) => what.startsWith('document'))).toHaveLength(2);

    const other = setUp(release('2.0.0', ...platforms));
    other.registry.missingDocuments = new Set(platforms);
    await expect(other.release('2.0.0')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(other.registry.asked.filter((what) => what.startsWith('document'))).toHaveLength(5);
  });

  it('is asked for again soon when it was incomplete, and not for a day when it was complete', async () => {
    const {
      clock,
      registry,
      release: ask,
    } = setUp({
      ...release('1.0.0', 'linux_amd64'),
      listedPlatforms: ['linux_amd64', 'linux_arm'],
    });
    expect((await ask('1.0.0')).value.complete).toBe(false);
    const first = registry.asked.filter((what) => what === 'checksums').length;
    clock.advance(FRESHNESS.absent - SECOND);
    await ask('1.0.0');
    expect(registry.asked.filter((what) => what === 'checksums')).toHaveLength(first);

    registry.releases = [release('1.0.0', 'linux_amd64', 'linux_arm')];
    clock.advance(2 * SECOND);
    expect((await ask('1.0.0')).value.complete).toBe(true);
    registry.asked.length = 0;
    clock.advance(FRESHNESS.packages - MINUTE);
    await ask('1.0.0');
    expect(registry.asked).toEqual([]);
  });

  it('survives a restart without asking, SHA256SUMS byte for byte', async () => {
    const { registry, release: ask, restart } = setUp({ ...release('1.0.0', 'linux_amd64', 'darwin_arm64') });
    const { value: before } = await ask('1.0.0');
    registry.asked.length = 0;
    const { value: after } = await ask('1.0.0', restart());
    expect(registry.asked).toEqual([]);
    expect(after.files?.shasums.equals(before.files?.shasums ?? Buffer.alloc(0))).toBe(true);
    expect([...after.packages.values()].map(String)).toEqual([...before.packages.values()].map(String));
    expect(after.packages.get('darwin_arm64')?.sha256).toBe(before.packages.get('darwin_arm64')?.sha256);
  });

  it('R93: takes h1: and size from upstream where they agree with SHA256SUMS, and what was computed here otherwise', async () => {
    const [linux, darwin] = ['linux_amd64', 'darwin_arm64'].map((it) => `terraform-provider-widget_1.0.0_${it}.zip`);
    const h1 = (letter: string) => `h1:${letter.repeat(43)}=` as Hash;
    const {
      release: ask,
      known,
      logger,
    } = setUp({
      ...release('1.0.0', 'linux_amd64', 'darwin_arm64'),
      packages: new Map([
        ['linux_amd64', { hashes: [`zh:${digest(linux ?? '')}` as Hash, h1('A')], size: 17 }],
        ['darwin_arm64', { hashes: [`zh:${digest('something else')}` as Hash, h1('B')], size: 18 }],
      ]),
    });
    known.set(digest(darwin ?? ''), h1('C'));
    const { packages } = (await ask('1.0.0')).value;
    expect(packages.get('linux_amd64')).toMatchObject({ h1: h1('A'), size: 17 });
    expect(packages.get('darwin_arm64')).toMatchObject({ h1: h1('C'), size: undefined });
    expect(logger.lines.filter(({ message }) => message.includes('other hashes'))).toHaveLength(1);
  });
});

describe('a version that the list does not name', () => {
  it('R08: is looked for in a new list once, when the list is not quite new', async () => {
    const { clock, registry, versions, release: ask } = setUp(release('1.0.0', 'linux_amd64'));
    await versions();
    clock.advance(MINUTE);
    registry.releases.push(release('1.1.0', 'linux_amd64'));
    expect((await ask('1.1.0')).value.packages.size).toBe(1);
    expect(registry.asked.filter((what) => what === 'versions')).toHaveLength(2);
  });

  it('R08: costs no new list when the list is a few seconds old', async () => {
    const { clock, registry, versions, release: ask } = setUp(release('1.0.0', 'linux_amd64'));
    await versions();
    clock.advance(5 * SECOND);
    await expect(ask('9.9.9')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(registry.asked).toEqual(['versions']);
  });

  it('is remembered as absent, briefly, and many different ones cost one list together', async () => {
    const { clock, registry, versions, release: ask } = setUp(release('1.0.0', 'linux_amd64'));
    await versions();
    clock.advance(MINUTE);
    const unknown = Array.from({ length: 20 }, (_, patch) => `9.9.${patch}`);
    for (const version of [...unknown, ...unknown])
      await expect(ask(version)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(registry.asked).toEqual(['versions', 'versions']);
    registry.releases.push(release('9.9.9', 'linux_amd64'));
    clock.advance(FRESHNESS.absent + SECOND);
    expect((await ask('9.9.9')).value.packages.size).toBe(1);
  });

  it('is not called absent while the list can only be had stale', async () => {
    const { clock, registry, versions, release: ask } = setUp(release('1.0.0', 'linux_amd64'));
    await versions();
    clock.advance(HOUR);
    registry.failure = new UpstreamUnreachable('registry.example.com', 'failing', 'failed (503)');
    await expect(ask('9.9.9')).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
  });
});

describe('where an archive is to be had', () => {
  it('is asked once for a burst, and again a minute later: addresses expire', async () => {
    const { clock, registry, document } = setUp(release('1.0.0', 'linux_amd64'));
    await Promise.all(Array.from({ length: 10 }, () => document('1.0.0', 'linux_amd64')));
    clock.advance(30 * SECOND);
    await document('1.0.0', 'linux_amd64');
    expect(registry.asked).toEqual(['versions', 'document 1.0.0 linux_amd64']);
    clock.advance(31 * SECOND);
    await document('1.0.0', 'linux_amd64');
    expect(registry.asked).toHaveLength(3);
  });

  it('R34: is asked anew on demand, however fresh what is known', async () => {
    const { clock, registry, document } = setUp(release('1.0.0', 'linux_amd64'));
    await document('1.0.0', 'linux_amd64');
    clock.advance(1);
    await document('1.0.0', 'linux_amd64', true);
    expect(registry.asked.filter((what) => what.startsWith('document'))).toHaveLength(2);
  });

  it('is told as absent for a platform that upstream does not have', async () => {
    const { document } = setUp(release('1.0.0', 'linux_amd64'));
    await expect(document('1.0.0', 'plan9_mips')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});
