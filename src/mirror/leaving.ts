import { setMaxListeners } from 'node:events';
import { unlessAborted } from '../time-limit.ts';

/** Why something is left before its end. */
export type WayOut = 'cancelled' | 'handed over' | 'lost';

/** Whether something that goes on for long is to be left before its end. What is under way then is not broken off. */
export class Leaving {
  readonly #abort = new AbortController();
  #how: WayOut | undefined;

  /** @param listeners so many may wait at a time */
  constructor({ listeners }: { listeners: number }) {
    setMaxListeners(listeners, this.#abort.signal);
  }

  /** As it was said first; `undefined` as long as it is to go on. */
  get how(): WayOut | undefined {
    return this.#how;
  }

  /** Aborted when it is to be left. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  leave(how: WayOut): void {
    this.#how ??= how;
    this.#abort.abort();
  }

  /** What becomes of the work, or `undefined` when it is to be left first: nobody hears then how it ends. */
  async unlessLeft<T>(work: Promise<T>): Promise<T | undefined> {
    const { signal } = this.#abort;
    work.catch(() => {});
    try {
      return await unlessAborted(work, signal);
    } catch (error) {
      if (signal.aborted && error === signal.reason) return undefined;
      throw error;
    }
  }
}
