import { ProviderArchive } from '../address/archive.ts';
import type { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import { hasCode } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import { parseShasums } from '../upstream/shasums.ts';
import { type ArchiveDrift, type DriftReports, isOfArchive } from './drift.ts';
import { isUnused, isVersion, type Selection, selectedProviders } from './inventory.ts';
import type { Pins } from './pins.ts';
import type { ProviderMetadata } from './provider-metadata.ts';

/** What is to be removed. */
export interface PurgeSelection extends Selection {
  /** Without it, and without `unusedSince`, whole versions: with their checksums, and with that upstream was ever seen to say otherwise. */
  readonly platform?: Platform | undefined;
  /** Also what is pinned. */
  readonly pinned?: boolean | undefined;
}

/** What was removed of one version, or would be. */
export interface PurgedVersion {
  readonly provider: ProviderAddress;
  readonly version: Version;
  readonly archives: readonly StoredArchive[];
  /** SHA256SUMS and signature, too. */
  readonly checksums: boolean;
  /** What upstream publishes now is accepted, whatever it was before. */
  readonly settled: readonly ArchiveDrift[];
  /** Stays as it is: the checksums that were seen first are those of the whole version. */
  readonly unsettled: readonly ArchiveDrift[];
  /** Nothing of this is removed, because it is pinned. */
  readonly isPinned: boolean;
}

/**
 * Removes what is stored, and forgets what it was compared with: upstream's present bytes then are the first ones seen.
 *
 * A download that is under way is not stopped; what it brings is stored. Other servers on the same data go on with what
 * they remember until that is no longer fresh.
 */
export class Purge {
  readonly #store: ArchiveStore;
  readonly #metadata: Pick<ProviderMetadata, 'forget'>;
  readonly #drift: Pick<DriftReports, 'all' | 'settle'>;
  readonly #pins: Pick<Pins, 'look'> | undefined;
  readonly #logger: Logger;

  constructor(deps: {
    store: ArchiveStore;
    metadata: Pick<ProviderMetadata, 'forget'>;
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

  /** What `run` would remove, version by version. Changes nothing. @throws StorageFailed */
  async *plan(selection: PurgeSelection): AsyncGenerator<PurgedVersion> {
    const isPinned = (await this.#pins?.look()) ?? (() => false);
    for await (const provider of selectedProviders(this.#store, selection)) {
      for await (const planned of this.#planOf(provider, selection)) {
        yield { ...planned, isPinned: !selection.pinned && isPinned(provider, planned.version) };
      }
    }
  }

  /** Each version that comes is gone, unless it is pinned; what has not come yet is as it was. @throws StorageFailed */
  async *run(selection: PurgeSelection): AsyncGenerator<PurgedVersion> {
    for await (const planned of this.plan(selection)) {
      if (!planned.isPinned) await this.#remove(planned);
      yield planned;
    }
  }

  async *#planOf(
    provider: ProviderAddress,
    selection: PurgeSelection,
  ): AsyncGenerator<Omit<PurgedVersion, 'isPinned'>> {
    const { platform, unusedSince } = selection;
    const isWhole = platform === undefined && unusedSince === undefined;
    const isMeant = ({ archive }: { archive: ProviderArchive }) =>
      isVersion(selection, archive.version) &&
      (platform === undefined || platform.toString() === archive.platform.toString());
    const stored = await this.#unused((await this.#store.list(provider)).filter(isMeant), selection);
    const drift = (unusedSince ? [] : this.#drift.all)
      .filter(isOfArchive)
      .filter((entry) => String(entry.archive.provider) === String(provider));
    const kept = (await this.#store.releases(provider)).filter((version) => isVersion(selection, version));
    const keptNames = new Set(kept.map(String));

    const versions = new Map(
      [
        ...stored.map(({ archive }) => archive.version),
        ...drift.filter(isMeant).map(({ archive }) => archive.version),
        ...(isWhole ? kept : []),
      ].map((version) => [version.toString(), version]),
    );
    for (const version of [...versions.values()].sort((a, b) => Version.compare(b, a))) {
      const ofVersion = ({ archive }: { archive: ProviderArchive }) =>
        archive.version.toString() === version.toString();
      const checksums = keptNames.has(version.toString());
      // One platform's digest cannot be taken out of a signed list.
      const settles = isWhole || !checksums;
      const drifted = drift.filter((entry) => ofVersion(entry) && isMeant(entry));
      yield {
        provider,
        version,
        archives: stored
          .filter(ofVersion)
          .sort((a, b) => (a.archive.platform.toString() < b.archive.platform.toString() ? -1 : 1)),
        checksums: checksums && isWhole,
        settled: settles ? drifted : [],
        unsettled: settles ? [] : drifted,
      };
    }
  }

  async #unused(stored: readonly StoredArchive[], selection: PurgeSelection): Promise<readonly StoredArchive[]> {
    if (!selection.unusedSince) return stored;
    const uses = await Promise.all(stored.map((one) => this.#store.lastUse(one)));
    return stored.filter((_, index) => isUnused(selection, uses[index] as Date));
  }

  async #remove({ provider, version, archives, checksums, settled }: PurgedVersion): Promise<void> {
    const concerned = [
      ...archives.map(({ archive }) => archive),
      ...settled.map(({ archive }) => archive),
      ...(checksums ? await this.#namedInChecksums(provider, version) : []),
    ];
    // Before, so that nobody stores anew what is remembered of it; afterwards for who asked in between.
    await this.#metadata.forget(provider, version, concerned);
    for (const { archive } of archives) await this.#store.discard(archive);
    if (checksums) await this.#store.discardRelease(provider, version);
    await this.#metadata.forget(provider, version, concerned);
    for (const { archive } of settled) this.#drift.settle(archive);
    this.#logger.info('purged', {
      provider: provider.toString(),
      version: version.toString(),
      platforms: archives.map(({ archive }) => archive.platform.toString()),
      checksums,
      settled: settled.length,
    });
  }

  /** Archives whose package documents may be remembered. */
  async #namedInChecksums(provider: ProviderAddress, version: Version): Promise<ProviderArchive[]> {
    const files = await this.#store.getRelease(provider, version);
    try {
      return files ? [...parseShasums(files.shasums).keys()].flatMap((name) => archivesNamed(provider, name)) : [];
    } catch (error) {
      this.#logger.debug('the checksums to be purged are no list', { provider: provider.toString(), error });
      return [];
    }
  }
}

function archivesNamed(provider: ProviderAddress, name: string): ProviderArchive[] {
  try {
    return [ProviderArchive.parseFilename(provider, name)];
  } catch (error) {
    if (hasCode(error, 'INVALID_ADDRESS')) return [];
    throw error;
  }
}
