import type { Config } from './config.ts';
import type { Logger } from './logger.ts';
import { ArchiveIntake } from './mirror/archive-intake.ts';
import type { DriftReports } from './mirror/drift.ts';
import { PackageIntake } from './mirror/package-intake.ts';
import { ReleaseIntake } from './mirror/release-intake.ts';
import type { ArchiveStore, StoredArchive } from './store/archive-store.ts';
import type { ModuleStore } from './store/module-store.ts';

/** What takes in things that are brought. */
export interface Carrying {
  readonly archives: ArchiveIntake;
  readonly releases: ReleaseIntake;
  readonly packages: PackageIntake;
}

/** Puts together what takes in things that are brought: to a running server, or to a data directory beside one. */
export function assembleCarrying(
  config: Pick<Config, 'upstreams' | 'modules'>,
  deps: {
    store: ArchiveStore;
    modules: ModuleStore;
    drift: DriftReports;
    logger: Logger;
    onStored?: (stored: StoredArchive) => void;
  },
): Carrying {
  const { store, modules, drift, logger, onStored } = deps;
  const signatures = new Map(
    config.upstreams.hosts.map((host) => [host.hostname.toString(), host.signatures] as const),
  );
  return {
    archives: new ArchiveIntake({ store, drift, logger, ...(onStored && { onStored }) }),
    releases: new ReleaseIntake({ store, signatures: (hostname) => signatures.get(hostname.toString()) ?? 'verify' }),
    packages: new PackageIntake({ store: modules, drift, limits: config.modules.limits, logger }),
  };
}
