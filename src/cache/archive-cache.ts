import type { ProviderArchive } from '../address/archive.ts';
import { type LarderError, UpstreamUnreachable } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import type { Leases } from '../store/leases.ts';
import { announcing } from './announcing.ts';
import { ArchiveDownload } from './archive-download.ts';
import type { OnDrift } from './archive-fetch.ts';
import { DetachedRuns } from './detached-runs.ts';
import type { ArchiveSource, ReadableArchive } from './readable-archive.ts';
import { SingleFlight } from './single-flight.ts';
import { storedReadable } from './stored-readable.ts';
import { unlessGone } from './unless-gone.ts';

/** Archives never change: what is stored is served as it is, what is absent is fetched once for all who ask. */
export class ArchiveCache {
  readonly #store: ArchiveStore;
  readonly #leases: Leases | undefined;
  readonly #logger: Logger;
  readonly #announce: (stored: StoredArchive) => void;
  readonly #onDrift: OnDrift | undefined;
  readonly #lookUps = new SingleFlight<StoredArchive | undefined>();
  readonly #downloads: DetachedRuns<ArchiveDownload>;

  constructor(deps: {
    /** Stays open when the cache is closed. */
    store: ArchiveStore;
    /** Shared with the other replicas over that store, if there may be any. Stay open, too. */
    leases?: Leases | undefined;
    logger: Logger;
    /** Further ones wait for their turn. */
    concurrentDownloads: number;
    /** Told of each archive that has come into the store. */
    onStored?: (stored: StoredArchive) => void;
    /** Told when something else was stored while an archive was fetched. */
    onDrift?: OnDrift;
  }) {
    this.#store = deps.store;
    this.#leases = deps.leases;
    this.#logger = deps.logger;
    this.#onDrift = deps.onDrift;
    this.#announce = announcing({
      tell: deps.onStored,
      describe: ({ archive }) => ({ archive: archive.toString() }),
      logger: deps.logger,
    });
    this.#downloads = new DetachedRuns({
      concurrent: deps.concurrentDownloads,
      shuttingDown: ({ archive }) => shuttingDown(archive),
    });
  }

  /** Downloads that are under way or wait for their turn. */
  get downloads(): number {
    return this.#downloads.size;
  }

  /** Stored or arriving; starts nothing. @throws StorageFailed */
  async find(archive: ProviderArchive): Promise<ReadableArchive | undefined> {
    const arrival = this.#downloads.get(archive.toString())?.arrival;
    if (arrival) return arrival;
    const stored = await this.#store.find(archive);
    return stored && storedReadable(this.#store, stored);
  }

  /**
   * Arriving: joined. Stored: from the store. Absent: `load` says where it comes from, and it is readable as soon as
   * upstream begins to answer. Failures reach everybody who waits, and are not remembered.
   * @throws what `load` and the source throw; IntegrityMismatch, StorageFailed
   */
  async read(archive: ProviderArchive, load: () => Promise<ArchiveSource>): Promise<ReadableArchive> {
    const readable = await this.#read(archive, load);
    return unlessGone(readable, () => this.#read(archive, load));
  }

  /** Resolves when no download is running any more, or after `timeoutMs`. */
  drain(timeoutMs: number): Promise<void> {
    return this.#downloads.drain(timeoutMs);
  }

  /** Gives up what is running now, and what waits. Everybody who waits gets the reason. Resolves when nothing of it is left. */
  breakOff(reason: (archive: ProviderArchive) => LarderError): Promise<void> {
    return this.#downloads.breakOff(({ archive }) => reason(archive));
  }

  /** Gives up what is still running, and all that comes. Resolves when nothing of it is left. */
  close(): Promise<void> {
    return this.#downloads.close();
  }

  async #read(archive: ProviderArchive, load: () => Promise<ArchiveSource>): Promise<ReadableArchive> {
    const key = archive.toString();
    const arriving = this.#downloads.get(key);
    if (arriving) return arriving.readable;
    // Shared, so that readers who come together go on together: into one download, and into its failure.
    const stored = await this.#lookUps.run(key, () => this.#store.find(archive));
    if (stored) return storedReadable(this.#store, stored);
    return this.#download(archive, load).readable;
  }

  #download(archive: ProviderArchive, load: () => Promise<ArchiveSource>): ArchiveDownload {
    return this.#downloads.join(archive.toString(), (onEnd) => {
      return new ArchiveDownload({
        archive,
        store: this.#store,
        leases: this.#leases,
        logger: this.#logger,
        load,
        onDrift: this.#onDrift,
        onEnd: (stored) => {
          onEnd();
          if (stored) this.#announce(stored);
        },
      });
    });
  }
}

function shuttingDown(archive: ProviderArchive): UpstreamUnreachable {
  return new UpstreamUnreachable('Larder', 'busy', `is shutting down and does not fetch ${archive} any more`);
}
