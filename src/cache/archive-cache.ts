import { setTimeout as delay } from 'node:timers/promises';
import pLimit from 'p-limit';
import type { ProviderArchive } from '../address/archive.ts';
import { type LarderError, UpstreamUnreachable } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import { ArchiveDownload } from './archive-download.ts';
import type { ArchiveSource, ReadableArchive } from './readable-archive.ts';
import { SingleFlight } from './single-flight.ts';
import { storedReadable } from './stored-readable.ts';
import { unlessGone } from './unless-gone.ts';

/** Archives never change: what is stored is served as it is, what is absent is fetched once for all who ask. */
export class ArchiveCache {
  readonly #store: ArchiveStore;
  readonly #logger: Logger;
  readonly #onStored: (stored: StoredArchive) => void;
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #lookUps = new SingleFlight<StoredArchive | undefined>();
  readonly #downloads = new Map<string, ArchiveDownload>();
  /** Ends of downloads, those that wait for their turn included. */
  readonly #running = new Set<Promise<void>>();
  #closed = false;

  constructor(deps: {
    /** Stays open when the cache is closed. */
    store: ArchiveStore;
    logger: Logger;
    /** Further ones wait for their turn. */
    concurrentDownloads: number;
    /** Told of each archive that has come into the store. */
    onStored?: (stored: StoredArchive) => void;
  }) {
    this.#store = deps.store;
    this.#logger = deps.logger;
    this.#onStored = deps.onStored ?? (() => {});
    this.#limit = pLimit(deps.concurrentDownloads);
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
  async drain(timeoutMs: number): Promise<void> {
    const timer = new AbortController();
    const timeout = delay(timeoutMs, 'timeout', { signal: timer.signal }).catch(() => 'timeout');
    while (this.#running.size > 0) {
      if ((await Promise.race([Promise.all(this.#running), timeout])) === 'timeout') break;
    }
    timer.abort();
  }

  /** Gives up what is running now, and what waits. Everybody who waits gets the reason. Resolves when nothing of it is left. */
  async breakOff(reason: (archive: ProviderArchive) => LarderError): Promise<void> {
    for (const download of this.#downloads.values()) download.abort(reason(download.archive));
    await Promise.all(this.#running);
  }

  /** Gives up what is still running, and all that comes. Resolves when nothing of it is left. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.breakOff(shuttingDown);
  }

  async #read(archive: ProviderArchive, load: () => Promise<ArchiveSource>): Promise<ReadableArchive> {
    const key = archive.toString();
    const arriving = this.#downloads.get(key);
    if (arriving) return arriving.readable;
    // Shared, so that readers who come together go on together: into one download, and into its failure.
    const stored = await this.#lookUps.run(key, () => this.#store.find(archive));
    if (stored) return storedReadable(this.#store, stored);
    return (this.#downloads.get(key) ?? this.#download(archive, load)).readable;
  }

  #download(archive: ProviderArchive, load: () => Promise<ArchiveSource>): ArchiveDownload {
    const key = archive.toString();
    const download = new ArchiveDownload({
      archive,
      store: this.#store,
      logger: this.#logger,
      load,
      onEnd: (stored) => {
        this.#downloads.delete(key);
        if (stored) this.#announce(stored);
      },
    });
    if (this.#closed) download.abort(shuttingDown(archive));
    this.#downloads.set(key, download);
    const running = this.#limit(() => download.run()).finally(() => this.#running.delete(running));
    this.#running.add(running);
    return download;
  }

  #announce(stored: StoredArchive): void {
    try {
      this.#onStored(stored);
    } catch (error) {
      this.#logger.error('nobody could be told of a stored archive', { archive: stored.archive.toString(), error });
    }
  }
}

function shuttingDown(archive: ProviderArchive): UpstreamUnreachable {
  return new UpstreamUnreachable('Larder', 'busy', `is shutting down and does not fetch ${archive} any more`);
}
