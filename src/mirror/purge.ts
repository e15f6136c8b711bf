import { ProviderArchive } from '../address/archive.ts';
import type { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { ProviderPattern } from '../address/provider-pattern.ts';
import type { Version } from '../address/version.ts';
import type { ArchiveCache } from '../cache/archive-cache.ts';
import { hasCode } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import { parseShasums } from '../upstream/shasums.ts';
import { type ArchiveDrift, type DriftReports, isOfArchive } from './drift.ts';
import { isVersion, type Selection, selectedProviders } from './inventory.ts';
import type { Pins } from './pins.ts';
import type { ProviderMetadata } from './provider-metadata.ts';
import { newestFirst, type Planned, type Purged, removeAndForget, unusedOf, VersionPurge } from './version-purge.ts';

/** For what has reached its readers to be stored, in milliseconds: whoever saw a download end means that archive, too. */
const PUT_AWAY_MS = 2_000;

/** What is to be removed. */
export interface PurgeSelection extends Selection {
  /** Without it, and without `unusedSince`, whole versions: with their checksums, and with that upstream was ever seen to say otherwise. */
  readonly platform?: Platform | undefined;
  /** Also what is pinned. */
  readonly pinned?: boolean | undefined;
}

/** What was removed of one version, or would be. */
export interface PurgedVersion extends Purged {
  readonly provider: ProviderAddress;
  readonly version: Version;
  readonly archives: readonly StoredArchive[];
  /** SHA256SUMS and signature, too. */
  readonly checksums: boolean;
  /** What upstream publishes now is accepted, whatever it was before. */
  readonly settled: readonly ArchiveDrift[];
  /** Stays as it is: the checksums that were seen first are those of the whole version. */
  readonly unsettled: readonly ArchiveDrift[];
}

/**
 * Removes what is stored, and forgets what it was compared with: upstream's present bytes then are the first ones seen.
 *
 * A download that is under way is not stopped; what it brings is stored. One of which all bytes have come is waited for, and
 * removed. Other servers on the same data forget it within
 * seconds where they share a Redis, and go on with what they remember until that is no longer fresh where they do not.
 */
export class Purge {
  readonly #store: ArchiveStore;
  readonly #metadata: Pick<ProviderMetadata, 'forget'>;
  readonly #drift: Pick<DriftReports, 'all' | 'settle'>;
  readonly #arrivals: Pick<ArchiveCache, 'putAway' | 'forgetMismatches'> | undefined;
  readonly #purge: VersionPurge<ProviderAddress, PurgedVersion, PurgeSelection>;
  readonly #logger: Logger;

  constructor(deps: {
    store: ArchiveStore;
    metadata: Pick<ProviderMetadata, 'forget'>;
    drift: Pick<DriftReports, 'all' | 'settle'>;
    /** Without, nothing is pinned. */
    pins?: Pick<Pins, 'look'> | undefined;
    /** Without, nothing is arriving. */
    arrivals?: Pick<ArchiveCache, 'putAway' | 'forgetMismatches'> | undefined;
    logger: Logger;
  }) {
    this.#store = deps.store;
    this.#arrivals = deps.arrivals;
    this.#metadata = deps.metadata;
    this.#drift = deps.drift;
    this.#logger = deps.logger;
    this.#purge = new VersionPurge({
      steps: {
        addresses: (selection) => selectedProviders(this.#store, selection),
        planOf: (provider, selection) => this.#planOf(provider, selection),
        versionOf: ({ version }) => version,
        remove: (planned) => this.#remove(planned),
      },
      pins: deps.pins,
    });
  }

  /** What `run` would remove, version by version. Changes nothing. @throws StorageFailed */
  async *plan(selection: PurgeSelection): AsyncGenerator<PurgedVersion> {
    await this.#arrivals?.putAway(isMeantBy(selection), PUT_AWAY_MS);
    yield* this.#purge.plan(selection);
  }

  /** Each version that comes is gone, unless it is pinned; what has not come yet is as it was. @throws StorageFailed */
  async *run(selection: PurgeSelection): AsyncGenerator<PurgedVersion> {
    const isMeant = isMeantBy(selection);
    await this.#arrivals?.putAway(isMeant, PUT_AWAY_MS);
    this.#arrivals?.forgetMismatches(isMeant);
    yield* this.#purge.run(selection);
  }

  async *#planOf(provider: ProviderAddress, selection: PurgeSelection): AsyncGenerator<Planned<PurgedVersion>> {
    const { platform, unusedSince } = selection;
    const isWhole = platform === undefined && unusedSince === undefined;
    const isMeant = ({ archive }: { archive: ProviderArchive }) =>
      isVersion(selection, archive.version) &&
      (platform === undefined || platform.toString() === archive.platform.toString());
    const stored = await unusedOf((await this.#store.list(provider)).filter(isMeant), selection, (one) =>
      this.#store.lastUse(one),
    );
    const drift = (unusedSince ? [] : this.#drift.all)
      .filter(isOfArchive)
      .filter((entry) => String(entry.archive.provider) === String(provider));
    const kept = (await this.#store.releases(provider)).filter((version) => isVersion(selection, version));
    const keptNames = new Set(kept.map(String));

    const versions = newestFirst([
      ...stored.map(({ archive }) => archive.version),
      ...drift.filter(isMeant).map(({ archive }) => archive.version),
      ...(isWhole ? kept : []),
    ]);
    for (const version of versions) {
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

  async #remove({ provider, version, archives, checksums, settled }: Planned<PurgedVersion>): Promise<void> {
    const concerned = [
      ...archives.map(({ archive }) => archive),
      ...settled.map(({ archive }) => archive),
      ...(checksums ? await this.#namedInChecksums(provider, version) : []),
    ];
    await removeAndForget({
      forget: () => this.#metadata.forget(provider, version, concerned),
      remove: async () => {
        for (const { archive } of archives) await this.#store.discard(archive);
        if (checksums) await this.#store.discardRelease(provider, version);
      },
    });
    // Of a whole version also what others noticed.
    for (const archive of checksums ? concerned : settled.map((entry) => entry.archive)) this.#drift.settle(archive);
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

function isMeantBy(selection: PurgeSelection): (archive: ProviderArchive) => boolean {
  const { address, platform, mayHave } = selection;
  return (archive) =>
    (address === undefined || (address instanceof ProviderPattern && address.matches(archive.provider))) &&
    isVersion(selection, archive.version) &&
    (platform === undefined || platform.toString() === archive.platform.toString()) &&
    (mayHave?.(archive.provider) ?? true);
}

function archivesNamed(provider: ProviderAddress, name: string): ProviderArchive[] {
  try {
    return [ProviderArchive.parseFilename(provider, name)];
  } catch (error) {
    if (hasCode(error, 'INVALID_ADDRESS')) return [];
    throw error;
  }
}
