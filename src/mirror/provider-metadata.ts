import pLimit from 'p-limit';
import { ProviderArchive } from '../address/archive.ts';
import { type Hash, type Sha256, sha256Of } from '../address/hash.ts';
import { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { MetadataCache, MetadataKind, MetadataRead, ReadOptions } from '../cache/metadata-cache.ts';
import { hasCode, NotFound, Unauthenticated } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { metadataKeys } from '../store/keys.ts';
import type { ProviderRegistry } from '../upstream/provider-registry.ts';
import type {
  PackageDocument,
  ProviderVersions,
  PublishedVersion,
  ReleaseChecksums,
} from '../upstream/registry-answers.ts';
import { type ServiceDiscovery, serviceUrl } from '../upstream/service-discovery.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { MetadataKinds } from './metadata-kinds.ts';
import type { Release, ReleasePackage } from './release.ts';

/** A version that the cached list does not name may just have been published: the list is asked for anew, but not more often than this. */
const UNLISTED_VERSION_RECHECK_MS = 10_000;

/** Documents asked for at a time, when a release's platforms cannot be told from SHA256SUMS. */
const CONCURRENT_DOCUMENTS = 4;

/** The platform whose document is asked for, in this order: most likely wanted first, so that it is at hand for the download. */
const LIKELY_PLATFORMS = ['linux_amd64', 'linux_arm64', 'darwin_arm64', 'windows_amd64', 'darwin_amd64'];

/**
 * What upstream registries say of providers, through the metadata cache.
 *
 * A whole cold release costs five requests: discovery, versions, one package document, SHA256SUMS and its signature.
 */
export class ProviderMetadata {
  readonly #cache: MetadataCache;
  readonly #kinds: MetadataKinds;
  readonly #privateKinds: MetadataKinds;
  readonly #discovery: ServiceDiscovery;
  readonly #registry: ProviderRegistry;
  readonly #knownPackageHash: (sha256: Sha256) => Promise<Hash | undefined>;
  readonly #logger: Logger;

  constructor(deps: {
    cache: MetadataCache;
    kinds: MetadataKinds;
    /** For upstreams with a partition. */
    privateKinds: MetadataKinds;
    discovery: ServiceDiscovery;
    registry: ProviderRegistry;
    /** `h1:` computed here earlier, by the archive's digest. */
    knownPackageHash: (sha256: Sha256) => Promise<Hash | undefined>;
    logger: Logger;
  }) {
    this.#cache = deps.cache;
    this.#kinds = deps.kinds;
    this.#privateKinds = deps.privateKinds;
    this.#discovery = deps.discovery;
    this.#registry = deps.registry;
    this.#knownPackageHash = deps.knownPackageHash;
    this.#logger = deps.logger;
  }

  /**
   * The versions list.
   * @throws NotFound when the registry does not know the provider
   * @throws Unauthenticated when it was asked with the requester's token and does not accept that
   */
  versions(
    upstream: Upstream,
    provider: ProviderAddress,
    options: ReadOptions = {},
  ): Promise<MetadataRead<ProviderVersions>> {
    const load = async (signal: AbortSignal) => {
      const base = await this.#base(upstream);
      const list = await accepted(upstream, this.#registry.versions(upstream, base, provider, signal));
      if (list.skipped.length > 0) {
        this.#logger.warn('left out of the versions list: not versions', {
          provider: provider.toString(),
          entries: list.skipped.slice(0, 20),
        });
      }
      return list;
    };
    return this.#read(upstream, metadataKeys.providerVersions(provider), (kinds) => kinds.versions, load, options);
  }

  /** Every platform of one version, without any archive. @throws NotFound when there is no such version */
  release(upstream: Upstream, provider: ProviderAddress, version: Version): Promise<MetadataRead<Release>> {
    return this.#read(
      upstream,
      metadataKeys.providerPackages(provider, version),
      (kinds) => kinds.release,
      (signal) => this.#loadRelease(upstream, provider, version, signal),
    );
  }

  /** Where one archive is to be had now. Its download address may be short-lived: `renew` asks for a new one. */
  async document(upstream: Upstream, archive: ProviderArchive, renew = false): Promise<PackageDocument> {
    const { provider, version, platform } = archive;
    const { published } = await this.#published(upstream, provider, version);
    const load = async (signal: AbortSignal) => {
      const base = await this.#base(upstream);
      return accepted(upstream, this.#registry.findPackage(upstream, base, provider, published, platform, signal));
    };
    const options = renew ? { notBefore: Date.now() } : {};
    const key = metadataKeys.packageDocument(archive);
    return (await this.#read(upstream, key, (kinds) => kinds.document, load, options)).value;
  }

  async #base(upstream: Upstream): Promise<URL> {
    const load = (signal: AbortSignal) => accepted(upstream, this.#discovery.discover(upstream, signal));
    const { value } = await this.#read(
      upstream,
      metadataKeys.discovery(upstream.hostname),
      (kinds) => kinds.discovery,
      load,
    );
    return serviceUrl(value, 'providers.v1', upstream.hostname);
  }

  /** Through the cache; what an upstream tells one requester is kept apart from what it tells others. */
  #read<T>(
    { hostname, partition }: Upstream,
    key: string,
    kindOf: (kinds: MetadataKinds) => MetadataKind<T>,
    load: (signal: AbortSignal) => Promise<T>,
    options: ReadOptions = {},
  ): Promise<MetadataRead<T>> {
    const isForAll = partition === undefined;
    return this.#cache.read(
      isForAll ? key : metadataKeys.told(key, partition),
      kindOf(isForAll ? this.#kinds : this.#privateKinds),
      load,
      { host: hostname.toString(), ...options },
    );
  }

  /** The list's entry for a version, looked for once more in a new list when the cached one does not have it. */
  async #published(upstream: Upstream, provider: ProviderAddress, version: Version): Promise<PublishedVersion> {
    const find = ({ value }: MetadataRead<ProviderVersions>) =>
      value.versions.find((entry) => entry.version.toString() === version.toString());
    const cached = find(await this.versions(upstream, provider));
    if (cached) return cached;
    const notBefore = Date.now() - UNLISTED_VERSION_RECHECK_MS;
    const newest = await this.versions(upstream, provider, { notBefore });
    const renewed = find(newest);
    if (renewed) return renewed;
    // An old list proves nothing about what is new.
    if (newest.stale) throw newest.stale.reason;
    throw new NotFound(`${provider.hostname} has no version ${version} of ${provider.namespace}/${provider.type}`);
  }

  async #loadRelease(
    upstream: Upstream,
    provider: ProviderAddress,
    version: Version,
    signal: AbortSignal,
  ): Promise<Release> {
    const { platforms } = await this.#published(upstream, provider, version);
    const document = await this.#anyDocument(upstream, provider, version, platforms);
    const checksums = await this.#registry.checksums(upstream, document, signal);
    for (const note of checksums.verdict.notes) {
      this.#logger.warn('the signature is good, with a reservation', { release: `${provider} ${version}`, note });
    }
    const listed = platforms.length > 0 ? platforms : platformsNamedIn(checksums, document);

    const packages = new Map<string, ReleasePackage>();
    for (const platform of listed) {
      const sha256 = checksums.digests.get(filenameFor(platform, document));
      if (sha256) packages.set(platform.toString(), await this.#describe(platform, sha256, document));
    }
    const unnamed = listed.filter((platform) => !packages.has(platform.toString()));
    for (const found of await this.#askEach(upstream, provider, version, unnamed, checksums)) {
      packages.set(found.platform.toString(), found);
    }
    return {
      packages,
      files: checksums.shasums.length > 0 ? { shasums: checksums.shasums, signature: checksums.signature } : undefined,
      signature: checksums.verdict.state,
      complete: listed.every((platform) => packages.has(platform.toString())),
    };
  }

  /** One platform's document stands for all: the checksum list, keys and `packages` are the same in each. */
  async #anyDocument(
    upstream: Upstream,
    provider: ProviderAddress,
    version: Version,
    platforms: readonly Platform[],
  ): Promise<PackageDocument> {
    const likely = LIKELY_PLATFORMS.map((text) => Platform.parse(text));
    const isLikely = (platform: Platform) => LIKELY_PLATFORMS.includes(platform.toString());
    const listed = new Set(platforms.map(String));
    const candidates =
      platforms.length === 0
        ? likely
        : [...likely.filter((each) => listed.has(each.toString())), ...platforms.filter((each) => !isLikely(each))];
    let absent: unknown = new NotFound(`${provider} ${version} is listed without any platform`);
    for (const platform of candidates.slice(0, LIKELY_PLATFORMS.length)) {
      try {
        return await this.document(upstream, new ProviderArchive(provider, version, platform));
      } catch (error) {
        if (!hasCode(error, 'NOT_FOUND')) throw error;
        absent = error;
      }
    }
    throw absent;
  }

  /** For archives that are not named like their siblings (`…_linux_armv6.zip`): their own documents tell. */
  async #askEach(
    upstream: Upstream,
    provider: ProviderAddress,
    version: Version,
    platforms: readonly Platform[],
    checksums: ReleaseChecksums,
  ): Promise<ReleasePackage[]> {
    const limit = pLimit(CONCURRENT_DOCUMENTS);
    const found = await Promise.all(
      platforms.map((platform) =>
        limit(async () => {
          try {
            const document = await this.document(upstream, new ProviderArchive(provider, version, platform));
            if (isListed(document, checksums)) return await this.#describe(platform, document.sha256, document);
            this.#logger.warn('left out: SHA256SUMS does not name this archive', {
              archive: `${provider} ${version} ${platform}`,
            });
          } catch (error) {
            if (!hasCode(error, 'NOT_FOUND')) throw error;
          }
          return undefined;
        }),
      ),
    );
    return found.filter((entry) => entry !== undefined);
  }

  async #describe(platform: Platform, sha256: Sha256, document: PackageDocument): Promise<ReleasePackage> {
    const told = document.packages.get(platform.toString());
    const agrees = told?.hashes.some((hash) => sha256Of(hash) === sha256);
    if (told && !agrees) {
      this.#logger.warn('ignored: upstream tells other hashes than SHA256SUMS', { platform: platform.toString() });
    }
    const h1 = agrees ? told?.hashes.find((hash) => hash.startsWith('h1:')) : undefined;
    return {
      platform,
      sha256,
      h1: h1 ?? (await this.#knownPackageHash(sha256)),
      size: agrees ? told?.size : undefined,
    };
  }
}

