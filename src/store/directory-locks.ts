import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isAbsent } from './storage-errors.ts';

/** Changes take milliseconds. A lock of this age was left by a process that died over it, in milliseconds. */
const LEFT_AFTER_MS = 10_000;
/** Nobody waits longer, in milliseconds: what could be lost without the lock is found out anew. */
const PATIENCE_MS = 15_000;
const LOOK_AGAIN_MS = 15;

/**
 * Locks between processes that change the same files of a directory, wherever they run: a file that only one of them can
 * make. They keep changes from undoing each other. Whoever cannot have one, because the disk takes no more files, goes on
 * without.
 */
export class DirectoryLocks {
  readonly #directory: string;

  constructor(deps: { directory: string }) {
    this.#directory = deps.directory;
  }

  /** @returns what the work returns. @throws what the work throws */
  async hold<T>(name: string, work: () => Promise<T>): Promise<T> {
    const path = join(this.#directory, createHash('sha256').update(name).digest('hex').slice(0, 32));
    const mark = randomUUID();
    const isHeld = await this.#take(path, mark);
    try {
      return await work();
    } finally {
      if (isHeld) await giveBack(path, mark);
    }
  }

  async #take(path: string, mark: string): Promise<boolean> {
    for (const until = performance.now() + PATIENCE_MS; performance.now() < until; ) {
      try {
        await create(path, mark);
        return true;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') return false;
      }
      if (!(await takeAway(path))) await delay(LOOK_AGAIN_MS * (0.5 + Math.random()));
    }
    return false;
  }
}

/**
 * Takes a lock away that a dead process left. Of those that find the same one, only who can make a file that is named for
 * it may: the others, late as they may be, could take away the lock of whoever came next.
 * @returns whether it is gone
 */
async function takeAway(path: string): Promise<boolean> {
  const left = await leftAt(path);
  if (left === undefined) return false;
  const claim = `${path}.${left}`;
  try {
    await create(claim, '');
  } catch {
    // Whoever made it may have died over that, too.
    if ((await leftAt(claim)) !== undefined) await rm(claim, { force: true }).catch(() => {});
    return false;
  }
  try {
    if ((await leftAt(path)) !== left) return false;
    await rm(path, { force: true });
    return true;
  } catch {
    return false;
  } finally {
    await rm(claim, { force: true }).catch(() => {});
  }
}

/** Which lock is there that a dead process left; `undefined` when there is none, or it may be alive. */
async function leftAt(path: string): Promise<string | undefined> {
  const [seen, mark] = await Promise.all([stat(path), readFile(path, 'utf8')]).catch(() => []);
  if (!seen || Date.now() - seen.mtimeMs <= LEFT_AFTER_MS) return undefined;
  // On a full disk they have no mark.
  return createHash('sha256').update(`${mark} ${seen.mtimeMs}`).digest('hex').slice(0, 16);
}

/** @param mark whose it is */
async function create(path: string, mark: string): Promise<void> {
  const handle = await open(path, 'wx').catch(async (error: unknown) => {
    if (!isAbsent(error)) throw error;
    await mkdir(dirname(path), { recursive: true });
    return open(path, 'wx');
  });
  // On a full disk it is made all the same, and empty.
  await handle.writeFile(mark).catch(() => {});
  await handle.close().catch(() => {});
}

/** Whoever took so long that it was taken for dead does not take away the lock of whoever came next. */
async function giveBack(path: string, mark: string): Promise<void> {
  const found = await readFile(path, 'utf8').catch(() => undefined);
  if (found === mark || found === '') await rm(path, { force: true }).catch(() => {});
}
