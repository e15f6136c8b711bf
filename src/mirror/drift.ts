import type { ProviderArchive } from '../address/archive.ts';
import type { Sha256 } from '../address/hash.ts';
import type { Logger } from '../logger.ts';

/** An archive of which upstream published other bytes than it first did, under the same version. */
export interface Drift {
  readonly archive: ProviderArchive;
  /** What was seen first, and is the only thing served. */
  readonly first: Sha256;
  /** What upstream says now. */
  readonly published: Sha256;
  readonly noticedAt: Date;
}

/** More than this many at a time is not drift but another registry under an old name. */
const MAX_REPORTS = 10_000;

/** Every drift that was noticed since the start, each once: for the log, the metrics and the inventory. */
export class DriftReports {
  readonly #reports = new Map<string, Drift>();
  readonly #logger: Logger;
  readonly #now: () => number;

  constructor({ logger, now = Date.now }: { logger: Logger; now?: () => number }) {
    this.#logger = logger;
    this.#now = now;
  }

  get all(): readonly Drift[] {
    return [...this.#reports.values()];
  }

  report(archive: ProviderArchive, first: Sha256, published: Sha256): void {
    const known = this.#reports.get(archive.toString());
    if (known?.published === published || this.#reports.size >= MAX_REPORTS) return;
    this.#reports.set(archive.toString(), { archive, first, published, noticedAt: new Date(this.#now()) });
    this.#logger.warn('upstream now publishes other bytes under the same version; what was seen first is kept', {
      archive: archive.toString(),
      first,
      published,
    });
  }

  /** An operator has decided. */
  settle(archive: ProviderArchive): void {
    this.#reports.delete(archive.toString());
  }
}
