import type { ProviderAddress } from '../address/provider.ts';
import type { ProviderPattern } from '../address/provider-pattern.ts';
import { Version } from '../address/version.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import type { Drift, DriftReports } from './drift.ts';

/** What is meant; everything, where nothing is said. */
export interface Selection {
  readonly address?: ProviderPattern | undefined;
  readonly version?: Version | undefined;
  /** Whoever asks may be let see a part only. */
  readonly mayHave?: ((provider: ProviderAddress) => boolean) | undefined;
}

export interface InventoryEntry {
  readonly stored: StoredArchive;
  /** Set when upstream was seen to publish other bytes under this name. */
  readonly drift: Drift | undefined;
}

/** What is stored. */
export class Inventory {
  readonly #store: Pick<ArchiveStore, 'list' | 'providers'>;
  readonly #drift: Pick<DriftReports, 'all'>;

  constructor(deps: { store: Pick<ArchiveStore, 'list' | 'providers'>; drift: Pick<DriftReports, 'all'> }) {
    this.#store = deps.store;
    this.#drift = deps.drift;
  }

  /** Archives, newest versions first within each provider; no more than one provider's at a time is held. @throws StorageFailed */
  async *archives(selection: Selection = {}): AsyncGenerator<InventoryEntry> {
    for await (const provider of selectedProviders(this.#store, selection)) {
      const drift = new Map(
        this.drift({ ...selection, mayHave: (other) => String(other) === String(provider) }).map((entry) => [
          entry.archive.toString(),
          entry,
        ]),
      );
      const list = (await this.#store.list(provider)).filter(({ archive }) => isVersion(selection, archive.version));
      for (const stored of list.sort(newestFirst)) yield { stored, drift: drift.get(stored.archive.toString()) };
    }
  }

  /** Every drift that was noticed, also of archives that are not stored. */
  drift({ address, version, mayHave }: Selection = {}): readonly Drift[] {
    return this.#drift.all.filter(
      ({ archive }) =>
        (address?.matches(archive.provider) ?? true) &&
        (mayHave?.(archive.provider) ?? true) &&
        isVersion({ version }, archive.version),
    );
  }
}

/** The providers that are meant and of which anything is stored. @throws StorageFailed */
export async function* selectedProviders(
  store: Pick<ArchiveStore, 'providers'>,
  { address, mayHave = () => true }: Selection,
): AsyncGenerator<ProviderAddress> {
  const exact = address?.exact;
  // Whatever is stored of it: walking past all others would only take time.
  if (exact) {
    if (mayHave(exact)) yield exact;
    return;
  }
  for await (const provider of store.providers()) {
    if ((address?.matches(provider) ?? true) && mayHave(provider)) yield provider;
  }
}

/** Whether this version is meant. */
export function isVersion(selection: Pick<Selection, 'version'>, version: Version): boolean {
  return selection.version === undefined || selection.version.toString() === version.toString();
}

function newestFirst(a: StoredArchive, b: StoredArchive): number {
  return (
    Version.compare(b.archive.version, a.archive.version) ||
    (a.archive.platform.toString() < b.archive.platform.toString() ? -1 : 1)
  );
}
