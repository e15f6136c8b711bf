import type { MirroredAddress } from '../address/mirrored-address.ts';
import type { ModuleAddress } from '../address/module.ts';
import { ModulePattern } from '../address/module-pattern.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { ProviderPattern } from '../address/provider-pattern.ts';
import { Version } from '../address/version.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import type { ModuleStore, StoredPackage } from '../store/module-store.ts';
import {
  type ArchiveDrift,
  type Drift,
  type DriftReports,
  isOfArchive,
  isOfModule,
  type ModuleDrift,
} from './drift.ts';
import type { IsPinned, Pins } from './pins.ts';

/** What is meant; everything, where nothing is said. */
export interface Selection {
  /** Three parts mean providers, four mean modules. */
  readonly address?: ProviderPattern | ModulePattern | undefined;
  readonly version?: Version | undefined;
  /** Archives and packages that were not used since. */
  readonly unusedSince?: Date | undefined;
  /** Whoever asks may be let see a part only. */
  readonly mayHave?: ((address: MirroredAddress) => boolean) | undefined;
}

interface Kept {
  readonly lastUse: Date;
  /** It is not evicted. */
  readonly isPinned: boolean;
}

export interface InventoryEntry extends Kept {
  readonly stored: StoredArchive;
  /** Set when upstream was seen to publish other bytes under this name. */
  readonly drift: ArchiveDrift | undefined;
}

export interface ModuleInventoryEntry extends Kept {
  readonly stored: StoredPackage;
  /** Set when upstream was seen to have moved this version. */
  readonly drift: ModuleDrift | undefined;
}

interface InventoryDeps {
  readonly store: Pick<ArchiveStore, 'list' | 'providers' | 'lastUse'>;
  readonly modules: Pick<ModuleStore, 'list' | 'modules' | 'lastUse'>;
  /** Without, nothing is pinned. */
  readonly pins?: Pick<Pins, 'look'> | undefined;
  readonly drift: Pick<DriftReports, 'all'>;
}

/** What is stored. */
export class Inventory {
  readonly #store: InventoryDeps['store'];
  readonly #modules: InventoryDeps['modules'];
  readonly #pins: InventoryDeps['pins'];
  readonly #drift: InventoryDeps['drift'];

  constructor(deps: InventoryDeps) {
    this.#store = deps.store;
    this.#modules = deps.modules;
    this.#pins = deps.pins;
    this.#drift = deps.drift;
  }

  /** Archives, newest versions first within each provider; no more than one provider's at a time is held. @throws StorageFailed */
  async *archives(selection: Selection = {}): AsyncGenerator<InventoryEntry> {
    const isPinned = (await this.#pins?.look()) ?? NOT_PINNED;
    for await (const provider of selectedProviders(this.#store, selection)) {
      const ofProvider = this.#drift.all.filter(isOfArchive).map((entry) => [entry.archive.toString(), entry] as const);
      const drift = new Map(ofProvider);
      const list = (await this.#store.list(provider)).filter(({ archive }) => isVersion(selection, archive.version));
      for (const stored of list.sort(newestFirst)) {
        const lastUse = await this.#store.lastUse(stored);
        if (!isUnused(selection, lastUse)) continue;
        const { archive } = stored;
        yield {
          stored,
          lastUse,
          isPinned: isPinned(archive.provider, archive.version),
          drift: drift.get(archive.toString()),
        };
      }
    }
  }

  /** Module packages, in the same way. @throws StorageFailed */
  async *packages(selection: Selection = {}): AsyncGenerator<ModuleInventoryEntry> {
    const isPinned = (await this.#pins?.look()) ?? NOT_PINNED;
    for await (const module of selectedModules(this.#modules, selection)) {
      const ofModule = this.#drift.all.filter(isOfModule).map((entry) => [entry.release.toString(), entry] as const);
      const drift = new Map(ofModule);
      const list = (await this.#modules.list(module)).filter(({ release }) => isVersion(selection, release.version));
      for (const stored of list.sort((a, b) => Version.compare(b.release.version, a.release.version))) {
        const lastUse = await this.#modules.lastUse(stored);
        if (!isUnused(selection, lastUse)) continue;
        const { release } = stored;
        yield {
          stored,
          lastUse,
          isPinned: isPinned(release.module, release.version),
          drift: drift.get(release.toString()),
        };
      }
    }
  }

  /** Every drift that was noticed, also of what is not stored. */
  drift(selection: Selection = {}): readonly Drift[] {
    return this.#drift.all.filter((entry) => {
      const { version } = isOfArchive(entry) ? entry.archive : entry.release;
      const address = isOfArchive(entry) ? entry.archive.provider : entry.release.module;
      return isMeant(selection, address) && isVersion(selection, version);
    });
  }
}

/** The providers that are meant and of which anything is stored. @throws StorageFailed */
export async function* selectedProviders(
  store: Pick<ArchiveStore, 'providers'>,
  selection: Selection,
): AsyncGenerator<ProviderAddress> {
  const { address } = selection;
  if (address instanceof ModulePattern) return;
  const exact = address?.exact;
  // Whatever is stored of it: walking past all others would only take time.
  if (exact) {
    if (isMeant(selection, exact)) yield exact;
    return;
  }
  for await (const provider of store.providers()) if (isMeant(selection, provider)) yield provider;
}

/** The modules that are meant and of which anything is stored. @throws StorageFailed */
export async function* selectedModules(
  store: Pick<ModuleStore, 'modules'>,
  selection: Selection,
): AsyncGenerator<ModuleAddress> {
  const { address } = selection;
  if (address instanceof ProviderPattern) return;
  const exact = address?.exact;
  if (exact) {
    if (isMeant(selection, exact)) yield exact;
    return;
  }
  for await (const module of store.modules()) if (isMeant(selection, module)) yield module;
}

const NOT_PINNED: IsPinned = () => false;

/** Whether what was last used then is meant. */
export function isUnused({ unusedSince }: Pick<Selection, 'unusedSince'>, lastUse: Date): boolean {
  return unusedSince === undefined || lastUse < unusedSince;
}

/** Whether this version is meant. */
export function isVersion(selection: Pick<Selection, 'version'>, version: Version): boolean {
  return selection.version === undefined || selection.version.toString() === version.toString();
}

function isMeant({ address: pattern, mayHave = () => true }: Selection, address: MirroredAddress): boolean {
  return mayHave(address) && (pattern === undefined || matches(pattern, address));
}

/** A pattern of three parts fits modules, too; here it is the way to mean providers only. */
export function matches(pattern: ProviderPattern | ModulePattern, address: MirroredAddress): boolean {
  const isModule = 'system' in address;
  if (pattern instanceof ModulePattern) return isModule && pattern.matches(address);
  return !isModule && pattern.matches(address);
}

function newestFirst(a: StoredArchive, b: StoredArchive): number {
  return (
    Version.compare(b.archive.version, a.archive.version) ||
    (a.archive.platform.toString() < b.archive.platform.toString() ? -1 : 1)
  );
}
