/** Runs at most one `load` per key at a time; late callers share its promise, hence its value or its error. */
export class SingleFlight<T> {
  readonly #inFlight = new Map<string, Promise<T>>();

  /** Nobody who waits can cancel it for the others. A `load` that throws before its first `await` rejects all the same. */
  run(key: string, load: () => Promise<T>): Promise<T> {
    const current = this.#inFlight.get(key);
    if (current) return current;
    const started = (async () => load())().finally(() => this.#inFlight.delete(key));
    this.#inFlight.set(key, started);
    return started;
  }

  has(key: string): boolean {
    return this.#inFlight.has(key);
  }

  /** Of loads that run now. */
  get size(): number {
    return this.#inFlight.size;
  }
}
