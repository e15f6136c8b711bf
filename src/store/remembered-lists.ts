import type { Stats } from 'node:fs';
import { LRUCache } from 'lru-cache';
import type { Changes } from '../changes.ts';
import { fileIdentity } from './mirror-documents.ts';

/** A directory that changed this recently may change again without its time stamp showing it. */
const RACY_MS = 2_000;
/** How long a list holds before its directory is looked at again, for what other processes may have done. */
const LOOK_AGAIN_MS = 200;
const MAX_REMEMBERED = 10_000;

/** Always the same array, like any other list that has not changed. */
const NOTHING: readonly never[] = [];

interface Remembered<T> {
  readonly identity: string;
  readonly list: readonly T[];
  /** When the directory was last seen to be the same, by `performance.now()`. */
  lookedAt: number;
}

interface Making<T> {
  readonly identity: string;
  /** We have changed the directory since: it may lack that. */
  isOutdated: boolean;
  readonly list: Promise<readonly T[]>;
}

/** What is listed of directories, for as long as nobody touches them. */
export class RememberedLists<T> {
  readonly #lists = new LRUCache<string, Remembered<T>>({ max: MAX_REMEMBERED });
  /** Lists under way: many may ask for one at once, and it takes a second for some hundred versions. */
  readonly #making = new Map<string, Making<T>>();
  readonly #changes: Changes;

  /** @param changes of our own: a list that was made meanwhile may lack one of them */
  constructor(changes: Changes) {
    this.#changes = changes;
  }

  /**
   * The list of a directory, remembered or made anew: the same array until something changes. What this process
   * changes shows at once, what others do a moment later.
   *
   * @param look at the directory; `undefined` when it is not there
   * @param make resolves to the list, and whether nothing but a change of the directory itself will change it
   */
  async read(
    directory: string,
    look: () => Promise<Stats | undefined>,
    make: () => Promise<{ list: readonly T[]; isFinal: boolean }>,
  ): Promise<readonly T[]> {
    const lookedAt = performance.now();
    const recent = this.#lists.get(directory);
    if (recent && lookedAt - recent.lookedAt < LOOK_AGAIN_MS) return recent.list;

    const seen = await look();
    if (!seen) return NOTHING;
    const identity = fileIdentity(seen);
    const known = this.#lists.get(directory);
    if (known?.identity === identity) {
      known.lookedAt = lookedAt;
      return known.list;
    }
    const underWay = this.#making.get(directory);
    if (underWay?.identity === identity) return underWay.list;
    const list = make().then(({ list, isFinal }) => {
      const isQuiet = Date.now() - seen.mtimeMs > RACY_MS && !making.isOutdated;
      if (isFinal && isQuiet) this.#lists.set(directory, { identity, list, lookedAt });
      return list;
    });
    const making: Making<T> = { identity, list, isOutdated: false };
    this.#making.set(directory, making);
    try {
      return await list;
    } finally {
      if (this.#making.get(directory) === making) this.#making.delete(directory);
    }
  }

  /** We have changed what is in the directory. */
  forget(directory: string): void {
    this.#changes.note();
    this.#lists.delete(directory);
    const making = this.#making.get(directory);
    if (!making) return;
    making.isOutdated = true;
    // Whoever asks from now on gets another one.
    this.#making.delete(directory);
  }
}
