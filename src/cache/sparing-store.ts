import type { Logger } from '../logger.ts';
import type { MetadataEntry, MetadataStore } from '../store/metadata-store.ts';

/** How long a store that failed to answer is left alone: each try may cost its whole time limit. */
const REST_MS = 1_000;
/** One log line for this long of trouble. */
const LOG_INTERVAL_MS = 60_000;

/**
 * The metadata store as the cache wants it: a failing store is a store that knows nothing, and nobody waits for a
 * write. While reads fail, one in a second is tried and the others are spared the wait.
 */
export class SparingStore {
  readonly #store: MetadataStore;
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #pending = new Set<Promise<void>>();
  #restUntil = Number.NEGATIVE_INFINITY;
  #silentUntil = Number.NEGATIVE_INFINITY;
  #failures = 0;

  constructor(deps: { store: MetadataStore; logger: Logger; now: () => number }) {
    this.#store = deps.store;
    this.#logger = deps.logger;
    this.#now = deps.now;
  }

  /** Operations that failed, since the beginning. */
  get failures(): number {
    return this.#failures;
  }

  /** `undefined` also when the store does not answer. Never rejects. */
  async get(key: string): Promise<MetadataEntry | undefined> {
    if (this.#isResting()) return undefined;
    // The one that tries after a rest tries alone.
    if (this.#restUntil !== Number.NEGATIVE_INFINITY) this.#restUntil = this.#now() + REST_MS;
    try {
      const entry = await this.#store.get(key);
      this.#restUntil = Number.NEGATIVE_INFINITY;
      return entry;
    } catch (error) {
      this.#restUntil = this.#now() + REST_MS;
      this.#note('read', error);
      return undefined;
    }
  }

  /** Returns at once. Tried also while reads rest: it costs nobody anything, and the store may be back. */
  put(key: string, entry: MetadataEntry, keepForMs: number): void {
    this.#detach('write', async () => this.#store.put(key, entry, keepForMs));
  }

  /** Resolves when it was tried; a failure is logged like any other. */
  delete(key: string): Promise<void> {
    return this.#detach('delete', async () => this.#store.delete(key));
  }

  /** Resolves when every write begun so far is done or has failed. */
  async flush(): Promise<void> {
    await Promise.all(this.#pending);
  }

  #detach(operation: string, run: () => Promise<void>): Promise<void> {
    const running = run()
      .catch((error: unknown) => this.#note(operation, error))
      .finally(() => this.#pending.delete(running));
    this.#pending.add(running);
    return running;
  }

  #isResting(): boolean {
    const left = this.#restUntil - this.#now();
    // More than a rest ahead: the clock was set back.
    return left > 0 && left <= REST_MS;
  }

  #note(operation: string, error: unknown): void {
    this.#failures += 1;
    const now = this.#now();
    if (now < this.#silentUntil && this.#silentUntil - now <= LOG_INTERVAL_MS) return;
    this.#silentUntil = now + LOG_INTERVAL_MS;
    const level = this.#store.tellsTrouble ? 'debug' : 'warn';
    this.#logger[level]('the metadata store fails: answers come from memory and upstream meanwhile', {
      operation,
      failures: this.#failures,
      error,
    });
  }
}
