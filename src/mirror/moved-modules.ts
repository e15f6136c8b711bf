import { LRUCache } from 'lru-cache';
import pLimit from 'p-limit';
import type { Logger } from '../logger.ts';
import type { ModuleStore, StoredPackage } from '../store/module-store.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { DriftReports } from './drift.ts';
import { isSame, type ModuleSources } from './module-sources.ts';

/** Packages of which it is remembered when they were last looked at. */
const MAX_REMEMBERED = 10_000;
/** Checks that may wait; beyond that they are left for the next time somebody asks. */
const MAX_WAITING = 100;

/**
 * Notices when upstream moves a version that is stored: a tag that points at another commit, an archive of another
 * length. What is stored is served on; that it is no longer what upstream has is reported.
 */
export class MovedModules {
  readonly #sources: ModuleSources;
  readonly #store: ModuleStore;
  readonly #drift: DriftReports;
  readonly #everyMs: number;
  readonly #timeLimitMs: number;
  readonly #isSealed: () => boolean;
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #checked = new LRUCache<string, number>({ max: MAX_REMEMBERED });
  readonly #inTurn = pLimit(1);
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<void>>();

  constructor(deps: {
    sources: ModuleSources;
    store: ModuleStore;
    drift: DriftReports;
    /** No package is looked at more often, in milliseconds. */
    everyMs: number;
    /** For one look, which may have to make the package again. */
    timeLimitMs: number;
    isSealed: () => boolean;
    logger: Logger;
    now?: () => number;
  }) {
    this.#sources = deps.sources;
    this.#store = deps.store;
    this.#drift = deps.drift;
    this.#everyMs = deps.everyMs;
    this.#timeLimitMs = deps.timeLimitMs;
    this.#isSealed = deps.isSealed;
    this.#logger = deps.logger;
    this.#now = deps.now ?? Date.now;
  }

  /** Looks in the background, when it is time to. Never throws. */
  check(upstream: Upstream, stored: StoredPackage): void {
    const key = stored.release.toString();
    const last = this.#checked.get(key) ?? stored.storedAt.getTime();
    const isTooEarly = Math.abs(this.#now() - last) < this.#everyMs;
    if (isTooEarly || this.#isSealed() || this.#closing.signal.aborted || this.#running.size >= MAX_WAITING) return;
    this.#checked.set(key, this.#now());
    const running = this.#inTurn(() => this.#look(upstream, stored)).finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Breaks off what is under way, and does not begin what waits. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#running);
  }

  async #look(upstream: Upstream, stored: StoredPackage): Promise<void> {
    const { release, sha256 } = stored;
    if (this.#closing.signal.aborted) return;
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(this.#timeLimitMs)]);
    try {
      if (!(await this.#sources.hasMoved(upstream, stored, signal))) return;
      const work = await this.#store.workDirectory();
      try {
        // Something else may still have the same content: a tag that was set again, an archive that was packed again.
        const made = await this.#sources.make(upstream, release, work.path, signal);
        if (!isSame(stored, made)) this.#drift.report(release, sha256, made.sha256);
        else if (made.fingerprint !== undefined) await this.#store.putFingerprint(release, made.fingerprint);
      } finally {
        await work.remove();
      }
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      this.#logger.debug('could not find out whether a module has moved', { module: release.toString(), error });
    }
  }
}
