import type { Worker } from 'node:worker_threads';

/** A thread costs a tenth of a second to start, and some ten megabytes for as long as it lives. */
const IDLE_MS = 30_000;

/**
 * Threads of one program, which answers each message that it is given with one of its own. Starting one takes as long as
 * most of what they are started for, so that they are kept for the next job for a while. None keeps the process alive
 * while it has nothing to do.
 */
export class Threads<Job, Outcome> {
  readonly #start: () => Worker;
  readonly #idleMs: number;
  readonly #all = new Set<Worker>();
  /** With what ends it when nothing comes. */
  readonly #idle = new Map<Worker, NodeJS.Timeout>();
  #closed = false;

  constructor(deps: { start: () => Worker; idleMs?: number }) {
    this.#start = deps.start;
    this.#idleMs = deps.idleMs ?? IDLE_MS;
  }

  /** Has one ready where there is none, for a job that will come. */
  prepare(): void {
    if (!this.#closed && this.#all.size === 0) this.#keep(this.#begin());
  }

  /**
   * Gives the job to a thread of its own.
   * @throws the reason of `signal` when that is aborted, and what went wrong when the thread ends before it has answered;
   * both when nothing of it goes on any more
   */
  async run(job: Job, signal?: AbortSignal): Promise<Outcome> {
    if (this.#closed) throw new Error('there are no threads any more');
    signal?.throwIfAborted();
    const worker = this.#take();
    let giveUp = () => {};
    let onMessage = (_: Outcome) => {};
    let onError = (_: Error) => {};
    let onExit = () => {};
    try {
      const outcome = await new Promise<Outcome>((resolve, reject) => {
        giveUp = () => reject(signal?.reason);
        onMessage = resolve;
        onError = reject;
        onExit = () => reject(new Error('its thread ended'));
        signal?.addEventListener('abort', giveUp, { once: true });
        worker.on('message', onMessage).on('error', onError).on('exit', onExit);
        worker.postMessage(job);
      });
      this.#keep(worker);
      return outcome;
    } catch (error) {
      await worker.terminate();
      throw error;
    } finally {
      signal?.removeEventListener('abort', giveUp);
      worker.off('message', onMessage).off('error', onError).off('exit', onExit);
    }
  }

  /** Ends all of them; jobs under way fail. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#idle.values()) clearTimeout(timer);
    await Promise.all([...this.#all].map((worker) => worker.terminate()));
  }

  #take(): Worker {
    const [idle] = this.#idle;
    if (!idle) return this.#begin();
    const [worker, timer] = idle;
    clearTimeout(timer);
    this.#idle.delete(worker);
    worker.ref();
    return worker;
  }

  #begin(): Worker {
    const worker = this.#start();
    this.#all.add(worker);
    worker.on('exit', () => {
      clearTimeout(this.#idle.get(worker));
      this.#idle.delete(worker);
      this.#all.delete(worker);
    });
    // Without a listener, a thread that dies would take the process with it.
    worker.on('error', () => {});
    return worker;
  }

  #keep(worker: Worker): void {
    if (this.#closed || !this.#all.has(worker)) return;
    worker.unref();
    const timer = setTimeout(() => {
      // From now on it is nobody's.
      this.#idle.delete(worker);
      void worker.terminate();
    }, this.#idleMs).unref();
    this.#idle.set(worker, timer);
  }
}
