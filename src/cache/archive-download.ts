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
import { Arrival } from './arrival.ts';
import type { DetachedRun } from './detached-runs.ts';
import type { ArchiveSource, OpenedSource, ReadableArchive } from './readable-archive.ts';
import { storedReadable } from './stored-readable.ts';

/** Interruptions that one download survives. Connections have their own retries below this. */
const MAX_RESUMES = 3;
const RESUME_DELAY_MS = 200;

/** Told when upstream's archive is not the one that was stored first, which stays. */
export type OnDrift = (archive: ProviderArchive, first: Sha256, published: Sha256) => void;

interface Obtained {
  readonly stored: StoredArchive;
  /** Brought here by this download. */
  readonly isNew: boolean;
}

/**
 * Brings one archive into the store: `load` says where from, the bytes are written and hashed as they come, and only
 * what has the promised digest is committed, unless another one was stored meanwhile. It belongs to nobody who waits for
 * it: it goes on when they hang up.
 */
export class ArchiveDownload implements DetachedRun {
  readonly archive: ProviderArchive;
  readonly #store: ArchiveStore;
  readonly #logger: Logger;
  readonly #load: () => Promise<ArchiveSource>;
  readonly #onEnd: (stored: StoredArchive | undefined) => void;
  readonly #onDrift: OnDrift;
  readonly #abort = new AbortController();
  readonly #ended = promised<void>();
  #readable = promised<ReadableArchive>();
  #arrival: Arrival | undefined;
  #wasResumed = false;

  constructor(deps: {
    archive: ProviderArchive;
    store: ArchiveStore;
    logger: Logger;
    load: () => Promise<ArchiveSource>;
    /** Called once, before anybody who waits hears of the end: from now on the store knows better. */
    onEnd: (stored: StoredArchive | undefined) => void;
    onDrift?: OnDrift | undefined;
  }) {
    this.archive = deps.archive;
    this.#store = deps.store;
    this.#logger = deps.logger;
    this.#load = deps.load;
    this.#onEnd = deps.onEnd;
    this.#onDrift = deps.onDrift ?? (() => {});
  }

  /** Resolves once upstream has begun to answer; rejects when it cannot be had. */
  get readable(): Promise<ReadableArchive> {
    return this.#readable.promise;
  }

