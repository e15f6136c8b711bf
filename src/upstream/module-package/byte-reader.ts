const NOTHING = Buffer.alloc(0);

/** Hands out a stream of chunks in pieces of the size that is asked for, and pulls no chunk before it is needed. */
export class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #chunk: Uint8Array = NOTHING;
  #ended = false;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** The next `length` bytes; fewer only at the end. */
  async take(length: number): Promise<Buffer> {
    const pieces: Uint8Array[] = [];
    let missing = length;
    while (missing > 0) {
      const piece = await this.some(missing);
      if (!piece) break;
      pieces.push(piece);
      missing -= piece.length;
    }
    const [only] = pieces;
    if (pieces.length === 1 && only) return Buffer.from(only.buffer, only.byteOffset, only.length);
    return Buffer.concat(pieces);
  }

  /** What is at hand of the next `most` bytes, at least one; `undefined` at the end. Valid until the next call. */
  async some(most: number): Promise<Uint8Array | undefined> {
    while (this.#chunk.length === 0) {
      if (this.#ended) return undefined;
      const { done, value } = await this.#source.next();
      if (done) this.#ended = true;
      else this.#chunk = value;
    }
    const piece = this.#chunk.subarray(0, most);
    this.#chunk = this.#chunk.subarray(piece.length);
    return piece;
  }

  /** Tells the source that no more is wanted. */
  async close(): Promise<void> {
    this.#ended = true;
    this.#chunk = NOTHING;
    await this.#source.return?.();
  }
}
