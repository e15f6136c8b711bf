import { LRUCache } from 'lru-cache';
import type { Logger } from '../logger.ts';
import { settledWithin } from '../time-limit.ts';
import { MarkerFiles, type UseMarkers } from './use-markers.ts';

/** How often what is noted in memory is written down. */
const FLUSH_INTERVAL_MS = 60_000;
/** How long the end waits for what is still to be written down. */
const CLOSE_PATIENCE_MS = 10_000;
/** Times kept in memory besides those that wait to be written. */
const MAX_REMEMBERED = 50_000;

/**
 * When archives and packages were last used. Noting a use costs no more than a look into a map; every minute the new
 * ones are written down, of each file no more often than anybody needs to know, and all of them at the end.
 */
export class LastUses {
  readonly #markers: UseMarkers;
  readonly #logger: Logger;
  readonly #isWritten: boolean;
  readonly #now: () => number;
  /** Not written down yet, by path. */
  readonly #pending = new Map<string, number>();
  /** As written down by this process. */
  readonly #written = new LRUCache<string, number>({ max: MAX_REMEMBERED });
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();

  constructor(deps: {
    directory: string;
    /** Where they are written down, if not in the directory. */
    markers?: UseMarkers | undefined;
    logger: Logger;
    /** Without, uses are forgotten with the process. */
    isWritten?: boolean;
    now?: () => number;
  }) {
    this.#markers = deps.markers ?? new MarkerFiles(deps);
    this.#logger = deps.logger;
    this.#isWritten = deps.isWritten ?? true;
    this.#now = deps.now ?? Date.now;
  }

  /** Used now. */
  note(path: string): void {
    if (!this.#isWritten) {
      this.#written.set(path, this.#now());
      return;
    }
    this.#pending.set(path, this.#now());
    this.#timer ??= setInterval(() => void this.flush(), FLUSH_INTERVAL_MS).unref();
  }

  /** What this process knows of it without looking at the disk, in milliseconds since 1970. Never in the future. */
  remembered(path: string): number | undefined {
    const at = this.#pending.get(path) ?? this.#written.get(path);
    return at !== undefined && at > this.#now() ? this.#setBack(path) : at;
  }

  /** The latest use that any process has written down, or that this one remembers. Never in the future. @throws StorageFailed */
  async of(path: string, storedAt: Date): Promise<Date> {
    const written = (await this.#markers.read(path)) ?? 0;
    const remembered = this.remembered(path);
    // Once only: what is remembered from then on is better.
    const latest = written > this.#now() ? (remembered ?? this.#setBack(path)) : Math.max(written, remembered ?? 0);
    return new Date(Math.min(Math.max(latest, storedAt.getTime()), this.#now()));
  }

  /** It is not stored any more. Never rejects: what is left of it only says when it was used once. */
  async forget(path: string): Promise<void> {
    this.#pending.delete(path);
    this.#written.delete(path);
    await this.#markers.remove(path).catch(() => {});
  }

  /** Writes down what is due, or all. Never rejects. */
  flush({ all = false }: { all?: boolean } = {}): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#flush(all));
    return this.#flushing;
  }

  /** Writes down everything, or what there is time for. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await settledWithin(this.flush({ all: this.#markers.areCheap }), CLOSE_PATIENCE_MS);
  }

  /** A clock was set back since: it would be the last one used for as long as that was ahead. Found out now, it was used now. */
  #setBack(path: string): number {
    this.note(path);
    return this.#now();
  }

  async #flush(all: boolean): Promise<void> {
    for (const [path, at] of [...this.#pending]) {
      const before = this.#written.get(path);
      // In both directions: a clock may be set back.
      if (!all && before !== undefined && Math.abs(at - before) < this.#markers.precisionMs) continue;
      try {
        await this.#markers.write(path, new Date(at));
      } catch (error) {
        this.#logger.warn('when archives are used could not be written down, and is tried again in a minute', {
          error,
        });
        return;
      }
      this.#written.set(path, at);
      // Unless it was used again meanwhile.
      if (this.#pending.get(path) === at) this.#pending.delete(path);
    }
  }
}
