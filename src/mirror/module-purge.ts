import { ModuleAddress, ModuleRelease } from '../address/module.ts';
import { Version } from '../address/version.ts';
import type { MetadataCache } from '../cache/metadata-cache.ts';
import type { Logger } from '../logger.ts';
import { metadataKeys } from '../store/keys.ts';
import type { ModuleStore, StoredPackage } from '../store/module-store.ts';
import { type DriftReports, isOfModule, type ModuleDrift } from './drift.ts';
import { isUnused, isVersion, selectedModules } from './inventory.ts';
import type { Pins } from './pins.ts';
import type { PurgeSelection } from './purge.ts';

/** What was removed of one version of a module, or would be. */
export interface PurgedModule {
  readonly release: ModuleRelease;
  readonly package: StoredPackage | undefined;
  /** What was remembered of the package as it was first made, be the package here or not. */
  readonly record: boolean;
  /** What upstream has now is accepted, whatever it was before. */
  readonly settled: readonly ModuleDrift[];
  /** Nothing of this is removed, because it is pinned. */
  readonly isPinned: boolean;
}

/**
 * Removes module packages, and forgets what they were compared with: what upstream has at present is then the first that
 * is seen. A package that is being made is not stopped; it is stored.
 */
export class ModulePurge {
  readonly #store: ModuleStore;
  readonly #metadata: { forget(release: ModuleRelease): Promise<void> };
  readonly #drift: Pick<DriftReports, 'all' | 'settle'>;
  readonly #pins: Pick<Pins, 'look'> | undefined;
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
    this.#pins = deps.pins;
    this.#logger = deps.logger;
  }

  /** What `run` would remove, version by version, newest first. Changes nothing. @throws StorageFailed */
  async *plan(selection: PurgeSelection): AsyncGenerator<PurgedModule> {
    const isPinned = (await this.#pins?.look()) ?? (() => false);
    for await (const module of selectedModules(this.#store, selection)) {
      for await (const planned of this.#planOf(module, selection)) {
        yield { ...planned, isPinned: !selection.pinned && isPinned(module, planned.release.version) };
      }
    }
  }

  /** Each version that comes is gone, unless it is pinned; what has not come yet is as it was. @throws StorageFailed */
  async *run(selection: PurgeSelection): AsyncGenerator<PurgedModule> {
    for await (const planned of this.plan(selection)) {
      if (!planned.isPinned) await this.#remove(planned);
      yield planned;
    }
  }

  async *#planOf(module: ModuleAddress, selection: PurgeSelection): AsyncGenerator<Omit<PurgedModule, 'isPinned'>> {
    if (selection.unusedSince) {
      yield* this.#unusedOf(module, selection);
      return;
    }
    const [stored, recorded] = await Promise.all([this.#store.list(module), this.#store.recorded(module)]);
    const drift = this.#drift.all.filter(isOfModule).filter(({ release }) => String(release.module) === String(module));
    const packages = new Map(stored.map((one) => [one.release.version.toString(), one]));
    const records = new Set(recorded.map(String));
    const all = [
      ...stored.map(({ release }) => release.version),
      ...recorded,
      ...drift.map((one) => one.release.version),
    ];
    const versions = new Map(
      all.filter((version) => isVersion(selection, version)).map((version) => [version.toString(), version]),
    );
    for (const [text, version] of [...versions].sort(([, a], [, b]) => Version.compare(b, a))) {
      yield {
        release: new ModuleRelease(module, version),
        package: packages.get(text),
        record: records.has(text),
        settled: drift.filter(({ release }) => release.version.toString() === text),
      };
    }
  }

  /** The packages alone: what is remembered of them stays. */
  async *#unusedOf(module: ModuleAddress, selection: PurgeSelection): AsyncGenerator<Omit<PurgedModule, 'isPinned'>> {
    for (const stored of await this.#store.list(module)) {
      const { release } = stored;
      if (!isVersion(selection, release.version) || !isUnused(selection, await this.#store.lastUse(stored))) continue;
      yield { release, package: stored, record: false, settled: [] };
    }
  }

  async #remove({ release, package: stored, record, settled }: PurgedModule): Promise<void> {
    // Before, so that nobody makes anew what is remembered of it; afterwards for who asked in between.
    await this.#metadata.forget(release);
    // What cannot be read as a record may be in the place of one.
    if (record || !stored) await this.#store.forget(release);
    else await this.#store.discard(release);
    await this.#metadata.forget(release);
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
