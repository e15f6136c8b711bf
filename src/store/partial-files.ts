import { type FileHandle, mkdir, open, opendir, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { StorageFailed } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { makeDirectory, mayNotWrite } from './make-directory.ts';
import type { WorkDirectory } from './module-store.ts';
import { isAbandoned, isPartialName, newPartialName, QUIET_AFTER_MS } from './partial-name.ts';
import { SharedPartial } from './shared-partial.ts';
import { isAbsent, ofStorage } from './storage-errors.ts';

/** A directory that somebody just wrote into is not empty at the first attempt. */
const REMOVAL_RETRIES = 3;

/** What could not be told at the start is looked at once more after so long, in milliseconds. */
const SECOND_SWEEP_MS = QUIET_AFTER_MS + 60_000;

/** The directory in which files are made before they are renamed into place, whole. */
export class PartialFiles {
  readonly #directory: string;
  readonly #logger: Logger;

  private constructor(directory: string, logger: Logger) {
    this.#directory = directory;
    this.#logger = logger;
  }

  /**
   * Makes the directory and removes what dead processes left in it. What living ones write is left alone, also those on
   * other machines and in other containers. Where nothing may be written nothing is made, and each write fails.
   * @throws StorageFailed
   */
  static async open(directory: string, logger: Logger): Promise<PartialFiles> {
    const files = new PartialFiles(directory, logger);
    let left = 0;
    try {
      await ofStorage('making the directory for partial files', makeDirectory(directory));
      left = await ofStorage('sweeping partial files', files.#sweep());
    } catch (error) {
      if (!mayNotWrite(error)) throw error;
    }
    if (left > 0) setTimeout(() => void files.#sweep().catch(() => {}), SECOND_SWEEP_MS).unref();
    return files;
  }

  /** A new empty file, open for reading and writing. @throws StorageFailed */
  async create(): Promise<{ path: string; handle: FileHandle }> {
    const path = this.#newName();
    return { path, handle: await ofStorage('creating a partial file', this.#open(path)) };
  }

  /**
   * One that another process writes, by its name alone. `undefined` when it is not there, or cannot be one.
   * @throws StorageFailed
   */
  async openShared(name: string): Promise<SharedPartial | undefined> {
    return isPartialName(name) ? SharedPartial.open(join(this.#directory, name)) : undefined;
  }

  /** A new empty directory, for what takes more than one file to make. @throws StorageFailed */
  async createDirectory(): Promise<WorkDirectory> {
    const path = this.#newName();
    // Also the directory around it, when somebody cleared it away.
    await ofStorage('making a work directory', makeDirectory(path, { mode: 0o700 }));
    return {
      path,
      remove: async () => {
        try {
          await rm(path, { force: true, recursive: true, maxRetries: REMOVAL_RETRIES });
        } catch (error) {
          this.#logger.warn('a work directory could not be removed', { file: basename(path), error });
        }
      },
    };
  }

  /** Puts a small file in place as a whole: readers see the old content or the new one. @throws StorageFailed */
  async write(path: string, content: string | Uint8Array): Promise<void> {
    const partial = await this.create();
    try {
      await ofStorage(
        'writing a file',
        partial.handle.writeFile(content).finally(() => partial.handle.close()),
      );
      await this.publish(partial.path, path);
    } catch (error) {
      await rm(partial.path, { force: true }).catch(() => {});
      throw error;
    }
  }

  /** Renames a finished file to its final name, durably: after a power cut it is there whole, or not at all. @throws StorageFailed */
  async publish(partial: string, path: string): Promise<void> {
    await ofStorage('publishing a file', publish(partial, path));
  }

  /** Makes what was written to a file durable, so that publishing it takes a moment only. @throws StorageFailed */
  async sync(path: string): Promise<void> {
    await ofStorage('storing a file', sync(path));
  }

  /** Rejects when nothing can be read or written around here. @throws StorageFailed, `readable` when it is only the writing */
  async check(): Promise<void> {
    await ofStorage('reading the data directory', readSome(dirname(this.#directory)));
    try {
      await this.#tryOut();
    } catch (error) {
      const cause = error instanceof StorageFailed ? error.cause : error;
      throw new StorageFailed('writing to the data directory', cause, { readable: true });
    }
  }

  async #tryOut(): Promise<void> {
    const { path, handle } = await this.create();
    try {
      await handle.writeFile('.').finally(() => handle.close());
    } finally {
      await rm(path, { force: true }).catch(() => {});
    }
  }

  #newName(): string {
    return join(this.#directory, newPartialName());
  }

  async #open(path: string): Promise<FileHandle> {
    try {
      return await open(path, 'wx+');
    } catch (error) {
      // Somebody cleared it away: no reason to fail until the next start. That the whole data directory is gone is one.
      if (!isAbsent(error)) throw error;
      await mkdir(this.#directory).catch((cause: NodeJS.ErrnoException) => {
        if (cause.code !== 'EEXIST') throw cause;
      });
      return open(path, 'wx+');
    }
  }

  /** @returns how many were not there to be removed, or not yet */
  async #sweep(): Promise<number> {
    let left = 0;
    for (const name of await readdir(this.#directory)) {
      const path = join(this.#directory, name);
      const file = await stat(path).catch(() => undefined);
      if (!file || !isAbandoned(name, { mtimeMs: file.mtimeMs, isFile: file.isFile() })) {
        left += 1;
        continue;
      }
      await rm(path, { force: true, recursive: true });
      this.#logger.info('removed a partial file that a dead process left', { file: name });
    }
    return left;
  }
}

async function publish(partial: string, path: string): Promise<void> {
  await sync(partial);
  try {
    await rename(partial, path);
  } catch (error) {
    // The first file of a provider; the directory may also have been tidied away meanwhile.
    if (!isAbsent(error)) throw error;
    await mkdir(dirname(path), { recursive: true });
    await rename(partial, path);
  }
  await sync(dirname(path));
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Reads an entry of a directory, if it has any. */
async function readSome(path: string): Promise<void> {
  const directory = await opendir(path);
  await directory.read().finally(() => directory.close());
}
