import pLimit from 'p-limit';
import type { LarderError } from '../errors.ts';
import { settledWithin } from '../time-limit.ts';

/** Work that belongs to nobody who waits for it: it goes on when they hang up. */
export interface DetachedRun {
  /** Called once, when its turn has come, also after `abort`. Resolves when nothing of it is left. Never rejects. */
  run(): Promise<void>;
  /** Gives up, begun or not; everybody who waits gets `reason`. */
  abort(reason: LarderError): void;
}

/**
 * Runs that are detached from whoever asked for them: one per key, which all join who ask for the same, and so many at a
 * time as are allowed; further ones wait for their turn. In the end they are waited for, and then broken off.
 */
export class DetachedRuns<R extends DetachedRun> {
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #shuttingDown: (run: R) => LarderError;
  readonly #underWay = new Map<string, R>();
  /** Ends of runs: of those that wait for their turn, too, and of those that only clear away what they left. */
  readonly #ends = new Set<Promise<void>>();
  #closed = false;

  constructor(deps: {
    /** At a time; further ones wait for their turn. */
    concurrent: number;
    /** What those get who wait for a run when there is no going on. */
    shuttingDown: (run: R) => LarderError;
  }) {
    this.#limit = pLimit(deps.concurrent);
    this.#shuttingDown = deps.shuttingDown;
  }

  /** Runs that are under way or wait for their turn. */
  get size(): number {
    return this.#underWay.size;
  }

  /** Those that wait for their turn. */
  get waiting(): number {
    return this.#limit.pendingCount;
  }

  /** The run that is under way, or waits for its turn. */
  get(key: string): R | undefined {
    return this.#underWay.get(key);
  }

  /** Those that are under way or wait for their turn. */
  get all(): readonly R[] {
    return [...this.#underWay.values()];
  }

  /**
   * The run that is under way, or a new one. After `close` a new one is broken off before it begins.
   * @param begin makes it; it calls `onEnd` once its outcome is known, before it tells those who wait: who comes then
   *   begins another one
   */
  join(key: string, begin: (onEnd: () => void) => R): R {
    const current = this.#underWay.get(key);
    if (current) return current;
    const run = begin(() => {
      if (this.#underWay.get(key) === run) this.#underWay.delete(key);
    });
    this.#underWay.set(key, run);
    if (this.#closed) run.abort(this.#shuttingDown(run));
    const end = this.#limit(() => run.run()).finally(() => this.#ends.delete(end));
    this.#ends.add(end);
    return run;
  }

  /** Resolves when nothing runs any more, or after `timeoutMs`. */
  async drain(timeoutMs: number): Promise<void> {
    const until = performance.now() + timeoutMs;
    while (this.#ends.size > 0 && performance.now() < until) {
      await settledWithin(Promise.all(this.#ends), until - performance.now());
    }
  }

  /** Gives up what runs now, and what waits. Everybody who waits gets the reason. Resolves when nothing of it is left. */
  async breakOff(reason: (run: R) => LarderError): Promise<void> {
    for (const run of this.#underWay.values()) run.abort(reason(run));
    await Promise.all(this.#ends);
  }

  /** Gives up what still runs, and all that comes. Resolves when nothing of it is left. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.breakOff(this.#shuttingDown);
  }
}
