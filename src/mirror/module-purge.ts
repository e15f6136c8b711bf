import { ModuleAddress, ModuleRelease } from '../address/module.ts';
import type { MetadataCache } from '../cache/metadata-cache.ts';
import type { Logger } from '../logger.ts';
import { metadataKeys } from '../store/keys.ts';
import type { ModuleStore, StoredPackage } from '../store/module-store.ts';
import { type DriftReports, isOfModule, type ModuleDrift } from './drift.ts';
import { isVersion, selectedModules } from './inventory.ts';
import type { Pins } from './pins.ts';
import type { PurgeSelection } from './purge.ts';
import { newestFirst, type Planned, type Purged, removeAndForget, unusedOf, VersionPurge } from './version-purge.ts';

/** What was removed of one version of a module, or would be. */
export interface PurgedModule extends Purged {
  readonly release: ModuleRelease;
  readonly package: StoredPackage | undefined;
  /** What was remembered of the package as it was first made, be the package here or not. */
  readonly record: boolean;
  /** What upstream has now is accepted, whatever it was before. */
  readonly settled: readonly ModuleDrift[];
}

/**
 * Removes module packages, and forgets what they were compared with: what upstream has at present is then the first that
 * is seen. A package that is being made is not stopped; it is stored.
 */
export class ModulePurge {
  readonly #store: ModuleStore;
  readonly #metadata: { forget(release: ModuleRelease): Promise<void> };
  readonly #drift: Pick<DriftReports, 'all' | 'settle'>;
  readonly #purge: VersionPurge<ModuleAddress, PurgedModule, PurgeSelection>;
  readonly #logger: Logger;

  constructor(deps: {
    store: ModuleStore;
    metadata: { forget(release: ModuleRelease): Promise<void> };
    drift: Pick<DriftReports, 'all' | 'settle'>;
    /** Without, nothing is pinned. */
    pins?: Pick<Pins, 'look'> | undefined;
    logger: Logger;
  }) {
    this.#store = deps.store;
    this.#metadata = deps.metadata;
    this.#drift = deps.drift;
    this.#logger = deps.logger;
    this.#purge = new VersionPurge({
      steps: {
        addresses: (selection) => selectedModules(this.#store, selection),
        planOf: (module, selection) => this.#planOf(module, selection),
        versionOf: ({ release }) => release.version,
        remove: (planned) => this.#remove(planned),
      },
      pins: deps.pins,
    });
  }

  /** What `run` would remove, version by version, newest first. Changes nothing. @throws StorageFailed */
  plan(selection: PurgeSelection): AsyncGenerator<PurgedModule> {
    return this.#purge.plan(selection);
  }

  /** Each version that comes is gone, unless it is pinned; what has not come yet is as it was. @throws StorageFailed */
  run(selection: PurgeSelection): AsyncGenerator<PurgedModule> {
    return this.#purge.run(selection);
  }

  async *#planOf(module: ModuleAddress, selection: PurgeSelection): AsyncGenerator<Planned<PurgedModule>> {
    // Of those that nobody uses the packages alone go: what is remembered of them stays.
    const isWhole = selection.unusedSince === undefined;
    const [all, recorded] = await Promise.all([
      this.#store.list(module),
      isWhole ? this.#store.recorded(module) : ([] as const),
    ]);
    const meant = all.filter(({ release }) => isVersion(selection, release.version));
    const stored = await unusedOf(meant, selection, (one) => this.#store.lastUse(one));
    const drift = (isWhole ? this.#drift.all : [])
      .filter(isOfModule)
      .filter(({ release }) => String(release.module) === String(module));
    const packages = new Map(stored.map((one) => [one.release.version.toString(), one]));
    const records = new Set(recorded.map(String));
    const versions = newestFirst([
      ...stored.map(({ release }) => release.version),
      ...recorded,
      ...drift.map(({ release }) => release.version),
    ]);
    for (const version of versions.filter((one) => isVersion(selection, one))) {
      const text = version.toString();
      yield {
        release: new ModuleRelease(module, version),
        package: packages.get(text),
        record: records.has(text),
        settled: drift.filter(({ release }) => release.version.toString() === text),
      };
    }
  }

  async #remove({ release, package: stored, record, settled }: Planned<PurgedModule>): Promise<void> {
    await removeAndForget({
      forget: () => this.#metadata.forget(release),
      remove: async () => {
        // What cannot be read as a record may be in the place of one.
        if (record || !stored) await this.#store.forget(release);
        else await this.#store.discard(release);
      },
    });
    // Of what is not remembered any more also what others noticed.
    if (record) this.#drift.settle(release);
    for (const drift of settled) this.#drift.settle(drift.release);
    this.#logger.info('purged', {
      module: release.module.toString(),
      version: release.version.toString(),
      package: stored !== undefined,
      settled: settled.length,
    });
  }
}

/**
 * Makes the next request ask upstream again. Upstream was asked in whatever case the clients wrote: of these, the one given
 * and lower case are forgotten; others go on until they are no longer fresh.
 */
export async function forgetModuleRelease(
  cache: Pick<MetadataCache, 'forget'>,
  { module, version }: ModuleRelease,
): Promise<void> {
  const lowerCase = ModuleAddress.parse(module.toString());
  const keys = [module, lowerCase].flatMap((spelling) => [
    metadataKeys.moduleVersions(spelling),
    metadataKeys.moduleLocation(spelling, version),
  ]);
  for (const key of new Set(keys)) await cache.forget(key);
}
