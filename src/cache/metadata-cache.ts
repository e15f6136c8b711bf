import { LRUCache } from 'lru-cache';
import { Changes } from '../changes.ts';
import { hasCode, isUnreachable, type LarderError, UpstreamUnreachable } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { MetadataEntry, MetadataStore } from '../store/metadata-store.ts';
import { settledWithin } from '../time-limit.ts';
import {
  absent,
  answer,
  type Known,
  MAX_CLOCK_SKEW_MS,
  type MetadataKind,
  type MetadataRead,
  newest,
  present,
  recalled,
  stale,
} from './known-metadata.ts';
import { LookUps } from './look-ups.ts';
import { SingleFlight } from './single-flight.ts';
import { SparingStore } from './sparing-store.ts';

export type { MetadataKind, MetadataRead } from './known-metadata.ts';

const DEFAULT_MEMORY_BYTES = 64 * 1024 * 1024;
const DEFAULT_ENTRIES = 20_000;
const DEFAULT_RETRY_STALE_AFTER_MS = 2_000;
/** A load that nobody waits for any more may take this many deadlines: its result serves the next reader. */
const LOAD_DEADLINES = 4;
/** With a stale answer at hand a reader waits this part of the deadline for a better one. */
const STALE_PATIENCE = 1 / 4;

export interface ReadOptions {
  /** An entry fetched before this instant counts as not fresh. Milliseconds since the epoch. */
  readonly notBefore?: number;
  /** Named in the error when the deadline passes. */
  readonly host?: string;
}

/**
 * Metadata that changes upstream. Fresh: from memory, or from the store where another replica may have put it. Older:
 * asked for again, once for all who wait. No usable answer: what was last known, for as long as it may be kept.
 */
export class MetadataCache {
  readonly lookUps = new LookUps();
  readonly #store: SparingStore;
  readonly #now: () => number;
  readonly #deadlineMs: number;
  readonly #retryStaleAfterMs: number;
  readonly #memory: LRUCache<string, Known>;
  readonly #changes: Changes;
  readonly #tellOthers: (key: string) => Promise<void>;
  readonly #recalls = new SingleFlight<Known | undefined>();
  readonly #refreshes = new SingleFlight<Known>();
  /** Calls of `forget`. What was under way meanwhile is not kept: it may be what was to be forgotten. */
  #forgets = 0;
  /** Ends each running load. */
  readonly #loads = new Set<() => void>();
  #closed = false;

