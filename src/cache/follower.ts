import { Readable } from 'node:stream';
import type { ArchiveBody } from '../store/archive-body.ts';
import type { ByteRange, IncomingReader } from '../store/archive-store.ts';
import { LentMemory } from '../store/lent-memory.ts';

/** What one follower reads at once: there may be many of them, each with this much in memory. */
const READ_BYTES = 64 * 1024;
/** What is sent, what waits to be, and what is read into meanwhile. */
const MAX_FREE = 4;

/** Reads behind what is arriving, at its own pace. Destroying it touches nothing else. */
export class Follower extends Readable implements ArchiveBody {
  #reader: IncomingReader;
  readonly #visible: () => number;
  readonly #isComplete: () => boolean;
  readonly #onClose: () => void;
  readonly #end: number;
  #position: number;
  readonly #memory = new LentMemory({ bytes: READ_BYTES, maxFree: MAX_FREE });
  /** What is being read from at the moment. */
  #reading: IncomingReader | undefined;
  #isWaiting = false;

  constructor(deps: {
    reader: IncomingReader;
    range: ByteRange | undefined;
    visible: () => number;
    isComplete: () => boolean;
    onClose: () => void;
  }) {
    super({ highWaterMark: READ_BYTES });
    this.#reader = deps.reader;
    this.#visible = deps.visible;
    this.#isComplete = deps.isComplete;
    this.#onClose = deps.onClose;
    this.#position = deps.range?.start ?? 0;
    this.#end = deps.range ? deps.range.end + 1 : Number.POSITIVE_INFINITY;
    // The download may fail before whoever asked for this stream has begun to listen.
    this.on('error', () => {});
  }

  release(chunk: Buffer): void {
    this.#memory.giveBack(chunk);
  }

  /** The same bytes are read there from now on; where they were read before is closed. */
  readFrom(reader: IncomingReader): void {
    const former = this.#reader;
    if (this.destroyed) {
      void reader.close();
      return;
    }
    this.#reader = reader;
    // A read under way closes it when it is done with it.
    if (this.#reading !== former) void former.close();
  }

  /** More may be visible than before. */
  wake(): void {
    if (!this.#isWaiting) return;
    this.#isWaiting = false;
    this._read();
  }

  override _read(): void {
    const until = Math.min(this.#visible(), this.#end);
    if (until > this.#position) {
      void this.#fill(until);
    } else if (this.#position >= this.#end || this.#isComplete()) {
      this.push(null);
    } else {
      this.#isWaiting = true;
    }
  }

  async #fill(until: number): Promise<void> {
    const reader = this.#reader;
    this.#reading = reader;
    try {
      const buffer = this.#memory.take();
      const wanted = buffer.subarray(0, Math.min(READ_BYTES, until - this.#position));
      const length = await reader.read(wanted, this.#position);
      if (length === 0) throw new Error('an arriving archive is shorter than what was written');
      this.#position += length;
      this.#reading = undefined;
      if (this.#isDoneWith(reader)) await reader.close();
      if (!this.destroyed) this.push(buffer.subarray(0, length));
    } catch (error) {
      this.#reading = undefined;
      if (this.#isDoneWith(reader)) await reader.close();
      this.destroy(error as Error);
    }
  }

  #isDoneWith(reader: IncomingReader): boolean {
    return this.destroyed || reader !== this.#reader;
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#onClose();
    // A read under way closes the reader when it is done with it.
    if (this.#reading !== this.#reader) void this.#reader.close();
    callback(error);
  }
}
