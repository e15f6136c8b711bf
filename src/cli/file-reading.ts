import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';

const READ_BYTES = 256 * 1024;

/** The bytes of a file on their way to a server, and what goes wrong with the file itself meanwhile. */
export class FileReading {
  readonly stream: Readable;
  #trouble: string | undefined;

  /**
   * Opens nothing before it is read.
   * @param size in bytes, as it was found before
   */
  constructor(file: string, size: number) {
    this.stream = Readable.from(this.#pieces(file, size), { objectMode: false });
    // Whoever reads hears of errors; one that comes while nobody does must not take the process along.
    this.stream.on('error', () => {});
  }

  /** Why it could not be sent as it was found before, in words. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  async *#pieces(file: string, size: number): AsyncGenerator<Buffer> {
    let length = 0;
    try {
      for await (const piece of createReadStream(file, { highWaterMark: READ_BYTES })) {
        length += (piece as Buffer).length;
        if (length > size) break;
        yield piece as Buffer;
      }
    } catch (error) {
      this.#trouble = `it cannot be read (${(error as NodeJS.ErrnoException).code})`;
      throw error;
    }
    if (length === size) return;
    this.#trouble = 'it has changed since it was looked at';
    throw new Error(this.#trouble);
  }
}