  constructor(deps: {
    /** Stays open when the cache is closed. */
    store: MetadataStore;
    logger: Logger;
    /** Told of what is learnt and forgotten. */
    changes?: Changes;
    /** Tells other processes that remember what the store has, too, what to forget. Never rejects. */
    tellOthers?: ((key: string) => Promise<void>) | undefined;
    now?: () => number;
    /** How long a reader waits for a load at most, store look-up included. */
    deadlineMs: number;
    /** Bound of the memory, counted in encoded form. */
    memoryBytes?: number;
    entries?: number;
    /** After upstream gave no usable answer, how long the stale entry is served without asking again. */
    retryStaleAfterMs?: number;
  }) {
    this.#now = deps.now ?? Date.now;
    this.#store = new SparingStore({ store: deps.store, logger: deps.logger, now: this.#now });
    this.#deadlineMs = deps.deadlineMs;
    this.#changes = deps.changes ?? new Changes();
    this.#tellOthers = deps.tellOthers ?? (async () => {});
    this.#retryStaleAfterMs = deps.retryStaleAfterMs ?? DEFAULT_RETRY_STALE_AFTER_MS;
    this.#memory = new LRUCache<string, Known>({
      max: deps.entries ?? DEFAULT_ENTRIES,
      maxSize: deps.memoryBytes ?? DEFAULT_MEMORY_BYTES,
      sizeCalculation: (known, key) => known.size + key.length,
    });
  }

  /** Store operations that failed, since the beginning. */
  get storeFailures(): number {
    return this.#store.failures;
  }

  /**
   * `load` asks upstream. It runs detached: a reader whose deadline passes gets an error (or what is stale), the load
   * goes on, and its result is there for the next one. Its signal aborts after four deadlines.
   *
   * @throws NotFound when `load` says so, now or within `absentForMs` before.
   * @throws UpstreamUnreachable when `load` says so or takes too long, and nothing usable is known.
   * @throws whatever else `load` throws.
   */
  async read<T>(
    key: string,
    kind: MetadataKind<T>,
    load: (signal: AbortSignal) => Promise<T>,
    options: ReadOptions = {},
  ): Promise<MetadataRead<T>> {
    const remembered = this.#memory.get(key);
    if (remembered && this.#isFresh(remembered, options)) {
      this.lookUps.hits += 1;
      return answer(remembered); // warm
    }
    if (remembered?.unanswered && this.#isResting(remembered)) {
      return this.#stale(remembered, remembered.unanswered.reason);
    }

    const started = performance.now();
    const known = newest(await this.#recall(key, kind), this.#memory.get(key)) ?? remembered;
    if (known && this.#isFresh(known, options)) {
      this.lookUps.hits += 1;
      return answer(known); // warm, by another replica
    }

    const usable = known && this.#isUsable(known) ? known : undefined;
    const patienceMs = this.#deadlineMs * (usable ? STALE_PATIENCE : 1);
    const became = this.#refreshes.has(key) ? 'coalesced' : 'misses';
    let refreshed: Known | undefined;
    try {
      const refreshing = this.#refreshed(key, kind, load, options);
      refreshed = await settledWithin(refreshing, patienceMs - (performance.now() - started));
    } catch (error) {
      if (usable && isNoUsableAnswer(error)) return this.#stale(usable, error);
      this.lookUps[became] += 1;
      throw error;
    }
    if (refreshed || !usable) this.lookUps[became] += 1;
    if (refreshed) return answer(refreshed); // cold
    const tooSlow = noAnswerWithin(patienceMs, options.host);
    if (!usable) throw tooSlow;
    // Who comes while the load still runs need not wait as this reader did.
    if (this.#refreshes.has(key)) usable.unanswered = { until: this.#now() + this.#loadLimitMs, reason: tooSlow };
    return this.#stale(usable, tooSlow);
  }

  /** What is known, however old, without asking upstream. */
  async peek<T>(key: string, kind: MetadataKind<T>): Promise<MetadataRead<T> | undefined> {
    const remembered = this.#memory.get(key);
    if (remembered && this.#isFresh(remembered, {})) return remembered.found as MetadataRead<T> | undefined;
    const known = newest(await this.#recall(key, kind), this.#memory.get(key)) ?? remembered;
    return known?.found as MetadataRead<T> | undefined;
  }

  /**
   * Makes the next read ask upstream, or wait for a load that is under way, of which nothing is kept. A store that fails
   * meanwhile may still remember the entry.
   */
  async forget(key: string): Promise<void> {
    this.forgetHere(key);
    await this.#store.delete(key);
    await this.#tellOthers(key);
  }

  /** The same of this process alone: the store has forgotten it already. Without a key all that is in memory. */
  forgetHere(key?: string): void {
    this.#forgets += 1;
    this.#changes.note();
    for (const one of key === undefined ? [...this.#memory.keys()] : [key]) this.#memory.delete(one);
  }

  /** Resolves when every write to the store begun so far is done or has failed. */
  async flush(): Promise<void> {
    await this.#store.flush();
  }

  /** Ends running loads and waits for the writes. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const stop of this.#loads) stop();
    await this.flush();
  }

  /** What the store knows, taken into memory when it is news. A store that fails knows nothing. */
  #recall<T>(key: string, kind: MetadataKind<T>): Promise<Known | undefined> {
    return this.#recalls.run(key, async () => {
      const forgets = this.#forgets;
      const entry = await this.#store.get(key);
      const known = entry && recalled(entry, kind, this.#now());
      if (!known || forgets !== this.#forgets) return undefined;
      if (newest(known, this.#memory.get(key)) === known) this.#memory.set(key, known);
      return known;
    });
  }

  async #refreshed<T>(
    key: string,
    kind: MetadataKind<T>,
    load: (signal: AbortSignal) => Promise<T>,
    { notBefore = Number.NEGATIVE_INFINITY, host }: ReadOptions,
  ): Promise<Known> {
    const joins = this.#refreshes.has(key);
    const refresh = () => this.#refreshes.run(key, () => this.#refresh(key, kind, load, host));
    const known = await refresh();
    // A load that was under way already may have begun too early for this reader.
    return joins && known.fetchedAt < notBefore ? refresh() : known;
  }

  async #refresh<T>(
    key: string,
    kind: MetadataKind<T>,
    load: (signal: AbortSignal) => Promise<T>,
    host: string | undefined,
  ): Promise<Known> {
    // Of the beginning: upstream may have looked at its data at once and been slow to send it.
    const fetchedAt = this.#now();
    const forgets = this.#forgets;
    let kept: { known: Known; entry: MetadataEntry };
    try {
      kept = present(await this.#limited(load, host), fetchedAt, kind);
    } catch (error) {
      if (!hasCode(error, 'NOT_FOUND')) {
        this.#noteUnanswered(key, error);
        throw error;
      }
      kept = absent(error, fetchedAt, kind);
    }
    const { known, entry } = kept;
    if (this.#closed || forgets !== this.#forgets) return known;
    this.#memory.set(key, known);
    this.#changes.note();
    if (known.keepForMs > 0) this.#store.put(key, entry, known.keepForMs);
    return known;
  }

  /** Ends after four deadlines also when `load` does not listen to its signal. */
  async #limited<T>(load: (signal: AbortSignal) => Promise<T>, host: string | undefined): Promise<T> {
    const controller = new AbortController();
    const { signal } = controller;
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    const timer = setTimeout(() => controller.abort(noAnswerWithin(this.#loadLimitMs, host)), this.#loadLimitMs);
    timer.unref();
    const stop = () => {
      controller.abort(new UpstreamUnreachable(host ?? UNNAMED, 'connection', 'was given up: Larder is stopping'));
    };
    this.#loads.add(stop);
    try {
      return await Promise.race([load(signal), aborted]);
    } finally {
      clearTimeout(timer);
      this.#loads.delete(stop);
    }
  }

  #stale<T>(known: Known, reason: LarderError): MetadataRead<T> {
    this.lookUps.stale += 1;
    return stale(known, reason);
  }

  #noteUnanswered(key: string, reason: unknown): void {
    const known = this.#memory.get(key);
    if (!known) return;
    delete known.unanswered;
    if (isNoUsableAnswer(reason)) known.unanswered = { until: this.#now() + this.#retryStaleAfterMs, reason };
  }

  #isFresh({ fetchedAt, freshForMs }: Known, { notBefore }: ReadOptions): boolean {
    if (notBefore !== undefined && fetchedAt < notBefore) return false;
    const age = this.#now() - fetchedAt;
    return age >= -MAX_CLOCK_SKEW_MS && age < freshForMs;
  }

  #isUsable({ found, fetchedAt, keepForMs }: Known): boolean {
    return found !== undefined && this.#now() - fetchedAt < keepForMs;
  }

  #isResting(known: Known): boolean {
    const left = (known.unanswered?.until ?? 0) - this.#now();
    // More than was ever set: the clock was put back.
    return left > 0 && left <= Math.max(this.#loadLimitMs, this.#retryStaleAfterMs) && this.#isUsable(known);
  }

  get #loadLimitMs(): number {
    return this.#deadlineMs * LOAD_DEADLINES;
  }
}

const UNNAMED = 'the upstream';

/** Nothing that could be believed came back. Absent, refused and corrupt are answers. */
function isNoUsableAnswer(error: unknown): error is LarderError {
  return isUnreachable(error) || hasCode(error, 'UPSTREAM_INVALID');
}

function noAnswerWithin(ms: number, host = UNNAMED): UpstreamUnreachable {
  return new UpstreamUnreachable(host, 'timeout', `has not answered within ${ms / 1000} s`);
}
