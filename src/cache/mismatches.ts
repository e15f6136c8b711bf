import { LRUCache } from 'lru-cache';
import type { ProviderArchive } from '../address/archive.ts';
import type { Sha256 } from '../address/hash.ts';
import type { IntegrityMismatch } from '../errors.ts';

/** How long nobody tries again, in milliseconds: whoever runs a command anew by hand finds it tried. */
const DEFAULT_KEEP_MS = 3_000;
const MAX_ARCHIVES = 1_000;

interface Mismatch {
  readonly archive: ProviderArchive;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly promised: Sha256;
  readonly error: IntegrityMismatch;
}

/**
 * Archives that came with other bytes than were promised. For some seconds everybody gets that error, instead of each
 * costing upstream a whole download for it; unless something else is promised by then.
 */
export class Mismatches {
  readonly #byArchive = new LRUCache<string, Mismatch>({ max: MAX_ARCHIVES });
  readonly #keepMs: number;

  constructor({ keepMs = DEFAULT_KEEP_MS }: { keepMs?: number | undefined } = {}) {
    this.#keepMs = keepMs;
  }

  note(archive: ProviderArchive, promised: Sha256, error: IntegrityMismatch): void {
    this.#byArchive.set(archive.toString(), { archive, at: Date.now(), promised, error });
  }

  /** @throws IntegrityMismatch of the last download, when that was promised the same just now */
  demandNone(archive: ProviderArchive, promised: Sha256): void {
    const last = this.#byArchive.get(archive.toString());
    if (last?.promised !== promised) return;
    const age = Date.now() - last.at;
    // Less than nothing: the clock was set back.
    if (age >= 0 && age < this.#keepMs) throw last.error;
  }

  /** Of these the next download is tried. */
  forget(isMeant: (archive: ProviderArchive) => boolean): void {
    for (const [key, { archive }] of [...this.#byArchive.entries()]) if (isMeant(archive)) this.#byArchive.delete(key);
  }
}
