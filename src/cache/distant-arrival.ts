import type { Hash as Digest } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ProviderArchive } from '../address/archive.ts';
import { UpstreamUnreachable } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, IncomingArchive, PartialArchive, StoredArchive } from '../store/archive-store.ts';
import { LEASE_TTL_MS, type LeaseNote, type Leases } from '../store/leases.ts';
import type { ArrivingBytes } from './arrival.ts';
import { type ArrivalNote, parseNote } from './arrival-note.ts';
import type { ArchiveSource } from './readable-archive.ts';
import { storedBytes } from './stored-bytes.ts';
import type { WaitingRoom } from './waiting-room.ts';

/** How often is looked how far another replica has come, in milliseconds. */
const LOOK_MS = 100;
/** Nobody holds the lease, and bytes still come: its holder takes it again in a moment. For so long, in milliseconds. */
const QUIET_MS = 500;
/** What a dead replica has fetched is taken over in pieces of this. */
const COPY_BYTES = 256 * 1024;

/** What cannot be seen yet. Nobody reads of it before there is something. */
const NOTHING_YET: ArrivingBytes = {
  openReader: async () => ({ read: async () => 0, close: async () => {} }),
};

/**
 * An archive that another replica fetches. Where replicas share a directory, those who wait here read that replica's
 * partial file as it grows; otherwise they have its size and its digest, and its bytes as soon as it is stored. When the
 * other replica does not get to the end, what it has fetched is taken over.
 */
export class DistantArrival {
  readonly #archive: ProviderArchive;
  readonly #store: ArchiveStore;
  readonly #leases: Leases;
  readonly #key: string;
  readonly #source: ArchiveSource;
  readonly #room: WaitingRoom;
  readonly #signal: AbortSignal;
  readonly #logger: Logger;
  #note: ArrivalNote | undefined;
  #partial: PartialArchive | undefined;
  /** Those that it was taken over from, and its own. */
  #names: string[] = [];

  constructor(deps: {
    archive: ProviderArchive;
    store: ArchiveStore;
    leases: Leases;
    /** Of the lease. */
    key: string;
    source: ArchiveSource;
    room: WaitingRoom;
    /** Ends it. */
    signal: AbortSignal;
    logger: Logger;
  }) {
    this.#archive = deps.archive;
    this.#store = deps.store;
    this.#leases = deps.leases;
    this.#key = deps.key;
    this.#source = deps.source;
    this.#room = deps.room;
    this.#signal = deps.signal;
    this.#logger = deps.logger;
  }

