import { mkdir, open, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { paths } from './keys.ts';
import { ifPresent, isAbsent, ofStorage } from './storage-errors.ts';

/** Port: where it is written down when something was last used, by its path. */
export interface UseMarkers {
  /** What is written down this recently is not written again, in milliseconds: nobody needs to know it better. */
  readonly precisionMs: number;
  /** Whether at the end all may be written, however recently they were. */
  readonly areCheap: boolean;
  /** Milliseconds since 1970; `undefined` when nothing is written down. @throws StorageFailed */
  read(path: string): Promise<number | undefined>;
  /** @throws StorageFailed */
  write(path: string, at: Date): Promise<void>;
  /** @throws when it cannot be removed */
  remove(path: string): Promise<void>;
}

/**
 * Empty files below `last-use/` at the path of what was used; the time is their modification time. The access time of
 * the archive itself would be set by every backup and copy too, and setting it would lose the end of its modification time.
 * A modification time means the same on every file system and mount, is carried along by copies, and needs no agreement
 * between replicas: the last one to write was the last to see it used.
 */
export class MarkerFiles implements UseMarkers {
  readonly precisionMs = 3_600_000;
  readonly areCheap = true;
  readonly #directory: string;

  constructor({ directory }: { directory: string }) {
    this.#directory = directory;
  }

  async read(path: string): Promise<number | undefined> {
    return (await ifPresent('looking for the last use', stat(this.#markerOf(path))))?.mtimeMs;
  }

  async write(path: string, at: Date): Promise<void> {
    await ofStorage('writing down the last use', this.#write(this.#markerOf(path), at));
  }

  async remove(path: string): Promise<void> {
    await rm(this.#markerOf(path), { force: true });
  }

  async #write(marker: string, at: Date): Promise<void> {
    try {
      await utimes(marker, at, at);
    } catch (error) {
      if (!isAbsent(error)) throw error;
      await mkdir(dirname(marker), { recursive: true });
      await (await open(marker, 'a')).close();
      await utimes(marker, at, at);
    }
  }

  #markerOf(path: string): string {
    return join(this.#directory, paths.lastUseOf(path));
  }
}