  /** What has begun to arrive. */
  get arrival(): Arrival | undefined {
    return this.#arrival;
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
      this.#arrival?.complete(stored);
      this.#readable.resolve(storedReadable(this.#store, stored));
      this.#ended.resolve();
    } catch (error) {
      this.#onEnd(undefined);
      const reason = error instanceof Error ? error : new Error(String(error));
      this.#arrival?.fail(reason);
      this.#readable.reject(reason);
      this.#ended.reject(reason);
    }
  }

  async #obtain(): Promise<Obtained> {
    // Another download may have ended between the reader's look into the store and this one's turn.
    const present = await this.#store.find(this.archive);
    if (present) return { stored: present, isNew: false };
    const source = await unlessAborted(this.#load(), this.#abort.signal);
    const adopted = await this.#store.adopt(this.archive, source);
    if (adopted) return { stored: adopted, isNew: true };
    return this.#fetch(source);
  }

  async #fetch(source: ArchiveSource): Promise<Obtained> {
    try {
      return await this.#fetchOnce(source);
    } catch (error) {
      if (!this.#wasResumed || !hasCode(error, 'INTEGRITY_MISMATCH')) throw error;
      this.#logger.warn('a resumed download is not what it should be and is fetched again from its beginning', {
        archive: this.archive.toString(),
        error,
      });
      // Those who read have bytes that may be wrong; those who come now get the new ones.
      const failed = this.#arrival;
      this.#arrival = undefined;
      this.#readable = promised();
      failed?.fail(error);
      return this.#fetchOnce(source);
    }
  }

  async #fetchOnce(source: ArchiveSource): Promise<Obtained> {
    const incoming = await this.#store.receive(this.archive);
    try {
      const digest = createHash('sha256');
      await this.#receive(source, incoming, digest);
      const sha256 = digest.digest('hex');
      if (sha256 !== source.sha256) {
        throw new IntegrityMismatch(
          `${this.archive} is not what was promised: its SHA-256 should be ${source.sha256} and is ${sha256}`,
        );
      }
      // Whatever was resumed has turned out right.
      this.#wasResumed = false;
      const kept = await this.#keptMeanwhile(source.sha256);
      // Whoever reads it has waited long enough: making it durable is our own affair.
      this.#arrival?.verified();
      if (source.release) await this.#keepRelease(source.release);
      const present = kept ?? (await this.#keptMeanwhile(source.sha256));
      if (!present) return { stored: await incoming.commit(source.sha256), isNew: true };
      // Before the partial file is gone: it is read from the store from now on.
      this.#arrival?.complete(present);
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
    const kept = await this.#store.find(this.archive);
    if (!kept || kept.sha256 === sha256) return kept;
    this.#onDrift(this.archive, kept.sha256, sha256);
    const { provider, version } = this.archive;
    throw new IntegrityMismatch(
      `while ${this.archive} was fetched it was stored with other bytes: their SHA-256 is ${kept.sha256}, upstream's ${sha256}`,
      { hint: `an operator who knows why can accept it: larder purge ${provider} ${version}` },
    );
  }

  async #remove(incoming: IncomingArchive): Promise<void> {
    await incoming.abort().catch((error: unknown) => {
      this.#logger.warn('a partial file could not be removed', { archive: this.archive.toString(), error });
    });
  }

  /** What is kept already is the first that was seen, and stays. */
  async #keepRelease(files: ReleaseFiles): Promise<void> {
    const { provider, version } = this.archive;
    if (!(await this.#store.getRelease(provider, version))) await this.#store.putRelease(provider, version, files);
  }

  /** Until everything has come in, over as many connections as it takes. */
  async #receive(source: ArchiveSource, incoming: IncomingArchive, digest: Digest): Promise<void> {
    let arrival: Arrival | undefined;
    for (let resumes = 0; ; resumes += 1) {
      const before = arrival?.written ?? 0;
      try {
        const opened = await source.open(before, this.#abort.signal);
        arrival ??= await this.#begin(source, opened, incoming);
        await this.#append(opened, arrival, digest);
        return;
      } catch (error) {
        this.#abort.signal.throwIfAborted();
        const hasProgressed = arrival !== undefined && (arrival.written > before || resumes === 0);
        if (!hasProgressed || !isUnreachable(error) || resumes === MAX_RESUMES) throw error;
        this.#wasResumed = true;
        this.#logger.info('a download was interrupted and will be resumed', {
          archive: this.archive.toString(),
          received: arrival?.written,
          error,
        });
        await delay(RESUME_DELAY_MS * 2 ** resumes, undefined, { signal: this.#abort.signal }).catch(() => {
          this.#abort.signal.throwIfAborted();
        });
      }
    }
  }

  async #begin(source: ArchiveSource, opened: OpenedSource, incoming: IncomingArchive): Promise<Arrival> {
    const size = opened.size ?? source.size;
    try {
      // It may wait long for room.
      if (size !== undefined) await unlessAborted(incoming.expect(size), this.#abort.signal);
    } catch (error) {
      opened.body.destroy();
      throw error;
    }
    this.#arrival = new Arrival({
      store: this.#store,
      incoming,
      sha256: source.sha256,
      size,
      ended: this.#ended.promise,
    });
    this.#readable.resolve(this.#arrival);
    return this.#arrival;
  }

  async #append(opened: OpenedSource, arrival: Arrival, digest: Digest): Promise<void> {
    const host = opened.host ?? this.archive.provider.hostname.toString();
    const { filename } = this.archive;
    /** What is here already, when upstream begins again from the start. */
    let skip = arrival.written - opened.offset;
    for await (const bytes of bytesOf(opened.body, host, this.#abort.signal)) {
      if (skip < 0) throw new UpstreamInvalid(host, `answered with another part of ${filename} than was asked for`);
      if (opened.size !== undefined && arrival.size !== undefined && opened.size !== arrival.size) {
        throw new IntegrityMismatch(`${this.archive} changed its size from ${arrival.size} to ${opened.size} bytes`);
      }
      const chunk = bytes.subarray(Math.min(skip, bytes.length));
      skip -= bytes.length - chunk.length;
      if (arrival.size !== undefined && arrival.written + chunk.length > arrival.size) {
        throw new IntegrityMismatch(`${this.archive} has more than the ${arrival.size} bytes it should have`);
      }
      const written = arrival.append(chunk);
      digest.update(chunk);
      await unlessAborted(written, this.#abort.signal);
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

function promised<T>() {
  let resolve: (value: T) => void = () => {};
  let reject: (error: Error) => void = () => {};
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  // Nobody may be waiting: a download goes on when all have hung up.
  promise.catch(() => {});
  return { promise, resolve, reject };
}
