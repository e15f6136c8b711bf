import { type FileHandle, open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { StorageFailed } from '../errors.ts';
import type { ArchiveBody } from './archive-body.ts';
import type { ByteRange } from './archive-store.ts';
import { LentMemory } from './lent-memory.ts';
import { ofStorage } from './storage-errors.ts';

/** With fewer, larger reads one stream is as fast as the disk cache; 64 KiB costs a third of that. */
const READ_BYTES = 256 * 1024;
/** Clients that are served at once have two or three each. */
const MAX_FREE = 64;

/** For all files of a store. */
export function readingMemory(): LentMemory {
  return new LentMemory({ bytes: READ_BYTES, maxFree: MAX_FREE });
}

/**
 * The bytes of a file, read into memory that is lent. The stream fails with StorageFailed, also when the file becomes
 * shorter under its eyes.
 *
 * @param what for error messages, with its article
 * @param size of the whole file, bytes
 * @throws StorageFailed when it is not there (`gone`), or has another size
 */
export async function openFileStream(deps: {
  what: string;
  path: string;
  size: number;
  range: ByteRange | undefined;
  memory: LentMemory;
}): Promise<ArchiveBody> {
  const operation = `opening ${deps.what}`;
  const handle = await ofStorage(operation, open(deps.path, 'r'));
  try {
    const { size } = await ofStorage(operation, handle.stat());
    if (size !== deps.size) throw new StorageFailed(operation, new Error('its size has changed'));
    return new FileStream({ ...deps, handle });
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** The handle is closed when it ends and when it is destroyed. */
class FileStream extends Readable implements ArchiveBody {
  readonly #handle: FileHandle;
  readonly #memory: LentMemory;
  readonly #operation: string;
  readonly #end: number;
  #position: number;

  constructor(deps: {
    what: string;
    handle: FileHandle;
    size: number;
    range: ByteRange | undefined;
    memory: LentMemory;
  }) {
    super({ highWaterMark: READ_BYTES });
    this.#operation = `reading ${deps.what}`;
    this.#handle = deps.handle;
    this.#memory = deps.memory;
    this.#position = deps.range?.start ?? 0;
    this.#end = Math.min(deps.size, deps.range ? deps.range.end + 1 : deps.size);
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
    try {
      const wanted = Math.min(piece.length, this.#end - this.#position);
      const { bytesRead } = await ofStorage(this.#operation, this.#handle.read(piece, 0, wanted, this.#position));
      if (bytesRead === 0) throw new StorageFailed(this.#operation, new Error('it has become shorter'));
      this.#position += bytesRead;
      if (this.destroyed) this.#memory.giveBack(piece);
      else this.push(piece.subarray(0, bytesRead));
    } catch (error) {
      this.#memory.giveBack(piece);
      this.destroy(error as Error);
    }
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    // Waits for a read under way.
    this.#handle.close().then(
      () => callback(error),
      () => callback(error),
    );
  }
}
