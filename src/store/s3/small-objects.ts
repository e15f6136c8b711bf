import { LRUCache } from 'lru-cache';
import type { Bucket } from './bucket.ts';
import type { Condition, Written } from './bucket-requests.ts';

/** How long what was read holds without being asked for again: others write, too. */
const FRESH_MS = 2_000;
const MAX_REMEMBERED = 20_000;
const MAX_REMEMBERED_BYTES = 64 * 1024 * 1024;

interface Small {
  readonly content: Buffer;
  readonly etag: string;
}

interface Remembered {
  readonly small: Small | undefined;
  /** By `performance.now()`. */
  readonly readAt: number;
}

/** Small objects of a bucket, each whole: remembered for a moment, and later only read again when they have changed. */
export class SmallObjects {
  readonly #bucket: Bucket;
  readonly #remembered = new LRUCache<string, Remembered>({
    max: MAX_REMEMBERED,
    maxSize: MAX_REMEMBERED_BYTES,
    sizeCalculation: ({ small }) => 200 + (small?.content.length ?? 0),
  });
  /** Changes of our own so far: what was read meanwhile may be older. */
  #changes = 0;

  constructor({ bucket }: { bucket: Bucket }) {
    this.#bucket = bucket;
  }

  /**
   * `undefined` when it is not there.
   * @param etag as a list has just told it: what is remembered of that is as good as new
   * @throws StorageFailed
   */
  async get(key: string, etag?: string): Promise<Small | undefined> {
    const known = this.#remembered.get(key);
    if (known?.small && etag !== undefined && known.small.etag === etag) return known.small;
    // That it was not there holds for nobody: whoever waited for another replica looks for what that one has just put there.
    if (known?.small && etag === undefined && performance.now() - known.readAt < FRESH_MS) return known.small;
    return this.#read(key, known?.small);
  }

  /** The same, whatever is remembered: for changing it. @throws StorageFailed */
  latest(key: string): Promise<Small | undefined> {
    return this.#read(key, this.#remembered.get(key)?.small);
  }

  /** @throws StorageFailed */
  async put(key: string, content: Buffer | string, condition?: Condition): Promise<Written> {
    try {
      return await this.#bucket.write(key, content, condition);
    } finally {
      this.#forget(key);
    }
  }

  /** Absent is fine. @throws StorageFailed */
  async remove(key: string): Promise<void> {
    try {
      await this.#bucket.remove(key);
    } finally {
      this.#forget(key);
    }
  }

  async #read(key: string, known: Small | undefined): Promise<Small | undefined> {
    const changes = this.#changes;
    const readAt = performance.now();
    const found = await this.#bucket.readSmall(key, known?.etag);
    const small = found === 'unchanged' ? known : found;
    if (changes === this.#changes) this.#remembered.set(key, { small, readAt });
    return small;
  }

  #forget(key: string): void {
    this.#changes += 1;
    this.#remembered.delete(key);
  }
}
