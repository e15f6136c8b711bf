import type { Logger } from '../../logger.ts';
import { paths } from '../keys.ts';
import type { Bucket } from './bucket.ts';

/** No download takes this long: what is older was left by a process that died. */
const ABANDONED_AFTER_MS = 24 * 3_600_000;
const SWEEP_INTERVAL_MS = 24 * 3_600_000;
/** Nothing else is uploaded in parts. A bucket without a prefix may hold what is other people's. */
const OURS = [`${paths.providers}/`, `${paths.modules}/`];

/** Keeps a bucket in order, in the background: nothing waits for it. */
export class BucketWatch {
  readonly #bucket: Bucket;
  readonly #logger: Logger;
  #running: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(deps: { bucket: Bucket; logger: Logger }) {
    this.#bucket = deps.bucket;
    this.#logger = deps.logger;
  }

  /** Says whether the bucket can be reached, and aborts uploads that dead processes left, now and every day. */
  begin(): void {
    this.#timer = setInterval(() => this.#begin(), SWEEP_INTERVAL_MS).unref();
    this.#begin();
  }

  /** Begins nothing more. Resolves when nothing is under way. */
  async settled(): Promise<void> {
    this.#isOver = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  #begin(): void {
    this.#running = this.#look();
  }

  async #look(): Promise<void> {
    try {
      await this.#bucket.check();
    } catch (error) {
      if (!this.#isOver) this.#logger.error('the bucket cannot be used', { error });
      return;
    }
    try {
      await this.#sweep();
    } catch (error) {
      // Not every server can list them, and not every key may.
      if (!this.#isOver) this.#logger.info('unfinished uploads in the bucket cannot be swept', { error });
    }
  }

  async #sweep(): Promise<void> {
    for (const prefix of OURS) {
      for await (const { key, id, begunAt } of this.#bucket.uploads.list(prefix)) {
        if (this.#isOver) return;
        if (Date.now() - begunAt.getTime() < ABANDONED_AFTER_MS) continue;
        await this.#bucket.uploads.abort(key, id);
        this.#logger.info('aborted an upload that a dead process left', { key });
      }
    }
  }
}
