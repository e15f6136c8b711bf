import type { ProviderArchive } from '../address/archive.ts';
import type { Hash, Sha256 } from '../address/hash.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { MetadataCache, MetadataRead, ReadOptions } from '../cache/metadata-cache.ts';
import { NotFound } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { loggerFor } from '../request-origin.ts';
import type { ArchiveStore } from '../store/archive-store.ts';
import { metadataKeys } from '../store/keys.ts';
import type { ProviderRegistry } from '../upstream/provider-registry.ts';
import type { PackageDocument, ProviderVersions, PublishedVersion } from '../upstream/registry-answers.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { DriftReports } from './drift.ts';
import type { Release } from './release.ts';
import { ReleaseReader } from './release-reader.ts';
import { accepted, type UpstreamMetadata } from './upstream-metadata.ts';

/** A version that the cached list does not name may just have been published: the list is asked for anew, but not more often than this. */
const UNLISTED_VERSION_RECHECK_MS = 10_000;

/**
 * What upstream registries say of providers, through the metadata cache.
 *
 * A whole cold release costs five requests: discovery, versions, one package document, SHA256SUMS and its signature.
 */
export class ProviderMetadata {
  readonly #upstreams: UpstreamMetadata;
  readonly #registry: ProviderRegistry;
  readonly #releases: ReleaseReader;
  readonly #logger: Logger;

  constructor(deps: {
    upstreams: UpstreamMetadata;
    registry: ProviderRegistry;
    /** For what was published first. */
    store: Pick<ArchiveStore, 'getRelease' | 'putRelease'>;
    drift: DriftReports;
    /** `h1:` computed here earlier, by the archive's digest. */
    knownPackageHash: (sha256: Sha256) => Promise<Hash | undefined>;
    logger: Logger;
  }) {
    this.#upstreams = deps.upstreams;
    this.#registry = deps.registry;
    this.#releases = new ReleaseReader({
      ...deps,
      document: (upstream, archive) => this.document(upstream, archive, true),
    });
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
        loggerFor(upstream.origin, this.#logger).warn('left out of the versions list: not versions', {
          provider: provider.toString(),
          entries: list.skipped.slice(0, 20),
        });
      }
      return list;
    };
    return this.#upstreams.read(
      upstream,
      metadataKeys.providerVersions(provider),
      (kinds) => kinds.versions,
      load,
      options,
    );
  }

  /** Every platform of one version, without any archive. @throws NotFound when there is no such version */
  release(
    upstream: Upstream,
    provider: ProviderAddress,
    version: Version,
    options: ReadOptions = {},
  ): Promise<MetadataRead<Release>> {
    const load = async (signal: AbortSignal) => {
      const { platforms } = await this.#published(upstream, provider, version);
      return this.#releases.read({ upstream, provider, version, platforms }, signal);
    };
    const key = metadataKeys.providerPackages(provider, version);
    return this.#upstreams.read(upstream, key, (kinds) => kinds.release, load, options);
  }

  /** When upstream says that it published a version, given as it spells it; `undefined` when it does not say. Not remembered. */
  async publishedAt(
    upstream: Upstream,
    provider: ProviderAddress,
    published: string,
    signal: AbortSignal,
  ): Promise<Date | undefined> {
    return this.#registry.publishedAt(upstream, await this.#base(upstream), provider, published, signal);
  }

  /** Forgets what everybody was told of a version and its archives. */
  forget(provider: ProviderAddress, version: Version, archives: readonly ProviderArchive[]): Promise<void> {
    return forgetRelease(this.#upstreams, provider, version, archives);
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
    return (await this.#upstreams.read(upstream, key, (kinds) => kinds.document, load, options)).value;
  }

  #base(upstream: Upstream): Promise<URL> {
    return this.#upstreams.service(upstream, 'providers.v1');
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
}

/** Forgets what everybody was told of a version and its archives. */
export async function forgetRelease(
  cache: Pick<MetadataCache, 'forget'>,
  provider: ProviderAddress,
  version: Version,
  archives: readonly ProviderArchive[],
): Promise<void> {
  await cache.forget(metadataKeys.providerPackages(provider, version));
  for (const archive of archives) await cache.forget(metadataKeys.packageDocument(archive));
}
