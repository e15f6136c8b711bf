/** Memory to read files into, which comes back once its contents were sent, and is then read into again. */
export class LentMemory {
  readonly #bytes: number;
  readonly #maxFree: number;
  readonly #free: Buffer[] = [];
  /** What is out, by what stands for it in chunks. */
  readonly #lent = new WeakSet<ArrayBufferLike>();

  /**
   * @param bytes of each piece
   * @param maxFree as many pieces are kept while nobody wants them
   */
  constructor({ bytes, maxFree }: { bytes: number; maxFree: number }) {
    this.#bytes = bytes;
    this.#maxFree = maxFree;
  }

  take(): Buffer {
    // Slow: not a slice of memory that others have slices of, too.
    const piece = this.#free.pop() ?? Buffer.allocUnsafeSlow(this.#bytes);
    this.#lent.add(piece.buffer);
    return piece;
  }

  /** Takes a piece, or any part of one, back. Nobody may look at it any more. What is no memory of ours is left alone. */
  giveBack({ buffer }: Buffer): void {
    if (this.#lent.delete(buffer) && this.#free.length < this.#maxFree) this.#free.push(Buffer.from(buffer));
  }
}
