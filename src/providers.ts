import type { ProviderAddress } from './address/provider.ts';
import { ArchiveCache } from './cache/archive-cache.ts';
import type { MetadataCache } from './cache/metadata-cache.ts';
import type { Closers } from './closers.ts';
import type { Config } from './config.ts';
import type { Logger } from './logger.ts';
import { ArchiveSources } from './mirror/archive-sources.ts';
import { Cooldown } from './mirror/cooldown.ts';
import type { DriftReports } from './mirror/drift.ts';
import type { FirstSeen } from './mirror/first-seen.ts';
import { PackageHashes } from './mirror/package-hashes.ts';
import type { Policy } from './mirror/policy.ts';
import { ProviderMetadata } from './mirror/provider-metadata.ts';
import { ProviderMirror } from './mirror/provider-mirror.ts';
import { ProviderReleases } from './mirror/provider-releases.ts';
import { SeasonedProviders } from './mirror/seasoned-metadata.ts';
import type { UpstreamMetadata } from './mirror/upstream-metadata.ts';
import type { Storage } from './storage.ts';
import type { ArchiveStore } from './store/archive-store.ts';
import type { Keeping } from './store/keeping.ts';
import type { Leases } from './store/leases.ts';
import { PackageHasher } from './store/package-hash.ts';
import type { Tracer } from './tracer.ts';
import type { HttpClient } from './upstream/http-client.ts';
import { ProviderRegistry } from './upstream/provider-registry.ts';

/** Everything that has to do with providers alone. */
export interface Providers {
  readonly mirror: ProviderMirror;
  readonly releases: ProviderReleases;
  /** As upstream tells it, whatever its age. */
  readonly metadata: ProviderMetadata;
  readonly store: ArchiveStore;
  readonly archives: ArchiveCache;
  readonly hashes: PackageHashes;
  readonly hasher: PackageHasher;
}

/** Puts the parts together that providers need besides those that modules have, too. @throws StorageFailed */
export async function assembleProviders(
  config: Config,
  deps: {
    http: HttpClient;
    cache: MetadataCache;
    upstreams: UpstreamMetadata;
    policy: Policy;
    firstSeen: FirstSeen;
    drift: DriftReports;
    storage: Storage;
    keeping: Keeping;
    leases: Leases;
    tracer: Tracer | undefined;
    isSealed: () => boolean;
    opened: Closers;
    logger: Logger;
  },
): Promise<Providers> {
  const {
    http,
    cache,
    upstreams,
    policy,
    firstSeen,
    drift,
    storage,
    keeping,
    leases,
    tracer,
    isSealed,
    opened,
    logger,
  } = deps;
  const hasher = new PackageHasher();
  opened.add('hasher', () => hasher.close());
  const store = await storage.openArchives({ hasher, keeping });
  opened.add('archives', () => store.close());
  const hashes = new PackageHashes({ store, cache, logger });
  opened.add('hashes', async () => {
    await hasher.close();
    // Those that came in just now are still being written down.
    await hashes.settled();
  });
  const archives = new ArchiveCache({
    store,
    leases,
    logger,
    tracer,
    concurrentDownloads: config.limits.downloads,
    onStored: (stored) => hashes.request(stored),
    onDrift: (...of) => drift.report(...of),
  });
  opened.add('downloads', () => archives.close());

  const registry = new ProviderRegistry({ http, logger });
  const metadata = new ProviderMetadata({
    upstreams,
    store,
    drift,
    registry,
    knownPackageHash: (sha256) => hashes.known(sha256),
    logger,
  });
  const cooldown = new Cooldown<ProviderAddress>({
    rules: config.cooldown,
    firstSeen,
    publishedAt: (...of) => metadata.publishedAt(...of),
    isSealed,
    logger,
  });
  const seasoned = new SeasonedProviders({ metadata, cooldown });
  const sources = new ArchiveSources({ metadata: seasoned, registry });
  const mirror = new ProviderMirror({
    policy,
    metadata: seasoned,
    sources,
    archives,
    store,
    hashes,
    drift,
    isSealed,
    logger,
  });
  const releases = new ProviderReleases({ policy, metadata: seasoned, store, isSealed, logger });
  return { mirror, releases, metadata, store, archives, hashes, hasher };
}
