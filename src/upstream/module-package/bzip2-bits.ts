import type { ByteReader } from './byte-reader.ts';

/** Of any Huffman code in bzip2. */
export const MAX_CODE_BITS = 20;

/** The bits of a stream, the highest of each byte first. Waiting is done beforehand: reading itself is synchronous. */
export class BitReader {
  readonly #reader: ByteReader;
  #bytes: Uint8Array = new Uint8Array();
  #at = 0;
  #pending = 0;
  #pendingBits = 0;

  constructor(reader: ByteReader) {
    this.#reader = reader;
  }

  /** Waits until `bytes` can be read, or all that there is. */
  async fill(bytes: number): Promise<void> {
    const missing = bytes - (this.#bytes.length - this.#at);
    if (missing <= 0) return;
    const more = await this.#reader.take(missing);
    this.#bytes = Buffer.concat([this.#bytes.subarray(this.#at), more]);
    this.#at = 0;
  }

  /** After `alignToByte` and `fill`. */
  get isAtEnd(): boolean {
    return this.#pendingBits === 0 && this.#at >= this.#bytes.length;
  }

  alignToByte(): void {
    this.#pendingBits -= this.#pendingBits % 8;
  }

  /** Up to 24. @throws Error at the end */
  read(bits: number): number {
    const value = this.peek(bits);
    this.skip(bits);
    return value;
  }

  /** Up to 24, with zeros after the end. */
  peek(bits: number): number {
    while (this.#pendingBits < bits) {
      this.#pending = (this.#pending << 8) | (this.#bytes[this.#at++] ?? 0);
      this.#pendingBits += 8;
    }
    return (this.#pending >>> (this.#pendingBits - bits)) & ((1 << bits) - 1);
  }

  /** What was peeked. @throws Error at the end */
  skip(bits: number): void {
    this.#pendingBits -= bits;
    if (this.#at - (this.#pendingBits >> 3) > this.#bytes.length) throw new Error('it is cut short');
  }
}

/** One canonical Huffman code. */
export class CodeTable {
  /** By length: the first code that is longer, filled up to the right. */
  readonly #ends = new Int32Array(MAX_CODE_BITS + 2);
  /** By length: what to take from a code to have its place among the symbols. */
  readonly #offsets = new Int32Array(MAX_CODE_BITS + 2);
  readonly #symbols: Uint16Array;
  readonly #shortest: number;
  readonly #longest: number;

  /** @param lengths in bits, by symbol; 1 to 20 */
  constructor(lengths: Uint8Array) {
    const counts = new Int32Array(MAX_CODE_BITS + 2);
    for (const length of lengths) counts[length] = at(counts, length) + 1;
    this.#shortest = Math.min(...lengths);
    this.#longest = Math.max(...lengths);
    this.#symbols = new Uint16Array(lengths.length);
    let place = 0;
    let code = 0;
    for (let length = this.#shortest; length <= this.#longest; length++) {
      this.#offsets[length] = code - place;
      for (let symbol = 0; symbol < lengths.length; symbol++) {
        if (lengths[symbol] === length) this.#symbols[place++] = symbol;
      }
      code += at(counts, length);
      this.#ends[length] = code << (MAX_CODE_BITS - length);
      code <<= 1;
    }
  }

  /** @throws Error for a code that there is not, and at the end */
  decode(bits: BitReader): number {
    const ahead = bits.peek(MAX_CODE_BITS);
    for (let length = this.#shortest; length <= this.#longest; length++) {
      if (ahead >= at(this.#ends, length)) continue;
      bits.skip(length);
      const symbol = this.#symbols[(ahead >>> (MAX_CODE_BITS - length)) - at(this.#offsets, length)];
      if (symbol !== undefined) return symbol;
      break;
    }
    throw new Error('it is damaged');
  }
}

function at(numbers: Int32Array, index: number): number {
  return numbers[index] as number;
}
