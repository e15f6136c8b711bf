/** What is being read at the moment, by path: it is not evicted under its readers. */
export class Holds {
  readonly #counts = new Map<string, number>();
  readonly #waiting = new Set<() => void>();

  /** Something is read from now on. @returns ends it; further calls do nothing */
  hold(path: string): () => void {
    this.#counts.set(path, (this.#counts.get(path) ?? 0) + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const left = (this.#counts.get(path) ?? 1) - 1;
      if (left > 0) this.#counts.set(path, left);
      else this.#counts.delete(path);
      for (const wake of this.#waiting) wake();
    };
  }

  has(path: string): boolean {
    return this.#counts.has(path);
  }

  /** How many different files are being read. */
  get size(): number {
    return this.#counts.size;
  }

  /** Resolves when something is let go of, or after `timeoutMs`. */
  async released(timeoutMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, timeoutMs);
      this.#waiting.add(wake);
    });
  }
}
