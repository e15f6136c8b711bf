import type { MetadataCache } from './cache/metadata-cache.ts';
import { assembleCarrying } from './carrying.ts';
import type { Closers } from './closers.ts';
import type { Config } from './config.ts';
import type { HouseKeeping } from './house-keeping.ts';
import type { AdminDeps } from './http/admin.ts';
import type { OtherWorkers } from './http/admin-verify.ts';
import type { Logger } from './logger.ts';
import type { DriftReports } from './mirror/drift.ts';
import { Gaps } from './mirror/gaps.ts';
import { healerThrough } from './mirror/healer.ts';
import { Inventory } from './mirror/inventory.ts';
import { LockCompletion } from './mirror/lock-completion.ts';
import { forgetModuleRelease, ModulePurge } from './mirror/module-purge.ts';
import type { Policy } from './mirror/policy.ts';
import { Purge } from './mirror/purge.ts';
import { Scrub } from './mirror/scrub.ts';
import type { Seal } from './mirror/seal.ts';
import type { TooNewVersions } from './mirror/too-new.ts';
import { clientOf, type WishReader } from './mirror/wish-reader.ts';
import type { Modules } from './modules.ts';
import type { Providers } from './providers.ts';
import type { Warming } from './warming.ts';

/** Puts together what operators work with. */
export function assembleOperators(
  config: Config,
  deps: {
    providers: Providers;
    modules: Modules;
    keptHouse: HouseKeeping;
    cache: MetadataCache;
    policy: Policy;
    drift: DriftReports;
    seal: Seal;
    warming: Warming;
    reader: WishReader;
    tooNew: TooNewVersions;
    otherWorkers: OtherWorkers | undefined;
    opened: Closers;
    logger: Logger;
  },
): AdminDeps {
  const { providers, modules, keptHouse, cache, policy, drift, seal, warming, reader, tooNew, opened, logger } = deps;
  const { store, hashes, mirror, releases, metadata } = providers;
  const { keeping, quota, pins, quarantine } = keptHouse;
  const scrub = new Scrub({
    archives: store,
    packages: modules.store,
    quarantine,
    healer: healerThrough(mirror, modules.mirror),
    holds: keeping.holds,
    totalBytes: () => quota.used,
    logger,
  });
  opened.add('scan', () => scrub.close());
  const carrying = assembleCarrying(config, {
    store,
    modules: modules.store,
    drift,
    logger,
    onStored: (stored) => hashes.request(stored),
  });
  return {
    carrying: { ...carrying, policy, store, modules: modules.store },
    defaultClient: clientOf(config.upstreams.default),
    gaps: new Gaps({ reader, policy, archives: store, modules: modules.store, tooNew }),
    inventory: new Inventory({ store, modules: modules.store, pins, drift }),
    jobs: warming.jobs,
    purge: new Purge({ store, metadata, drift, pins, arrivals: providers.archives, logger }),
    modulePurge: new ModulePurge({
      store: modules.store,
      metadata: { forget: (release) => forgetModuleRelease(cache, release) },
      drift,
      pins,
      logger,
    }),
    pins,
    verify: { scrub, quarantine, otherWorkers: deps.otherWorkers },
    seal,
    lock: {
      completion: new LockCompletion({
        releases,
        store,
        hashes,
        openArchive: (archive) => mirror.openArchive(archive),
        defaultHostname: config.upstreams.default,
      }),
      platforms: config.warm.platforms,
    },
  };
}
