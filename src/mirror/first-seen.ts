import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import { KeyedTurns } from '../keyed-turns.ts';
import type { Logger } from '../logger.ts';
import { metadataKeys } from '../store/keys.ts';
import type { MetadataStore } from '../store/metadata-store.ts';

/** As long as a store keeps anything: what is forgotten counts as old when it is seen again. */
const KEEP_MS = 10 * 365 * 24 * 3_600_000;
const MAX_REMEMBERED = 2_000;

/** What was there already at the first look, and may be of any age. */
export const OF_ANY_AGE = 0;
/** The same, and upstream does not tell its age either. */
const OF_UNTOLD_AGE = 1;

/** By version, milliseconds since the epoch. */
export type Sightings = ReadonlyMap<string, number>;

const storedSightings = z.record(z.string(), z.number().nonnegative());

/**
 * Remembers when versions were first seen here, across restarts and for all replicas.
 *
 * Nothing is known of the ages of what is there at the very first look at an address, and it counts as old until upstream
 * says otherwise: else everything would be away for everybody from the day on which ages are first asked for. The same holds where the store
 * has lost its memory, or does not answer and this process remembers nothing itself.
 */
export class FirstSeen {
  readonly #store: Pick<MetadataStore, 'get' | 'put'>;
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #memory = new LRUCache<string, Map<string, number>>({ max: MAX_REMEMBERED });
  /** What could not be put into the store yet. */
  readonly #unsaved = new Set<string>();
  /** One at a time by address: each reads what the one before has written. */
  readonly #turns = new KeyedTurns();

  constructor(deps: { store: Pick<MetadataStore, 'get' | 'put'>; logger: Logger; now?: (() => number) | undefined }) {
    this.#store = deps.store;
    this.#logger = deps.logger;
    this.#now = deps.now ?? Date.now;
  }

  /** When each of these was first seen, which may be now. `undefined` while nothing can be told of any. */
  async note(address: MirroredAddress, versions: readonly string[]): Promise<Sightings | undefined> {
    const key = metadataKeys.firstSeen(address);
    const known = this.#memory.get(key);
    if (known && !this.#unsaved.has(key) && versions.every((version) => known.has(version))) return known;
    return this.#inTurn(key, (sightings) => {
      // What is there at the first look may be of any age.
      const at = sightings.size === 0 ? OF_ANY_AGE : this.#now();
      for (const version of versions) if (!sightings.has(version)) sightings.set(version, at);
    });
  }

  /** When upstream published a version, if it says so: it may be older than it was seen here. */
  async tell(address: MirroredAddress, version: string, publishedAt: number | undefined): Promise<void> {
    await this.#inTurn(metadataKeys.firstSeen(address), (sightings) => {
      const seen = sightings.get(version);
      if (seen === OF_ANY_AGE) sightings.set(version, Math.max(publishedAt ?? OF_UNTOLD_AGE, OF_UNTOLD_AGE));
      else if (seen !== undefined) sightings.set(version, Math.min(publishedAt ?? seen, seen));
    });
  }

  #inTurn(key: string, change: (sightings: Map<string, number>) => void): Promise<Sightings | undefined> {
    return this.#turns.take(key, () => this.#change(key, change));
  }

  /** Never rejects. */
  async #change(key: string, change: (sightings: Map<string, number>) => void): Promise<Sightings | undefined> {
    const remembered = this.#memory.get(key);
    let stored: Record<string, number> = {};
    try {
      stored = storedSightings.safeParse((await this.#store.get(key))?.value).data ?? {};
    } catch (error) {
      this.#logger.warn('what is known of the age of versions cannot be read', { key, error });
      if (!remembered) return undefined;
    }
    // Another replica may have seen it earlier, or this one while the store was away.
    const sightings = new Map(remembered);
    for (const [version, at] of Object.entries(stored)) {
      sightings.set(version, earlier(at, sightings.get(version) ?? at));
    }
    change(sightings);
    this.#memory.set(key, sightings);
    const isSaved = [...sightings].every(([version, at]) => stored[version] === at);
    if (isSaved) this.#unsaved.delete(key);
    else await this.#save(key, sightings);
    return sightings;
  }

  async #save(key: string, sightings: Sightings): Promise<void> {
    this.#unsaved.add(key);
    try {
      await this.#store.put(key, { value: Object.fromEntries(sightings), fetchedAt: this.#now() }, KEEP_MS);
      this.#unsaved.delete(key);
    } catch (error) {
      this.#logger.warn('what is known of the age of versions cannot be kept', { key, error });
    }
  }
}

/** A date that is known says more than none. */
function earlier(one: number, other: number): number {
  if (one === OF_ANY_AGE || other === OF_ANY_AGE) return Math.max(one, other);
  return Math.min(one, other);
}
