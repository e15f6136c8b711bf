import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { LRUCache } from 'lru-cache';
import pLimit from 'p-limit';
import type { Sha256 } from '../address/hash.ts';
import { StorageFailed } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { settledWithin } from '../time-limit.ts';
import { digestOf, isSettled } from './adoption.ts';
import type { Subject } from './room.ts';
import { ifPresent } from './storage-errors.ts';

/** A file under comparison is let go of at once when this is closed, unless its disk does not answer. */
const CLOSE_PATIENCE_MS = 2_000;
const MAX_REMEMBERED = 10_000;

/** A file that was written to since its digest was known. */
export interface ChangedFile {
  readonly subject: Subject;
  readonly path: string;
  /** What it should be. */
  readonly sha256: Sha256;
  /** As it was found. */
  readonly file: Stats;
}

/** What becomes of one. */
export interface AfterComparison {
  /** Its bytes are what they were: from now on it counts as known with this time, in milliseconds since 1970. */
  note(mtimeMs: number): Promise<void>;
  /** They are not. */
  putAside(): Promise<void>;
}

interface Verdict {
  /** Of which state of the file. */
  readonly of: string;
  readonly isSame: boolean;
  /** Nothing more can be done about it. */
  readonly isFinal: boolean;
}

/**
 * Files of ours that were written to since their digest was known: restored, copied, touched, or altered. They are
 * compared with it once more before they are given out, one after the other however many there are.
 */
export class ChangedFiles {
  readonly #logger: Logger;
  readonly #patienceMs: number | undefined;
  readonly #verdicts = new LRUCache<string, Verdict>({ max: MAX_REMEMBERED });
  readonly #running = new Map<string, Promise<boolean>>();
  readonly #turns = pLimit(1);
  readonly #closing = new AbortController();

  constructor(deps: {
    logger: Logger;
    /** How long whoever asks waits, in milliseconds; until it has been compared, where nothing is said. */
    patienceMs?: number | undefined;
  }) {
    this.#logger = deps.logger;
    this.#patienceMs = deps.patienceMs;
  }

  /**
   * Whether its bytes are what they were; `false` also when it is gone. Whoever asks waits no longer than was said; the
   * comparison goes on.
   * @throws StorageFailed, `busy` when it takes longer, and when the file is written to meanwhile
   */
  async isSame(changed: ChangedFile, after: AfterComparison): Promise<boolean> {
    const known = this.#verdicts.get(changed.path);
    // What is altered is put aside as soon as nobody can still be writing it.
    if (known?.of === stateOf(changed) && (known.isFinal || !isSettled(changed.file))) return known.isSame;

    const comparison = this.#comparison(changed, after);
    if (this.#patienceMs === undefined) return comparison;
    const found = await settledWithin(comparison, this.#patienceMs);
    if (found !== undefined) return found;
    throw busy('takes longer');
  }

  /** Ends the comparison under way, which is waited for briefly; further ones are dropped. */
  async close(): Promise<void> {
    this.#closing.abort();
    await settledWithin(Promise.allSettled(this.#running.values()), CLOSE_PATIENCE_MS);
  }

  #comparison(changed: ChangedFile, after: AfterComparison): Promise<boolean> {
    const key = `${stateOf(changed)} ${changed.path}`;
    const running = this.#running.get(key);
    if (running) return running;
    const started = this.#turns(() => this.#compare(changed, after)).finally(() => this.#running.delete(key));
    // Whoever asked may have gone.
    started.catch(() => {});
    this.#running.set(key, started);
    return started;
  }

  async #compare(changed: ChangedFile, after: AfterComparison): Promise<boolean> {
    const { subject, path, sha256 } = changed;
    const look = () => ifPresent('looking at a stored file', stat(path));
    const file = await look();
    if (!file) return false;
    // Something else may have come into its place while others had their turn: this digest says nothing of that.
    if (!isStill(changed.file, file)) throw busy('was written to again');
    const actual = await this.#digestOf(path);
    const still = await look();
    if (!still) return false;
    if (!actual || !isStill(file, still)) throw busy('is still being written');

    const isSame = actual === sha256;
    const verdict = { of: stateOf({ sha256, file }), isSame };
    this.#verdicts.set(path, { ...verdict, isFinal: isSame });
    const fields = { subject: subject.toString(), sha256 };
    if (isSame) {
      this.#logger.info('a stored file was written to and is what it was', fields);
      // Where nothing can be written down it is remembered for as long as this process lives.
      await after.note(file.mtime.getTime()).catch((error: unknown) => {
        this.#logger.debug('the time of a stored file could not be noted', { ...fields, error });
      });
    } else if (isSettled(file)) {
      this.#logger.warn('a stored file was altered and is put into quarantine', { ...fields, actual });
      await after.putAside().catch((error: unknown) => {
        this.#verdicts.set(path, { ...verdict, isFinal: true });
        this.#logger.warn('an altered file could not be put into quarantine; it stays and is not used', {
          ...fields,
          error,
        });
      });
    }
    return isSame;
  }

  async #digestOf(path: string): Promise<Sha256 | undefined> {
    const { signal } = this.#closing;
    try {
      signal.throwIfAborted();
      return await digestOf(path, signal);
    } catch (error) {
      throw signal.aborted ? busy('is shutting down') : error;
    }
  }
}

/** Whether it is as it was when it was stored, by its time. */
export function isUntouched({ storedAt }: { readonly storedAt: Date }, { mtime }: { readonly mtime: Date }): boolean {
  return storedAt.getTime() === mtime.getTime();
}

/** Whether a file that was looked at is there as it was then. */
export function isStill(before: Stats, now: Stats | undefined): boolean {
  return now?.ino === before.ino && now.size === before.size && now.mtimeMs === before.mtimeMs;
}

/** Why it is put aside, in words. */
export const ALTERED = 'it was written to, and its SHA-256 is not what it was when it was stored';

function stateOf({ sha256, file }: Pick<ChangedFile, 'sha256' | 'file'>): string {
  return `${sha256} ${file.ino} ${file.size} ${file.mtimeMs}`;
}

function busy(why: string): StorageFailed {
  return new StorageFailed('comparing a stored file with its digest', new Error(why), {
    busy: true,
    hint:
      'the file was written to since it was stored, as when a backup is restored; it is served once it was compared: ask again ' +
      '(after a whole backup was restored, larder verify compares all of it)',
  });
}
