import { type FileHandle, open } from 'node:fs/promises';
import type { LimitFunction } from 'p-limit';
import { StorageFailed } from '../../errors.ts';
import type { Logger } from '../../logger.ts';
import { settledWithin } from '../../time-limit.ts';
import { ofStorage } from '../storage-errors.ts';
import type { Bucket } from './bucket.ts';
import type { Condition, Written } from './bucket-requests.ts';

/** Of one part. The protocol allows 10,000 of them, and none below 5 MiB but the last. */
export const PART_BYTES = 8 * 1024 * 1024;

/** How long giving up waits for what is being sent, in milliseconds. */
const ABORT_PATIENCE_MS = 5_000;

/**
 * Sends a local file to the bucket while it is still growing. Each part is read from the file when its turn comes, so
 * that what is in memory is bounded by how many are sent at a time, however slow the bucket is. Nothing is under the key
 * before `finish` succeeds.
 */
export class Upload {
  readonly #bucket: Bucket;
  readonly #key: string;
  readonly #path: string;
  readonly #inTurn: LimitFunction;
  readonly #logger: Logger;
  readonly #parts: Promise<string | undefined>[] = [];
  #id: Promise<string> | undefined;
  #handle: Promise<FileHandle> | undefined;
  #failure: unknown;
  #isOver = false;

  /** @param deps.inTurn of all uploads together: each that has a turn holds one part in memory */
  constructor(deps: { bucket: Bucket; key: string; path: string; inTurn: LimitFunction; logger: Logger }) {
    this.#bucket = deps.bucket;
    this.#key = deps.key;
    this.#path = deps.path;
    this.#inTurn = deps.inTurn;
    this.#logger = deps.logger;
  }

  /** The file has so many bytes by now. What is whole of it begins to be sent; trouble is told by `finish`. */
  grew(size: number): void {
    while (this.#failure === undefined && (this.#parts.length + 1) * PART_BYTES <= size) this.#send(PART_BYTES);
  }

  /** The file is complete and is what it should be. @throws StorageFailed; then there is nothing under the key */
  async finish(size: number, condition?: Condition): Promise<Written> {
    try {
      // Small ones in one request.
      if (this.#parts.length === 0 && size <= PART_BYTES) {
        return await this.#inTurn(async () => this.#bucket.write(this.#key, await this.#read(0, size), condition));
      }
      this.grew(size);
      const rest = size - this.#parts.length * PART_BYTES;
      if (rest > 0 && this.#failure === undefined) this.#send(rest);
      const etags = await Promise.all(this.#parts);
      if (this.#failure !== undefined) throw this.#failure;
      const id = (await this.#id) ?? '';
      const written = await this.#bucket.uploads.complete(this.#key, id, etags as string[], condition);
      if (written === 'written') this.#id = undefined;
      return written;
    } finally {
      await this.abort();
    }
  }

  /** Leaves nothing behind, as far as the bucket allows. Never rejects. Harmless after `finish`. */
  async abort(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#failure ??= new Error('given up');
    // A bucket that hangs keeps nobody from ending.
    await settledWithin(Promise.all(this.#parts), ABORT_PATIENCE_MS);
    const handle = await this.#handle?.catch(() => undefined);
    await handle?.close().catch(() => {});
    const id = this.#id && (await settledWithin(this.#id, ABORT_PATIENCE_MS).catch(() => undefined));
    if (id === undefined) return;
    try {
      await this.#bucket.uploads.abort(this.#key, id);
    } catch (error) {
      this.#logger.warn('an upload to the bucket could not be taken back; it is swept later', {
        key: this.#key,
        error,
      });
    }
  }

  /** Resolves in every case. */
  #send(length: number): void {
    const number = this.#parts.length + 1;
    this.#parts.push(
      this.#inTurn(async () => {
        if (this.#failure !== undefined) return undefined;
        this.#id ??= this.#bucket.uploads.begin(this.#key);
        const id = await this.#id;
        const content = await this.#read((number - 1) * PART_BYTES, length);
        return this.#bucket.uploads.send(this.#key, id, number, content);
      }).catch((error: unknown) => {
        this.#failure ??= error;
        return undefined;
      }),
    );
  }

  async #read(start: number, length: number): Promise<Buffer> {
    this.#handle ??= ofStorage('reading a partial file', open(this.#path, 'r'));
    const handle = await this.#handle;
    const content = Buffer.allocUnsafeSlow(length);
    for (let filled = 0; filled < length; ) {
      const read = handle.read(content, filled, length - filled, start + filled);
      const { bytesRead } = await ofStorage('reading a partial file', read);
      if (bytesRead === 0) throw new StorageFailed('reading a partial file', new Error('it is shorter than it was'));
      filled += bytesRead;
    }
    return content;
  }
}
