import type { Keyv } from 'keyv';
import { StorageFailed } from '../errors.ts';
import { answeredWithin } from '../time-limit.ts';
import type { MetadataEntry, MetadataStore } from './metadata-store.ts';

/** Keyv hands the time to live to its storage, and not every storage takes `Infinity` or fractions. */
const MAX_TTL_MS = 10 * 365 * 24 * 60 * 60 * 1000;

/** Never written: asking for it shows whether the storage answers. */
const CHECK_KEY = 'check';

/**
 * Metadata in any Keyv. Adds what Keyv leaves open: a time limit for every operation, failures that are failures
 * (by default Keyv reports a broken storage as a miss), and damaged or foreign values that are misses (by default
 * Keyv throws at them).
 */
export class KeyvMetadataStore implements MetadataStore {
  readonly #keyv: Keyv;
  readonly #timeLimitMs: number;
  readonly #checking: Checking;
  readonly tellsTrouble: boolean;
  /** What is said of its failures. */
  readonly #failure: { readonly store?: 'redis' | undefined };
  #closed = false;

  /** `keyv` is this store's own from now on: its error handling and its deserializer are set, and `close` disconnects it. */
  constructor(deps: {
    keyv: Keyv;
    timeLimitMs: number;
    checking?: Checking;
    tellsTrouble?: boolean;
    /** What is in trouble when it fails, for those who are told. */
    store?: 'redis';
  }) {
    this.#keyv = deps.keyv;
    this.#timeLimitMs = deps.timeLimitMs;
    this.#checking = deps.checking ?? { what: 'metadata check', check: () => this.#keyv.get(CHECK_KEY) };
    this.#failure = { store: deps.store };
    this.tellsTrouble = deps.tellsTrouble ?? false;
    this.#keyv.throwOnErrors = true;
    // Failures reach whoever asked. Emitted as well, they would end the process for want of a listener.
    this.#keyv.opts.emitErrors = false;
    this.#keyv.deserialize = parseOrNothing as Keyv['deserialize'];
  }

  /** @throws StorageFailed when the storage fails or does not answer in time. */
  async get(key: string): Promise<MetadataEntry | undefined> {
    const stored = await this.#limited('metadata read', () => this.#keyv.get<unknown>(key));
    return isEntry(stored) ? stored : undefined;
  }

  /** @throws StorageFailed when the entry was not taken, or may not have been. */
  async put(key: string, { value, fetchedAt }: MetadataEntry, keepForMs: number): Promise<void> {
    const ttl = Math.ceil(Math.min(Math.max(keepForMs, 1), MAX_TTL_MS));
    const taken = await this.#limited('metadata write', () => this.#keyv.set(key, { value, fetchedAt }, ttl));
    if (!taken) throw new StorageFailed('metadata write', new Error('not taken'), this.#failure);
  }

  /** @throws StorageFailed when the entry may still be there. */
  async delete(key: string): Promise<void> {
    await this.#limited('metadata delete', () => this.#keyv.delete(key));
  }

  /** @throws StorageFailed when the storage fails or does not answer in time. */
  async check(): Promise<void> {
    await this.#limited(this.#checking.what, this.#checking.check);
  }

  /** Lets go of the storage. Operations after this reject instead of opening it again. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await answeredWithin(this.#keyv.disconnect(), this.#timeLimitMs);
  }

  async #limited<T>(operation: string, run: () => Promise<T>): Promise<T> {
    try {
      if (this.#closed) throw new Error('the store is closed');
      return await answeredWithin(run(), this.#timeLimitMs);
    } catch (error) {
      throw new StorageFailed(operation, error, this.#failure);
    }
  }
}

/** How it is found out whether the storage can be used. */
interface Checking {
  /** For messages: WHAT failed. */
  readonly what: string;
  check(): Promise<unknown>;
}

function parseOrNothing(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isEntry(stored: unknown): stored is MetadataEntry {
  if (typeof stored !== 'object' || stored === null || !('value' in stored)) return false;
  return Number.isFinite((stored as { fetchedAt?: unknown }).fetchedAt);
}
