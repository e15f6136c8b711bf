import type { ProviderArchive } from '../address/archive.ts';
import { type LarderError, UpstreamUnreachable } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { loggerFor, type RequestOrigin } from '../request-origin.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import type { Leases } from '../store/leases.ts';
import { settledWithin } from '../time-limit.ts';
import { NO_TRACER, type Tracer } from '../tracer.ts';
import { announcing } from './announcing.ts';
import { ArchiveDownload } from './archive-download.ts';
import type { OnDrift } from './archive-fetch.ts';
import { DetachedRuns } from './detached-runs.ts';
import { LookUps } from './look-ups.ts';
import { Mismatches } from './mismatches.ts';
import type { ArchiveSource, ReadableArchive } from './readable-archive.ts';
import { SingleFlight } from './single-flight.ts';
import { storedReadable } from './stored-readable.ts';
import { unlessGone } from './unless-gone.ts';

/** Archives never change: what is stored is served as it is, what is absent is fetched once for all who ask. */
export class ArchiveCache {
  /** What became of reads. */
  readonly counts = new LookUps();
  readonly #store: ArchiveStore;
  readonly #leases: Leases | undefined;
  readonly #logger: Logger;
  readonly #tracer: Tracer;
  readonly #announce: (stored: StoredArchive) => void;
  readonly #onDrift: OnDrift | undefined;
  readonly #maxUntoldBytes: number | undefined;
  readonly #lookUps = new SingleFlight<StoredArchive | undefined>();
  readonly #mismatches: Mismatches;
  readonly #downloads: DetachedRuns<ArchiveDownload>;

  constructor(deps: {
    /** Stays open when the cache is closed. */
    store: ArchiveStore;
    /** Shared with the other replicas over that store, if there may be any. Stay open, too. */
    leases?: Leases | undefined;
    logger: Logger;
    tracer?: Tracer | undefined;
    /** Further ones wait for their turn. */
    concurrentDownloads: number;
    /** Told of each archive that has come into the store. */
    onStored?: (stored: StoredArchive) => void;
    /** Told when something else was stored while an archive was fetched. */
    onDrift?: OnDrift;
    /** How long a download with wrong bytes is not tried again, in milliseconds, if not as usual. */
    mismatchKeepMs?: number;
    /** The most that is taken of an archive whose length nobody tells, if not what is usual. */
    maxUntoldBytes?: number;
  }) {
    this.#store = deps.store;
    this.#leases = deps.leases;
    this.#logger = deps.logger;
    this.#tracer = deps.tracer ?? NO_TRACER;
    this.#onDrift = deps.onDrift;
    this.#mismatches = new Mismatches({ keepMs: deps.mismatchKeepMs });
    this.#maxUntoldBytes = deps.maxUntoldBytes;
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

  /** Downloads that wait for their turn. */
  get waiting(): number {
    return this.#downloads.waiting;
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
   * upstream begins to answer. Failures reach everybody who waits, and are not remembered; but wrong bytes are for some
   * seconds.
   * @param origin the request that it is read for; a download tells of the one that began it
   * @throws what `load` and the source throw; IntegrityMismatch, StorageFailed
   */
  async read(
    archive: ProviderArchive,
    load: () => Promise<ArchiveSource>,
    origin?: RequestOrigin | undefined,
  ): Promise<ReadableArchive> {
    const readable = await this.#read(archive, load, origin);
    return unlessGone(readable, () => this.#read(archive, load, origin));
  }

  /** Resolves when those are stored, or failed, of which all bytes have come; or after `timeoutMs`. Never rejects. */
  async putAway(isMeant: (archive: ProviderArchive) => boolean, timeoutMs: number): Promise<void> {
    const arrivals = this.#downloads.all.filter(({ archive }) => isMeant(archive)).map(({ arrival }) => arrival);
    const ends = arrivals.map((arrival) => (arrival?.isVerified ? arrival.settled().catch(() => {}) : undefined));
    await settledWithin(Promise.all(ends), timeoutMs);
  }

  /** Those that came with wrong bytes may be tried again at once. */
  forgetMismatches(isMeant: (archive: ProviderArchive) => boolean): void {
    this.#mismatches.forget(isMeant);
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

  async #read(
    archive: ProviderArchive,
    load: () => Promise<ArchiveSource>,
    origin: RequestOrigin | undefined,
  ): Promise<ReadableArchive> {
    const key = archive.toString();
    const arriving = this.#downloads.get(key);
    if (arriving) {
      this.counts.coalesced += 1;
      return arriving.readable;
    }
    // Shared, so that readers who come together go on together: into one download, and into its failure.
    const stored = await this.#lookUps.run(key, () => this.#store.find(archive));
    if (stored) {
      this.counts.hits += 1;
      return storedReadable(this.#store, stored);
    }
    this.counts[this.#downloads.get(key) ? 'coalesced' : 'misses'] += 1;
    return this.#download(archive, load, origin).readable;
  }

  #download(
    archive: ProviderArchive,
    load: () => Promise<ArchiveSource>,
    origin: RequestOrigin | undefined,
  ): ArchiveDownload {
    return this.#downloads.join(archive.toString(), (onEnd) => {
      return new ArchiveDownload({
        archive,
        store: this.#store,
        leases: this.#leases,
        logger: loggerFor(origin, this.#logger),
        span: this.#tracer.begin('archive download', {
          parent: origin?.trace,
          attributes: { 'larder.archive': archive.toString() },
        }),
        load,
        onDrift: this.#onDrift,
        mismatches: this.#mismatches,
        maxUntoldBytes: this.#maxUntoldBytes,
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
