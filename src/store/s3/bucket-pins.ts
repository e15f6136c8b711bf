import { setTimeout as delay } from 'node:timers/promises';
import { StorageFailed } from '../../errors.ts';
import { paths } from '../keys.ts';
import { type PinStore, pinsIn, pinsText } from '../pin-file.ts';
import type { Bucket } from './bucket.ts';

/** Somebody else may change them between our reading and our writing; then the change is made once more. */
const MAX_ATTEMPTS = 10;
const RETRY_DELAY_MS = 50;

/** `pins.json` in the bucket, for all replicas. */
export class BucketPins implements PinStore {
  readonly #bucket: Bucket;

  constructor({ bucket }: { bucket: Bucket }) {
    this.#bucket = bucket;
  }

  async read(): Promise<readonly string[]> {
    return (await this.#read()).pins;
  }

  async change(change: (pins: readonly string[]) => readonly string[]): Promise<readonly string[]> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const { pins, etag } = await this.#read();
      const wanted = [...new Set(change(pins))].sort();
      const condition = etag === undefined ? 'absent' : { etag };
      if ((await this.#bucket.write(paths.pins, pinsText(wanted), condition)) === 'written') return wanted;
      await delay(RETRY_DELAY_MS * attempt * Math.random());
    }
    throw new StorageFailed('writing the pins', new Error('others change them all the time'));
  }

  async #read(): Promise<{ pins: readonly string[]; etag: string | undefined }> {
    const found = await this.#bucket.readSmall(paths.pins);
    if (found === undefined || found === 'unchanged') return { pins: [], etag: undefined };
    return { pins: pinsIn(found.content.toString(), 'the bucket'), etag: found.etag };
  }
}
