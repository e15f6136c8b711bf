import { createHash, type Hash as Digest } from 'node:crypto';
import { addAbortSignal, type Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { ProviderArchive } from '../address/archive.ts';
import type { Sha256 } from '../address/hash.ts';
import {
  hasCode,
  IntegrityMismatch,
  isUnreachable,
  LarderError,
  UpstreamInvalid,
  UpstreamUnreachable,
} from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, IncomingArchive, ReleaseFiles, StoredArchive } from '../store/archive-store.ts';
import { unlessAborted } from '../time-limit.ts';
import type { Arrival } from './arrival.ts';
import type { ArchiveSource, OpenedSource } from './readable-archive.ts';
import type { WaitingRoom } from './waiting-room.ts';

/** Interruptions that one download survives. Connections have their own retries below this. */
const MAX_RESUMES = 3;
const RESUME_DELAY_MS = 200;

/**
 * The most that is taken, in bytes, of an archive whose length nobody tells: an upstream that never ends would fill the disk.
 * The largest providers have less than a fifth of it, and whoever sends more can say how much it is.
 */
const MAX_UNTOLD_BYTES = 4 * 1024 ** 3;

/** Told when upstream's archive is not the one that was stored first, which stays. */
export type OnDrift = (archive: ProviderArchive, first: Sha256, published: Sha256) => void;

export interface Obtained {
  readonly stored: StoredArchive;
  /** Brought here by this download. */
  readonly isNew: boolean;
}

/** What somebody else fetched before and did not get to the end of. */
export interface Predecessor {
  /**
   * Puts it into an archive of ours, where those who read go on reading.
   * @returns how many bytes that were, and from where. @throws StorageFailed
   */
  takeOver(incoming: IncomingArchive, digest: Digest): Promise<Taken>;
}

export interface Taken {
  /** Bytes. */
  readonly taken: number;
  readonly takenFrom: readonly string[];
}

/** How far a fetch has come, for others who wait for it elsewhere. */
export interface Progress extends Taken {
  readonly incoming: IncomingArchive;
  /** Bytes, when upstream told. Once verified, what they are. */
  readonly size: number | undefined;
  readonly isVerified: boolean;
}

const NOTHING: Taken = { taken: 0, takenFrom: [] };

/** Fetches one archive: its bytes are written and hashed as they come, and only what has the promised digest is stored. */
export class ArchiveFetch {
  readonly #archive: ProviderArchive;
  readonly #store: ArchiveStore;
  readonly #source: ArchiveSource;
  readonly #room: WaitingRoom;
  readonly #signal: AbortSignal;
  readonly #logger: Logger;
  readonly #onDrift: OnDrift;
  readonly #onProgress: (progress: Progress) => void;
  readonly #maxUntoldBytes: number;
  /** Its bytes are not of one answer. */
  #wasResumed = false;

  constructor(deps: {
    archive: ProviderArchive;
    store: ArchiveStore;
    source: ArchiveSource;
    /** For whom it is fetched. */
    room: WaitingRoom;
    /** Ends it. */
    signal: AbortSignal;
    logger: Logger;
    onDrift: OnDrift;
    /** Told when it begins, and when everything is there and right. */
    onProgress?: ((progress: Progress) => void) | undefined;
    maxUntoldBytes?: number | undefined;
  }) {
    this.#archive = deps.archive;
    this.#store = deps.store;
    this.#source = deps.source;
    this.#room = deps.room;
    this.#signal = deps.signal;
    this.#logger = deps.logger;
    this.#onDrift = deps.onDrift;
    this.#maxUntoldBytes = deps.maxUntoldBytes ?? MAX_UNTOLD_BYTES;
    this.#onProgress = deps.onProgress ?? (() => {});
  }