/** The requester's token is not Larder's to mend: that it is refused is told to the requester. */
async function accepted<T>({ partition, hostname }: Upstream, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (partition === undefined || !hasCode(error, 'UPSTREAM_REFUSED')) throw error;
    throw new Unauthenticated(
      `${hostname} does not accept ${partition === 'anonymous' ? 'requests without a' : 'this'} token`,
      {
        hint: `it is asked with the token that the client sends: configure the one of ${hostname} there`,
        cause: error,
      },
    );
  }
}

/** By its name or, where the registry names it otherwise than SHA256SUMS does, by its digest. */
function isListed({ filename, sha256 }: PackageDocument, { shasums, digests }: ReleaseChecksums): boolean {
  if (shasums.length === 0) return true;
  const listed = digests.get(filename);
  return listed === undefined ? [...digests.values()].includes(sha256) : listed === sha256;
}

/** The name that SHA256SUMS has for another platform's archive, judging by the one that is known. */
function filenameFor(platform: Platform, { filename, platform: known }: PackageDocument): string {
  const suffix = `_${known}.zip`;
  return filename.endsWith(suffix)
    ? `${filename.slice(0, -suffix.length)}_${platform}.zip`
    : `${filename} of ${platform}`;
}

function platformsNamedIn(checksums: ReleaseChecksums, { filename, platform: known }: PackageDocument): Platform[] {
  const suffix = `_${known}.zip`;
  if (!filename.endsWith(suffix)) return [known];
  const prefix = `${filename.slice(0, -suffix.length)}_`;
  return [...checksums.digests.keys()].flatMap((name) => {
    const [, os, arch] = name.startsWith(prefix)
      ? (/^([a-z0-9]+)_([a-z0-9]+)\.zip$/.exec(name.slice(prefix.length)) ?? [])
      : [];
    return os && arch ? [new Platform(os, arch)] : [];
  });
}
