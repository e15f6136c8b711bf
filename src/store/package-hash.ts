import pLimit from 'p-limit';
import { type Hash, parseHash } from '../address/hash.ts';
import { Threads } from '../threads.ts';
import { unlessAborted } from '../time-limit.ts';
import { startWorker } from '../worker-file.ts';
import type { HashOutcome } from './package-hash-worker.ts';

/** The `h1:` of a package, or why it has none. */
export type PackageHash =
  | {
      readonly hash: Hash;
      /** Of the files alone, as they lie unpacked, where that is another: the zip has entries for directories. */
      readonly unpacked?: Hash;
    }
  | { readonly reason: string };

/** Far beyond what the largest package takes (a few seconds); what runs longer is hostile or hangs on its disk. */
const FILE_TIME_LIMIT_MS = 5 * 60_000;
/** A zip may not eat the process's memory: its entries are held in memory until the end. */
const WORKER_HEAP_MIB = 512;

/**
 * Computes package hashes in worker threads, which keeps requests fast meanwhile and keeps a hostile zip from taking
 * the process down.
 */
export class PackageHasher {
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #timeLimitMs: number;
  readonly #threads = new Threads<string, HashOutcome>({
    start: () =>
      startWorker(import.meta.url, 'package-hash-worker', {
        resourceLimits: { maxOldGenerationSizeMb: WORKER_HEAP_MIB },
      }),
  });
  #closed = false;

  /** `concurrency` counts files hashed at once; each takes about one processor. */
  constructor({ concurrency = 1, timeLimitMs = FILE_TIME_LIMIT_MS } = {}) {
    this.#limit = pLimit(concurrency);
    this.#timeLimitMs = timeLimitMs;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Files that wait for their turn. */
  get waiting(): number {
    return this.#limit.pendingCount;
  }

  /** Resolves in every case: a file that cannot be hashed has a `reason`, fit for a log. */
  async hash(path: string): Promise<PackageHash> {
    return this.#limit(async () => {
      if (this.#closed) return { reason: 'Larder is shutting down' };
      const outcome = await this.#ask(path);
      if ('reason' in outcome) return outcome;
      const { hash, unpacked } = outcome;
      return { hash: parseHash(hash), ...(unpacked !== undefined && { unpacked: parseHash(unpacked) }) };
    });
  }

  /** Ends the threads; files still being hashed have a `reason` then. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#threads.close();
  }

  async #ask(path: string): Promise<HashOutcome> {
    const limit = new AbortController();
    const timer = setTimeout(
      () => limit.abort(new Error(`it took longer than ${this.#timeLimitMs / 1000} s`)),
      this.#timeLimitMs,
    );
    try {
      // A thread that hangs on its disk does not end before the disk answers: it is not waited for.
      return await unlessAborted(this.#threads.run(path, limit.signal), limit.signal);
    } catch (error) {
      return { reason: (error as Error).message };
    } finally {
      clearTimeout(timer);
    }
  }
}