  /**
   * @param predecessor goes on where this one ended
   * @throws what the source throws; IntegrityMismatch, StorageFailed, the reason of the signal
   */
  async run(predecessor?: Predecessor): Promise<Obtained> {
    try {
      return await this.#fetch(predecessor);
    } catch (error) {
      if (!this.#wasResumed || !hasCode(error, 'INTEGRITY_MISMATCH')) throw error;
      this.#logger.warn('a resumed download is not what it should be and is fetched again from its beginning', {
        archive: this.#archive.toString(),
        error,
      });
      // Those who read have bytes that may be wrong; those who come now get the new ones.
      this.#room.startOver(error);
      return this.#fetch(undefined);
    }
  }

  async #fetch(predecessor: Predecessor | undefined): Promise<Obtained> {
    const { sha256: promised, release } = this.#source;
    const incoming = await this.#store.receive(this.#archive);
    try {
      const digest = createHash('sha256');
      const taken = (await predecessor?.takeOver(incoming, digest)) ?? NOTHING;
      if (taken.taken > 0) this.#wasResumed = true;
      const size = await this.#receive(incoming, digest, taken);
      const sha256 = digest.digest('hex');
      if (sha256 !== promised) {
        throw new IntegrityMismatch(
          `${this.#archive} is not what was promised: its SHA-256 should be ${promised} and is ${sha256}`,
        );
      }
      // Whatever was resumed has turned out right.
      this.#wasResumed = false;
      const kept = await this.#keptMeanwhile(promised);
      // Whoever reads it has waited long enough: making it durable is our own affair.
      this.#room.arrival?.verified();
      this.#onProgress({ ...taken, incoming, size, isVerified: true });
      if (release) await this.#keepRelease(release);
      const present = kept ?? (await this.#keptMeanwhile(promised));
      if (!present) return { stored: await incoming.commit(promised), isNew: true };
      // Before the partial file is gone: it is read from the store from now on.
      this.#room.arrival?.complete(present);
      await this.#remove(incoming);
      return { stored: present, isNew: false };
    } catch (error) {
      await this.#remove(incoming);
      throw error;
    }
  }

  /**
   * What was brought in while this one came, or fetched by another process.
   * @throws IntegrityMismatch when that is something else: what was stored first stays
   */
  async #keptMeanwhile(sha256: Sha256): Promise<StoredArchive | undefined> {
    const kept = await this.#store.find(this.#archive);
    if (!kept || kept.sha256 === sha256) return kept;
    this.#onDrift(this.#archive, kept.sha256, sha256);
    const { provider, version } = this.#archive;
    throw new IntegrityMismatch(
      `while ${this.#archive} was fetched it was stored with other bytes: their SHA-256 is ${kept.sha256}, upstream's ${sha256}`,
      { hint: `an operator who knows why can accept it: larder purge ${provider} ${version}` },
    );
  }

  async #remove(incoming: IncomingArchive): Promise<void> {
    await incoming.abort().catch((error: unknown) => {
      this.#logger.warn('a partial file could not be removed', { archive: this.#archive.toString(), error });
    });
  }

  /** What is kept already is the first that was seen, and stays. */
  async #keepRelease(files: ReleaseFiles): Promise<void> {
    const { provider, version } = this.#archive;
    if (!(await this.#store.getRelease(provider, version))) await this.#store.putRelease(provider, version, files);
  }

  /** Until everything has come in, over as many connections as it takes. @returns its size */
  async #receive(incoming: IncomingArchive, digest: Digest, taken: Taken): Promise<number> {
    let arrival = taken.taken > 0 ? this.#room.arrival : undefined;
    if (arrival) this.#onProgress({ ...taken, incoming, size: arrival.size, isVerified: false });
    for (let resumes = 0; ; resumes += 1) {
      const before = arrival?.written ?? taken.taken;
      if (before > 0 && before === arrival?.size) return before;
      try {
        const opened = await this.#source.open(before, this.#signal);
        arrival ??= await this.#begin(opened, incoming, taken);
        await this.#append(opened, arrival, incoming, digest);
        return arrival.written;
      } catch (error) {
        this.#signal.throwIfAborted();
        const hasProgressed = arrival !== undefined && (arrival.written > before || resumes === 0);
        if (!hasProgressed || !isUnreachable(error) || resumes === MAX_RESUMES) throw error;
        this.#wasResumed = true;
        this.#logger.info('a download was interrupted and will be resumed', {
          archive: this.#archive.toString(),
          received: arrival?.written,
          error,
        });
        await delay(RESUME_DELAY_MS * 2 ** resumes, undefined, { signal: this.#signal }).catch(() => {
          this.#signal.throwIfAborted();
        });
      }
    }
  }

  async #begin(opened: OpenedSource, incoming: IncomingArchive, taken: Taken): Promise<Arrival> {
    const size = opened.size ?? this.#source.size;
    try {
      // It may wait long for room.
      if (size !== undefined) await unlessAborted(incoming.expect(size), this.#signal);
    } catch (error) {
      opened.body.destroy();
      throw error;
    }
    // Some may wait already for what was to come from elsewhere.
    const waiting = this.#room.arrival;
    if (waiting && waiting.size !== undefined && waiting.size !== size) {
      this.#room.startOver(new IntegrityMismatch(`${this.#archive} changed its size to ${size} bytes`));
    }
    await waiting?.moveTo(incoming);
    const arrival = this.#room.arrival ?? this.#room.begin(incoming, { sha256: this.#source.sha256, size });
    arrival.grewTo(taken.taken);
    this.#onProgress({ ...taken, incoming, size, isVerified: false });
    return arrival;
  }

  async #append(opened: OpenedSource, arrival: Arrival, incoming: IncomingArchive, digest: Digest): Promise<void> {
    const host = opened.host ?? this.#archive.provider.hostname.toString();
    const { filename } = this.#archive;
    /** What is here already, when upstream begins again from the start. */
    let skip = arrival.written - opened.offset;
    for await (const bytes of bytesOf(opened.body, host, this.#signal)) {
      if (skip < 0) throw new UpstreamInvalid(host, `answered with another part of ${filename} than was asked for`);
      if (opened.size !== undefined && arrival.size !== undefined && opened.size !== arrival.size) {
        throw new IntegrityMismatch(`${this.#archive} changed its size from ${arrival.size} to ${opened.size} bytes`);
      }
      const chunk = bytes.subarray(Math.min(skip, bytes.length));
      skip -= bytes.length - chunk.length;
      if (arrival.size !== undefined && arrival.written + chunk.length > arrival.size) {
        throw new IntegrityMismatch(`${this.#archive} has more than the ${arrival.size} bytes it should have`);
      }
      if (arrival.size === undefined && arrival.written + chunk.length > this.#maxUntoldBytes) {
        const limit = `more than ${this.#maxUntoldBytes} bytes`;
        throw new UpstreamInvalid(host, `sent ${limit} of ${filename} without telling how many there are`);
      }
      const written = incoming.write(chunk);
      digest.update(chunk);
      await unlessAborted(written, this.#signal);
      arrival.grewTo(arrival.written + chunk.length);
    }
    if (arrival.size !== undefined && arrival.written < arrival.size) {
      const detail = `ended ${filename} after ${arrival.written} of ${arrival.size} bytes`;
      throw new UpstreamUnreachable(host, 'connection', detail);
    }
  }
}

/** The chunks of a body, which is destroyed in every case. Whatever ends it early counts as an interruption. */
async function* bytesOf(body: Readable, host: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    yield* addAbortSignal(signal, body) as AsyncIterable<Uint8Array>;
  } catch (error) {
    if (error instanceof LarderError) throw error;
    throw new UpstreamUnreachable(host, 'connection', 'broke off in the middle of an archive', { cause: error });
  }
}
