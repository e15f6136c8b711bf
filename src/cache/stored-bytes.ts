import type { ArchiveStore, IncomingReader, StoredArchive } from '../store/archive-store.ts';
import type { ArrivingBytes } from './arrival.ts';

/** The bytes of a stored archive, for those who began to read it while it arrived. */
export function storedBytes(store: Pick<ArchiveStore, 'read'>, stored: StoredArchive): ArrivingBytes {
  return { openReader: async () => new StoredReader(store, stored) };
}

/** Made for reading on from where one is: each jump opens the archive anew. */
class StoredReader implements IncomingReader {
  readonly #store: Pick<ArchiveStore, 'read'>;
  readonly #stored: StoredArchive;
  #stream: Awaited<ReturnType<ArchiveStore['read']>> | undefined;
  #chunks: AsyncIterator<Buffer> | undefined;
  #rest: Buffer = Buffer.alloc(0);
  #position = 0;

  constructor(store: Pick<ArchiveStore, 'read'>, stored: StoredArchive) {
    this.#store = store;
    this.#stored = stored;
  }

  async read(buffer: Uint8Array, position: number): Promise<number> {
    if (position >= this.#stored.size) return 0;
    if (!this.#chunks || position !== this.#position) await this.#seek(position);
    if (this.#rest.length === 0) {
      const next = await this.#chunks?.next();
      if (!next || next.done) return 0;
      this.#rest = next.value;
    }
    const length = this.#rest.copy(buffer);
    this.#rest = this.#rest.subarray(length);
    this.#position += length;
    return length;
  }

  async close(): Promise<void> {
    this.#stream?.destroy();
  }

  async #seek(position: number): Promise<void> {
    this.#stream?.destroy();
    this.#stream = await this.#store.read(this.#stored, { start: position, end: this.#stored.size - 1 });
    this.#chunks = this.#stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    this.#rest = Buffer.alloc(0);
    this.#position = position;
  }
}