  /**
   * Until it is stored, or nobody is seen to fetch it any more: then it is `undefined`.
   * @throws the reason of the signal; StorageFailed
   */
  async follow(): Promise<StoredArchive | undefined> {
    let progressAt = Number.NEGATIVE_INFINITY;
    for (;;) {
      this.#signal.throwIfAborted();
      const { holder, isKnown } = await this.#look();
      const isNews = holder ? await this.#attend(holder) : false;
      if ((await this.#grow()) || isNews) progressAt = performance.now();
      if (!holder || this.#note?.isVerified) {
        const stored = await this.#store.find(this.#archive);
        if (stored?.sha256 === this.#source.sha256) {
          await this.settle(stored);
          return stored;
        }
        const patienceMs = isKnown ? QUIET_MS : LEASE_TTL_MS;
        if (!holder && performance.now() - progressAt > patienceMs) return undefined;
      }
      await delay(LOOK_MS, undefined, { signal: this.#signal }).catch(() => {});
    }
  }

  /**
   * Puts what another replica has fetched into an archive of ours, where those who read go on reading.
   * @returns what was taken over, and from where
   * @throws StorageFailed
   */
  async takeOver(incoming: IncomingArchive, digest: Digest): Promise<{ taken: number; takenFrom: readonly string[] }> {
    const arrival = this.#room.arrival;
    if (!arrival) return { taken: 0, takenFrom: [] };
    if (arrival.size !== undefined) await incoming.expect(arrival.size);
    const taken = this.#partial ? await copy(this.#partial, incoming, digest, arrival.size) : 0;
    if (taken < arrival.written) {
      this.#startOver();
    } else {
      await arrival.moveTo(incoming);
      arrival.grewTo(taken);
    }
    this.#logger.info('another replica did not get to the end of an archive, which is fetched from here on', {
      archive: this.#archive.toString(),
      taken,
    });
    return { taken, takenFrom: this.#names };
  }

  /** It is stored: those who read get the rest of it from wherever it can be had. @throws StorageFailed */
  async settle(stored: StoredArchive): Promise<void> {
    if (stored.sha256 !== this.#source.sha256) this.#startOver();
    const { arrival } = this.#room;
    if (!arrival) return;
    const written = await this.#partial?.size().catch(() => 0);
    if (written !== stored.size) await arrival.moveTo(storedBytes(this.#store, stored));
    arrival.grewTo(stored.size);
    arrival.verified();
  }

  /** Those who read go on. Never rejects. */
  async close(): Promise<void> {
    await this.#partial?.close();
    this.#partial = undefined;
  }

  /** Without Redis it is not known who fetches it; that it still comes can be seen all the same. */
  async #look(): Promise<{ holder: LeaseNote | undefined; isKnown: boolean }> {
    try {
      return { holder: await this.#leases.look(this.#key), isKnown: true };
    } catch {
      return { holder: undefined, isKnown: false };
    }
  }

  /** @returns whether it is news */
  async #attend({ text }: LeaseNote): Promise<boolean> {
    const note = parseNote(text);
    // Somebody who was told something else by upstream: that is not what we wait for.
    if (!note || note.sha256 !== this.#source.sha256) return false;
    const last = this.#note;
    this.#note = note;
    if (last && last.partial === note.partial && last.isVerified === note.isVerified) return false;
    if (!last || last.partial !== note.partial) await this.#attach(note);
    return true;
  }

  async #attach(note: ArrivalNote): Promise<void> {
    const partial = note.partial === undefined ? undefined : await this.#open(note.partial);
    if (!this.#goesOnWith(note)) this.#startOver();
    const { arrival } = this.#room;
    if (!arrival) {
      const size = note.size ?? this.#source.size;
      this.#room.begin(partial ?? NOTHING_YET, { sha256: note.sha256, size });
    } else if (partial) {
      await arrival.moveTo(partial);
    }
    await this.#partial?.close();
    this.#partial = partial;
    this.#names = note.partial === undefined ? [] : [...note.takenFrom, note.partial];
  }

  async #open(name: string): Promise<PartialArchive | undefined> {
    try {
      return await this.#store.openPartial?.(name);
    } catch (error) {
      this.#logger.warn('what another replica fetches cannot be read until it is stored', {
        archive: this.#archive.toString(),
        error,
      });
      return undefined;
    }
  }

  /** Whether what was read here so far is the beginning of what comes there. */
  #goesOnWith(note: ArrivalNote): boolean {
    const { arrival } = this.#room;
    if (!arrival) return true;
    if (arrival.size !== undefined && note.size !== undefined && arrival.size !== note.size) return false;
    if (arrival.written === 0) return true;
    const name = this.#names.at(-1);
    return name !== undefined && note.takenFrom.includes(name) && arrival.written <= note.taken;
  }

  #startOver(): void {
    const detail = `broke off in the middle of ${this.#archive.filename}, which another replica fetched`;
    this.#room.startOver(new UpstreamUnreachable('Larder', 'connection', detail));
  }

  /** @returns whether more has come */
  async #grow(): Promise<boolean> {
    const { arrival } = this.#room;
    if (!arrival || !this.#partial) return false;
    // Over a network it may not be there any more: what has been read is all that there is until it is stored.
    const written = await this.#partial.size().catch(() => 0);
    const hasGrown = written > arrival.written;
    if (hasGrown) arrival.grewTo(written);
    if (this.#note?.isVerified && written === this.#note.size) arrival.verified();
    return hasGrown;
  }
}

/** @returns how many bytes could be read: what cannot be is fetched again. @throws StorageFailed */
async function copy(
  partial: PartialArchive,
  incoming: IncomingArchive,
  digest: Digest,
  size = Number.POSITIVE_INFINITY,
): Promise<number> {
  const reader = await partial.openReader();
  const buffer = Buffer.allocUnsafe(COPY_BYTES);
  try {
    for (let taken = 0; ; ) {
      const room = buffer.subarray(0, Math.min(COPY_BYTES, size - taken));
      const length = room.length === 0 ? 0 : await reader.read(room, taken).catch(() => 0);
      if (length === 0) return taken;
      const chunk = buffer.subarray(0, length);
      digest.update(chunk);
      await incoming.write(chunk);
      taken += length;
    }
  } finally {
    await reader.close();
  }
}
