import { type FileHandle, open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { StorageFailed } from '../errors.ts';
import type { ArchiveBody } from './archive-body.ts';
import type { ByteRange } from './archive-store.ts';
import { LentMemory } from './lent-memory.ts';
import { ofStorage } from './storage-errors.ts';

/** What a read costs that is not its bytes is as much as a few hundred KiB of them: for one client this is half as fast again. */
const FEW_READ_BYTES = 1024 * 1024;
const FEW = 8;
/** With many clients memory counts. */
const MANY_READ_BYTES = 256 * 1024;
const MAX_FREE = 64;

/** What all files of a store are read into. */
export class ReadingMemory {
  readonly #forFew = new LentMemory({ bytes: FEW_READ_BYTES, maxFree: FEW });
  readonly #forMany = new LentMemory({ bytes: MANY_READ_BYTES, maxFree: MAX_FREE });
  #streams = 0;

  /** Before a stream takes memory. */
  enter(): void {
    this.#streams += 1;
  }

  leave(): void {
    this.#streams -= 1;
  }

  take(): Buffer {
    return (this.#streams <= FEW ? this.#forFew : this.#forMany).take();
  }

  giveBack(chunk: Buffer): void {
    this.#forFew.giveBack(chunk);
    this.#forMany.giveBack(chunk);
  }
}

/**
 * The bytes of a file, read into memory that is lent. The stream fails with StorageFailed, also when the file becomes
 * shorter under its eyes.
 *
 * @param what for error messages, with its article
 * @param size of the whole file, bytes
 * @param writtenAt when it was last written, if that matters
 * @throws StorageFailed when it is not there or was written to since (`gone`), or has another size
 */
export async function openFileStream(deps: {
  what: string;
  path: string;
  size: number;
  writtenAt?: Date;
  range: ByteRange | undefined;
  memory: ReadingMemory;
}): Promise<ArchiveBody> {
  const operation = `opening ${deps.what}`;
  const handle = await ofStorage(operation, open(deps.path, 'r'));
  try {
    const { size, mtime } = await ofStorage(operation, handle.stat());
    if (size !== deps.size) throw new StorageFailed(operation, new Error('its size has changed'));
    if (deps.writtenAt && mtime.getTime() !== deps.writtenAt.getTime()) {
      throw new StorageFailed(operation, Object.assign(new Error('it was written to'), { code: 'ENOENT' }));
    }
    return new FileStream({ ...deps, handle });
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * The same of something stored that may have been written to, or replaced, since it was found: then it is found anew, and
 * must be the same.
 *
 * @throws StorageFailed, `gone` when it is not
 */
export async function openFound<T extends { readonly size: number; readonly sha256: string; readonly storedAt: Date }>(
  deps: Omit<Parameters<typeof openFileStream>[0], 'size' | 'writtenAt'>,
  stored: T,
  find: () => Promise<T | undefined>,
): Promise<ArchiveBody> {
  const open = ({ size, storedAt }: T) => openFileStream({ ...deps, size, writtenAt: storedAt });
  try {
    return await open(stored);
  } catch (error) {
    if (!(error instanceof StorageFailed && error.gone)) throw error;
    const found = await find();
    if (found?.sha256 !== stored.sha256) throw error;
    return open(found);
  }
}

/** The handle is closed when it ends and when it is destroyed. */
class FileStream extends Readable implements ArchiveBody {
  readonly #handle: FileHandle;
  readonly #memory: ReadingMemory;
  readonly #operation: string;
  readonly #end: number;
  #position: number;

  constructor(deps: {
    what: string;
    handle: FileHandle;
    size: number;
    range: ByteRange | undefined;
    memory: ReadingMemory;
  }) {
    // Nothing is read ahead: among many that would be most of the memory, and of no use; and to one it makes no difference.
    super({ highWaterMark: 0 });
    this.#operation = `reading ${deps.what}`;
    this.#handle = deps.handle;
    this.#memory = deps.memory;
    this.#position = deps.range?.start ?? 0;
    this.#end = Math.min(deps.size, deps.range ? deps.range.end + 1 : deps.size);
    this.#memory.enter();
  }

  release(chunk: Buffer): void {
    this.#memory.giveBack(chunk);
  }

  override _read(): void {
    if (this.#position >= this.#end) this.push(null);
    else void this.#fill();
  }

  async #fill(): Promise<void> {
    const piece = this.#memory.take();
    let length: number;
    try {
      length = await this.#read(piece);
    } catch (error) {
      this.#memory.giveBack(piece);
      this.destroy(error as Error);
      return;
    }
    this.#position += length;
    if (this.destroyed) this.#memory.giveBack(piece);
    else this.push(piece.subarray(0, length));
  }

  async #read(piece: Buffer): Promise<number> {
    const wanted = Math.min(piece.length, this.#end - this.#position);
    const { bytesRead } = await ofStorage(this.#operation, this.#handle.read(piece, 0, wanted, this.#position));
    if (bytesRead === 0) throw new StorageFailed(this.#operation, new Error('it has become shorter'));
    return bytesRead;
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#memory.leave();
    // Waits for a read under way.
    this.#handle.close().then(
      () => callback(error),
      () => callback(error),
    );
  }
}
