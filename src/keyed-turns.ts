/**
 * Lets work of the same key go one at a time, in the order in which it came; work of other keys does not wait for it.
 * What fails holds nobody up. Nothing is remembered of keys of which nothing is under way.
 */
export class KeyedTurns {
  /** The last that is under way, by key: each begins when the one before is done. */
  readonly #last = new Map<string, Promise<unknown>>();

  /** How many keys have work under way. */
  get size(): number {
    return this.#last.size;
  }

  /** @returns what the work returns. @throws what the work throws */
  async take<T>(key: string, work: () => Promise<T>): Promise<T> {
    const current = (this.#last.get(key) ?? Promise.resolve()).then(work);
    const settled = current.catch(() => {});
    this.#last.set(key, settled);
    try {
      return await current;
    } finally {
      if (this.#last.get(key) === settled) this.#last.delete(key);
    }
  }
}
