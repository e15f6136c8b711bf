import type { Worker } from 'node:worker_threads';
import pLimit from 'p-limit';
import { type Hash, parseHash } from '../address/hash.ts';
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
 * the process down. Threads are kept for the next file and do not keep the process alive.
 */
export class PackageHasher {
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #timeLimitMs: number;
  readonly #idle = new Set<Worker>();
  readonly #busy = new Set<Worker>();
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
      const worker = this.#take();
      try {
        return await this.#ask(worker, path);
      } finally {
        this.#release(worker);
      }
    });
  }

  /** Ends the threads; files still being hashed have a `reason` then. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#idle, ...this.#busy].map((worker) => worker.terminate()));
  }

  #take(): Worker {
    const [idle] = this.#idle;
    const worker = idle ?? this.#start();
    this.#idle.delete(worker);
    this.#busy.add(worker);
    worker.ref();
    return worker;
  }

  #start(): Worker {
    const resourceLimits = { maxOldGenerationSizeMb: WORKER_HEAP_MIB };
    const worker = startWorker(import.meta.url, 'package-hash-worker', { resourceLimits });
    worker.on('exit', () => {
      this.#idle.delete(worker);
      this.#busy.delete(worker);
    });
    // Without a listener, a thread that dies would take the process with it. Whoever waits hears of it by `exit`.
    worker.on('error', () => {});
    return worker;
  }

  #release(worker: Worker): void {
    if (!this.#busy.delete(worker)) return;
    worker.unref();
    this.#idle.add(worker);
  }

  async #ask(worker: Worker, path: string): Promise<PackageHash> {
    let timer: NodeJS.Timeout | undefined;
    let reason = 'the thread that was hashing it ended';
    const onError = (error: Error) => {
      reason = error.message;
    };
    let onExit = () => {};
    let onMessage = (_: HashOutcome) => {};
    const outcome = await new Promise<HashOutcome>((resolve) => {
      onExit = () => resolve({ reason });
      onMessage = resolve;
      worker.on('error', onError).on('exit', onExit).on('message', onMessage);
      timer = setTimeout(() => {
        // Not waited for: a thread that hangs on its disk does not end before the disk answers.
        this.#busy.delete(worker);
        void worker.terminate();
        resolve({ reason: `it took longer than ${this.#timeLimitMs / 1000} s` });
      }, this.#timeLimitMs);
      worker.postMessage(path);
    });
    clearTimeout(timer);
    worker.off('error', onError).off('exit', onExit).off('message', onMessage);
    if ('reason' in outcome) return outcome;
    const { hash, unpacked } = outcome;
    return { hash: parseHash(hash), ...(unpacked !== undefined && { unpacked: parseHash(unpacked) }) };
  }
}
