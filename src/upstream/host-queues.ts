import { LRUCache } from 'lru-cache';
import pLimit, { type LimitFunction } from 'p-limit';
import { deadlineFailure } from './failures.ts';

/** Forgetting a queue that is in use only lets a few requests more through. */
const MAX_QUEUES = 1_000;

/** How many requests wait for one host. */
export interface HostQueueState {
  /** `HOST[:PORT]` */
  readonly host: string;
  readonly waiting: number;
}

/** Small requests take turns at their host, so many at a time: forges throttle clients by address. */
export class HostQueues {
  readonly #concurrency: number;
  /** By origin. */
  readonly #queues = new LRUCache<string, LimitFunction>({ max: MAX_QUEUES });

  /** @param deps.concurrency requests under way at one origin */
  constructor({ concurrency }: { concurrency: number }) {
    this.#concurrency = concurrency;
  }

  /**
   * Runs the task when its turn has come.
   * @throws UpstreamUnreachable (a time-out) when the signal aborts before; what the task throws
   */
  async take<T>(url: URL, signal: AbortSignal, task: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(url.origin) ?? pLimit(this.#concurrency);
    this.#queues.set(url.origin, queue);
    // Once the task runs it minds the signal itself; while it waits for its turn, nobody else would.
    let giveUp = () => {};
    const impatience = new Promise<never>((_, reject) => {
      giveUp = () => reject(deadlineFailure(url.host, signal.reason));
      signal.addEventListener('abort', giveUp, { once: true });
    });
    const turn = queue(() => {
      signal.removeEventListener('abort', giveUp);
      if (signal.aborted) throw deadlineFailure(url.host, signal.reason);
      return task();
    });
    return Promise.race([turn, impatience]);
  }

  /** Hosts at which somebody waits. */
  states(): readonly HostQueueState[] {
    return [...this.#queues]
      .filter(([, { pendingCount }]) => pendingCount > 0)
      .map(([origin, { pendingCount }]) => ({ host: new URL(origin).host, waiting: pendingCount }));
  }
}
