import { createCipheriv, createHash } from 'node:crypto';

const CHUNK_BYTES = 256 * 1024;
const AES_BLOCK_BYTES = 16;

/** Bytes that can be read from any position, whether they lie in memory or are made while being read. */
export interface ByteSource {
  readonly size: number;
  /** From `start` up to and without `end`. */
  read(start: number, end: number): Iterable<Buffer>;
}

/** Bytes already in memory, handed out in chunks so that they travel like a download. */
export class MemoryBytes implements ByteSource {
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get size(): number {
    return this.#bytes.length;
  }

  *read(start: number, end: number): Iterable<Buffer> {
    for (let at = start; at < end; at += CHUNK_BYTES) yield this.#bytes.subarray(at, Math.min(end, at + CHUNK_BYTES));
  }
}

/** Incompressible bytes that are always the same for the same seed, and cost no memory: an AES-CTR key stream. */
export class PseudoRandomBytes implements ByteSource {
  readonly size: number;
  readonly #key: Buffer;

  constructor(seed: string, size: number) {
    this.size = size;
    this.#key = createHash('sha256').update(seed).digest().subarray(0, AES_BLOCK_BYTES);
  }

  *read(start: number, end: number): Iterable<Buffer> {
    const counter = Buffer.alloc(AES_BLOCK_BYTES);
    counter.writeBigUInt64BE(BigInt(Math.floor(start / AES_BLOCK_BYTES)), 8);
    const stream = createCipheriv('aes-128-ctr', this.#key, counter);
    stream.update(Buffer.alloc(start % AES_BLOCK_BYTES));
    const zeros = Buffer.alloc(CHUNK_BYTES);
    for (let at = start; at < end; at += CHUNK_BYTES)
      yield stream.update(zeros.subarray(0, Math.min(CHUNK_BYTES, end - at)));
  }
}

/** Several sources one after the other. */
export class JoinedBytes implements ByteSource {
  readonly size: number;
  readonly #parts: readonly ByteSource[];

  constructor(parts: readonly ByteSource[]) {
    this.#parts = parts;
    this.size = parts.reduce((sum, part) => sum + part.size, 0);
  }

  *read(start: number, end: number): Iterable<Buffer> {
    let offset = 0;
    for (const part of this.#parts) {
      const from = Math.max(0, start - offset);
      const to = Math.min(part.size, end - offset);
      if (from < to) yield* part.read(from, to);
      offset += part.size;
    }
  }
}

/** Lower-case hex SHA-256 of the whole source. Gives way to other work now and then: hundreds of megabytes take a second. */
export async function sha256Of(source: ByteSource): Promise<string> {
  const hash = createHash('sha256');
  await eachChunk(source, (chunk) => hash.update(chunk));
  return hash.digest('hex');
}

/** Hands every chunk to `take`, and the event loop a turn every few megabytes. */
export async function eachChunk(source: ByteSource, take: (chunk: Buffer) => void): Promise<void> {
  let untilPause = 0;
  for (const chunk of source.read(0, source.size)) {
    take(chunk);
    untilPause += 1;
    if (untilPause % 32 === 0) await new Promise((resume) => setImmediate(resume));
  }
}
