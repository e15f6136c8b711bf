import type { Logger } from './logger.ts';

/** What has been opened so far. Closed in reverse order; what cannot be closed does not keep the rest open. */
export class Closers {
  readonly #logger: Logger;
  readonly #closers: { what: string; close: () => unknown }[] = [];

  constructor({ logger }: { logger: Logger }) {
    this.#logger = logger;
  }

  add(what: string, close: () => unknown): void {
    this.#closers.push({ what, close });
  }

  /** Never rejects. The second call does nothing. */
  async close(): Promise<void> {
    for (let next = this.#closers.pop(); next; next = this.#closers.pop()) {
      try {
        await next.close();
      } catch (error) {
        this.#logger.error('could not be closed', { what: next.what, error });
      }
    }
  }
}
