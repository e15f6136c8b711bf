import { rm } from 'node:fs/promises';

/** Long enough for the package hash to be computed, which is asked for as soon as an archive is stored. */
const KEEP_MS = 5 * 60_000;
/** Each takes up as much of the local disk as its archive has. */
const MAX_COPIES = 16;

interface Copy {
  readonly path: string;
  readonly timer: NodeJS.Timeout;
  users: number;
  isDropped: boolean;
}

/** Local files of archives that have just gone into the bucket, kept for a while: reading them back would be a waste. */
export class LocalCopies {
  readonly #copies = new Map<string, Copy>();
  readonly #removals = new Set<Promise<void>>();
  #isClosed = false;

  /** From now on the file is ours. */
  keep(key: string, path: string): void {
    this.drop(key);
    const timer = setTimeout(() => this.drop(key), KEEP_MS).unref();
    this.#copies.set(key, { path, timer, users: 0, isDropped: false });
    const [oldest] = this.#copies.keys();
    if (this.#isClosed) this.drop(key);
    else if (this.#copies.size > MAX_COPIES && oldest !== undefined) this.drop(oldest);
  }

  /** Its path, for as long as it is not let go of. `undefined` when there is none. */
  take(key: string): { readonly path: string; letGo(): void } | undefined {
    const copy = this.#copies.get(key);
    if (!copy) return undefined;
    copy.users += 1;
    let isTaken = true;
    return {
      path: copy.path,
      letGo: () => {
        if (!isTaken) return;
        isTaken = false;
        copy.users -= 1;
        if (copy.users === 0 && copy.isDropped) this.#remove(copy);
      },
    };
  }

  /** Not needed any more. */
  drop(key: string): void {
    const copy = this.#copies.get(key);
    if (!copy) return;
    this.#copies.delete(key);
    clearTimeout(copy.timer);
    copy.isDropped = true;
    if (copy.users === 0) this.#remove(copy);
  }

  /** Resolves when nothing is left of what nobody uses. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const key of [...this.#copies.keys()]) this.drop(key);
    await Promise.all(this.#removals);
  }

  /** What cannot be removed is swept at the next start. */
  #remove({ path }: Copy): void {
    const removal = rm(path, { force: true })
      .catch(() => {})
      .finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
  }
}
