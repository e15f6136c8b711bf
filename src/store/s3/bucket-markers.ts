import { paths } from '../keys.ts';
import type { UseMarkers } from '../use-markers.ts';
import type { Bucket } from './bucket.ts';

/**
 * Empty objects below `last-use/`, as a directory has empty files. The time is when they were written: no more than a
 * minute after the use that is written down.
 */
export class BucketMarkers implements UseMarkers {
  /** Every replica writes that often about each archive that is in use: requests cost money. */
  readonly precisionMs = 6 * 3_600_000;
  readonly areCheap = false;
  readonly #bucket: Bucket;

  constructor({ bucket }: { bucket: Bucket }) {
    this.#bucket = bucket;
  }

  async read(path: string): Promise<number | undefined> {
    return (await this.#bucket.head(paths.lastUseOf(path)))?.mtime.getTime();
  }

  async write(path: string): Promise<void> {
    await this.#bucket.write(paths.lastUseOf(path), '');
  }

  async remove(path: string): Promise<void> {
    await this.#bucket.remove(paths.lastUseOf(path));
  }
}
