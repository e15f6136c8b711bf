import { LRUCache } from 'lru-cache';
import type { Bucket, ListedObject } from './bucket.ts';

/** How long a listing holds, for what other replicas may have done. */
const FRESH_MS = 1_000;
const MAX_REMEMBERED = 2_000;

interface Remembered {
  readonly listing: Listing;
  /** By `performance.now()`. */
  readonly readAt: number;
}

/** What lies directly below a prefix, by name. */
export interface Listing {
  readonly objects: ReadonlyMap<string, ListedObject>;
  /** The same text for as long as nothing changes. */
  readonly identity: string;
}

/** What lies below a prefix, listed at most once a second. What this process changes shows at once. */
export class Listings {
  readonly #bucket: Bucket;
  readonly #remembered = new LRUCache<string, Remembered>({ max: MAX_REMEMBERED });
  readonly #running = new Map<string, Promise<Listing>>();
  /** Changes of our own so far: a listing that was made meanwhile may lack one of them. */
  #changes = 0;

  constructor({ bucket }: { bucket: Bucket }) {
    this.#bucket = bucket;
  }

  /** @param directory without `/` at its end. @throws StorageFailed */
  async get(directory: string): Promise<Listing> {
    const known = this.#remembered.get(directory);
    if (known && performance.now() - known.readAt < FRESH_MS) return known.listing;
    const running = this.#running.get(directory);
    if (running) return running;
    const started = this.#list(directory).finally(() => {
      if (this.#running.get(directory) === started) this.#running.delete(directory);
    });
    this.#running.set(directory, started);
    return started;
  }

  /** We have changed what is there. */
  forget(directory: string): void {
    this.#changes += 1;
    this.#remembered.delete(directory);
    this.#running.delete(directory);
  }

  async #list(directory: string): Promise<Listing> {
    const changes = this.#changes;
    const readAt = performance.now();
    const objects = new Map<string, ListedObject>();
    const identity: string[] = [];
    for await (const one of this.#bucket.list(`${directory}/`)) {
      objects.set(one.key.slice(directory.length + 1), one);
      identity.push(`${one.key} ${one.etag} ${one.size} ${one.mtime.getTime()}`);
    }
    const listing = { objects, identity: identity.join('\n') };
    if (changes === this.#changes) this.#remembered.set(directory, { listing, readAt });
    return listing;
  }
}
