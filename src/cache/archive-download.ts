import type { ProviderArchive } from '../address/archive.ts';
import { hasCode, type LarderError } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import { leaseKeys } from '../store/keys.ts';
import { isLease, type Lease, type Leases } from '../store/leases.ts';
import { unlessAborted } from '../time-limit.ts';
import type { Span } from '../tracer.ts';
import { ArchiveFetch, type Obtained, type OnDrift, type Predecessor, type Progress } from './archive-fetch.ts';
import type { Arrival } from './arrival.ts';
import { formatNote } from './arrival-note.ts';
import type { DetachedRun } from './detached-runs.ts';
import { DistantArrival } from './distant-arrival.ts';
import type { Mismatches } from './mismatches.ts';
import type { ArchiveSource, ReadableArchive } from './readable-archive.ts';
import { WaitingRoom } from './waiting-room.ts';

/**
 * Brings one archive into the store: `load` says where from, one of all replicas fetches it, and the others follow that
 * one. It belongs to nobody who waits for it: it goes on when they hang up.
 */
export class ArchiveDownload implements DetachedRun {
  readonly archive: ProviderArchive;
  readonly #store: ArchiveStore;
  readonly #leases: Leases | undefined;
  readonly #logger: Logger;
  readonly #span: Span | undefined;
  readonly #load: () => Promise<ArchiveSource>;
  readonly #onEnd: (stored: StoredArchive | undefined) => void;
  readonly #onDrift: OnDrift;
  readonly #mismatches: Mismatches | undefined;
  readonly #maxUntoldBytes: number | undefined;
  readonly #abort = new AbortController();
  readonly #room: WaitingRoom;

  constructor(deps: {
    archive: ProviderArchive;
    store: ArchiveStore;
    /** Shared with other replicas, if there may be any. */
    leases?: Leases | undefined;
    logger: Logger;
    /** Ends with it. */
    span?: Span | undefined;
    load: () => Promise<ArchiveSource>;
    /** Called once, before anybody who waits hears of the end: from now on the store knows better. */
    onEnd: (stored: StoredArchive | undefined) => void;
    onDrift?: OnDrift | undefined;
    /** Downloads that are not tried again at once. */
    mismatches?: Mismatches | undefined;
    /** The most that is taken of an archive whose length nobody tells. */
    maxUntoldBytes?: number | undefined;
  }) {
    this.archive = deps.archive;
    this.#store = deps.store;
    this.#leases = deps.leases;
    this.#logger = deps.logger;
    this.#span = deps.span;
    this.#load = deps.load;
    this.#onEnd = deps.onEnd;
    this.#onDrift = deps.onDrift ?? (() => {});
    this.#mismatches = deps.mismatches;
    this.#maxUntoldBytes = deps.maxUntoldBytes;
    this.#room = new WaitingRoom({ store: deps.store });
  }

  /** Resolves once bytes begin to come; rejects when it cannot be had. */
  get readable(): Promise<ReadableArchive> {
    return this.#room.readable;
  }

  /** What has begun to arrive. */
  get arrival(): Arrival | undefined {
    return this.#room.arrival;
  }

  /** Gives up; everybody who waits or reads gets `reason`. */
  abort(reason: LarderError): void {
    this.#abort.abort(reason);
  }

  /** Runs to the end, good or bad. Never rejects. */
  async run(): Promise<void> {
    try {
      this.#abort.signal.throwIfAborted();
      const { stored, isNew } = await this.#obtain();
      this.#onEnd(isNew ? stored : undefined);
      this.#room.complete(stored);
      this.#span?.end({ attributes: { 'larder.bytes': stored.size, 'larder.new': isNew } });
    } catch (error) {
      this.#onEnd(undefined);
      this.#room.fail(error instanceof Error ? error : new Error(String(error)));
      this.#span?.end({ error });
    }
  }

  async #obtain(): Promise<Obtained> {
    // Another download may have ended between the reader's look into the store and this one's turn.
    const present = await this.#store.find(this.archive);
    if (present) return { stored: present, isNew: false };
    const source = await unlessAborted(this.#load(), this.#abort.signal);
    const adopted = await this.#store.adopt(this.archive, source);
    if (adopted) return { stored: adopted, isNew: true };
    this.#mismatches?.demandNone(this.archive, source.sha256);
    return this.#leases ? this.#obtainTogether(source, this.#leases) : this.#fetch(source);
  }

  /** By this replica, when its turn comes, unless another one gets to the end before. */
  async #obtainTogether(source: ArchiveSource, leases: Leases): Promise<Obtained> {
    const key = leaseKeys.archive(this.archive);
    const distant = new DistantArrival({
      archive: this.archive,
      store: this.#store,
      leases,
      key,
      source,
      room: this.#room,
      signal: this.#abort.signal,
      logger: this.#logger,
    });
    try {
      for (;;) {
        const acquired = await leases.acquire(key);
        if (isLease(acquired)) return await this.#fetchUnder(acquired, source, distant);
        const stored = await distant.follow();
        if (stored) return { stored, isNew: false };
      }
    } finally {
      await distant.close();
    }
  }

  async #fetchUnder(lease: Lease, source: ArchiveSource, distant: DistantArrival): Promise<Obtained> {
    try {
      this.#abort.signal.throwIfAborted();
      // Whoever had the lease before may just have stored it.
      const present = await this.#store.find(this.archive);
      if (!present) return await this.#fetch(source, { lease, predecessor: distant });
      await distant.settle(present);
      return { stored: present, isNew: false };
    } finally {
      await lease.release();
    }
  }

  async #fetch(source: ArchiveSource, together?: { lease: Lease; predecessor: Predecessor }): Promise<Obtained> {
    const fetch = new ArchiveFetch({
      archive: this.archive,
      store: this.#store,
      source,
      room: this.#room,
      signal: this.#abort.signal,
      logger: this.#logger,
      onDrift: this.#onDrift,
      maxUntoldBytes: this.#maxUntoldBytes,
      onProgress: together && ((progress) => void together.lease.note(noteOf(source, progress))),
    });
    try {
      return await fetch.run(together?.predecessor);
    } catch (error) {
      if (hasCode(error, 'INTEGRITY_MISMATCH')) this.#mismatches?.note(this.archive, source.sha256, error);
      throw error;
    }
  }
}

function noteOf({ sha256 }: ArchiveSource, { incoming, size, taken, takenFrom, isVerified }: Progress): string {
  return formatNote({ partial: incoming.partialName, sha256, size, taken, takenFrom, isVerified });
}
