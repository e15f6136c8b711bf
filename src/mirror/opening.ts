/** Whether anything may leave, for work that goes on for so long that this changes meanwhile. */
export class Opening {
  readonly #waiting = new Set<() => void>();
  #sealing = new AbortController();

  get isSealed(): boolean {
    return this.#sealing.signal.aborted;
  }

  /** Aborted from the moment on when it is sealed, for good: once it is open again there is another one. */
  get untilSealed(): AbortSignal {
    return this.#sealing.signal;
  }

  /** Resolves when it is open. @throws the reason of `signal` */
  async untilOpen(signal: AbortSignal): Promise<void> {
    while (this.isSealed && !signal.aborted) await this.#change(signal);
    signal.throwIfAborted();
  }

  seal(): void {
    this.#sealing.abort();
  }

  unseal(): void {
    if (!this.isSealed) return;
    this.#sealing = new AbortController();
    for (const resolve of this.#waiting) resolve();
  }

  async #change(signal: AbortSignal): Promise<void> {
    let stop = () => {};
    try {
      await new Promise<void>((resolve) => {
        stop = resolve;
        this.#waiting.add(resolve);
        signal.addEventListener('abort', stop);
      });
    } finally {
      this.#waiting.delete(stop);
      signal.removeEventListener('abort', stop);
    }
  }
}
