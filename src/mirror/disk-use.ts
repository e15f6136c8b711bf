import { performance } from 'node:perf_hooks';
import type { LastUses } from '../store/last-uses.ts';
import { pathOf, type Subject } from '../store/room.ts';
import { storedFiles } from '../store/stored-files.ts';

/** Something that takes up room. */
export interface Occupant {
  readonly subject: Subject;
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** Milliseconds since 1970. */
  usedAt: number;
  /** When this process put it there, by `performance.now()`; minus infinity when it was there before. */
  readonly cameAt: number;
}

/**
 * How much room archives and module packages take up. Counted as they come and go, and again from the disk now and then,
 * because other processes, and people, put things there and take them away.
 */
export class DiskUse {
  readonly #directory: string;
  readonly #uses: LastUses;
  readonly #now: () => number;
  #occupants = new Map<string, Occupant>();
  #bytes = 0;
  /** What came or went while the disk is being looked at: of that we know better. */
  #changed: Set<string> | undefined;

  constructor(deps: { directory: string; uses: LastUses; now?: () => number }) {
    this.#directory = deps.directory;
    this.#uses = deps.uses;
    this.#now = deps.now ?? Date.now;
  }

  get bytes(): number {
    return this.#bytes;
  }

  came(subject: Subject, size: number): void {
    const path = pathOf(subject);
    this.#changed?.add(path);
    this.#remove(path);
    this.#occupants.set(path, { subject, path, size, usedAt: this.#now(), cameAt: performance.now() });
    this.#bytes += size;
  }

  went(subject: Subject): void {
    const path = pathOf(subject);
    this.#changed?.add(path);
    this.#remove(path);
  }

  /** Least recently used first, as far as this process knows. */
  byLastUse(): Occupant[] {
    for (const occupant of this.#occupants.values()) {
      // What is ahead of a clock that was set back was used now at the latest.
      occupant.usedAt = Math.min(Math.max(occupant.usedAt, this.#uses.remembered(occupant.path) ?? 0), this.#now());
    }
    return [...this.#occupants.values()].sort((a, b) => a.usedAt - b.usedAt);
  }

  /**
   * Looks at the whole disk. One at a time.
   * @param isWanted asked before each file; when it is not any more, everything stays as it was
   * @returns by how many bytes the count was wrong
   * @throws StorageFailed
   */
  async walk(isWanted: () => boolean = () => true): Promise<number> {
    const changed = new Set<string>();
    this.#changed = changed;
    try {
      const found = new Map<string, Occupant>();
      for await (const { subject, stats } of storedFiles(this.#directory)) {
        if (!isWanted()) return 0;
        const path = pathOf(subject);
        const usedAt = (await this.#uses.of(path, stats.mtime)).getTime();
        const cameAt = this.#occupants.get(path)?.cameAt ?? Number.NEGATIVE_INFINITY;
        found.set(path, { subject, path, size: stats.size, usedAt, cameAt });
      }
      return this.#correct(found, changed);
    } finally {
      this.#changed = undefined;
    }
  }

  #correct(found: Map<string, Occupant>, changed: ReadonlySet<string>): number {
    for (const path of changed) {
      const known = this.#occupants.get(path);
      if (known) found.set(path, known);
      else found.delete(path);
    }
    const bytes = [...found.values()].reduce((sum, { size }) => sum + size, 0);
    const wrong = Math.abs(bytes - this.#bytes);
    this.#occupants = found;
    this.#bytes = bytes;
    return wrong;
  }

  #remove(path: string): void {
    const known = this.#occupants.get(path);
    if (!known) return;
    this.#occupants.delete(path);
    this.#bytes -= known.size;
  }
}
