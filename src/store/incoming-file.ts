import { type FileHandle, open, rm, statfs } from 'node:fs/promises';
import type { Sha256 } from '../address/hash.ts';
import { StorageFailed } from '../errors.ts';
import type { IncomingArchive, IncomingReader, StoredArchive } from './archive-store.ts';
import { ofStorage } from './storage-errors.ts';

/**
 * An archive that is being written to a partial file. Writer and readers share one file handle, which is closed by the
 * last of them: any number of followers costs one descriptor.
 */
export class IncomingFile implements IncomingArchive {
  readonly #handle: FileHandle;
  /** Where the bytes are: the partial file, later the final one. */
  #path: string;
  readonly #publish: (
    partial: string,
    size: number,
    sha256: Sha256,
  ) => Promise<{ path: string; stored: StoredArchive }>;
  #written = 0;
  /** The writer and every open reader. The handle is closed when it drops to 0. */
  #users = 1;
  #state: 'writing' | 'committed' | 'aborted' = 'writing';

  constructor(deps: {
    path: string;
    handle: FileHandle;
    publish: (partial: string, size: number, sha256: Sha256) => Promise<{ path: string; stored: StoredArchive }>;
  }) {
    this.#path = deps.path;
    this.#handle = deps.handle;
    this.#publish = deps.publish;
  }

  /** Better told now than after most of it was fetched and given to somebody. */
  async expect(size: number): Promise<void> {
    const { bavail, bsize } = await ofStorage('looking for room', statfs(this.#path));
    if (bavail * bsize >= size) return;
    const full = Object.assign(new Error(`${size} bytes do not fit`), { code: 'ENOSPC' });
    throw new StorageFailed('storing an archive', full);
  }

  async write(chunk: Uint8Array): Promise<void> {
    for (let offset = 0; offset < chunk.length; ) {
      const { bytesWritten } = await ofStorage(
        'writing an archive',
        this.#handle.write(chunk, offset, chunk.length - offset, this.#written),
      );
      offset += bytesWritten;
      this.#written += bytesWritten;
    }
  }

  async openReader(): Promise<IncomingReader> {
    if (this.#users > 0) {
      this.#users += 1;
      return reader(this.#handle, () => this.#release());
    }
    const handle = await ofStorage('opening an archive', open(this.#path, 'r'));
    return reader(handle, () => handle.close().catch(() => {}));
  }

  async commit(sha256: Sha256): Promise<StoredArchive> {
    const { path, stored } = await this.#publish(this.#path, this.#written, sha256);
    this.#path = path;
    this.#state = 'committed';
    await this.#release();
    return stored;
  }

  async abort(): Promise<void> {
    if (this.#state !== 'writing') return;
    this.#state = 'aborted';
    await this.#release();
    await ofStorage('removing a partial file', rm(this.#path, { force: true }));
  }

  async #release(): Promise<void> {
    this.#users -= 1;
    // Everything was synced by name before; there is nothing left that closing could lose.
    if (this.#users === 0) await this.#handle.close().catch(() => {});
  }
}

function reader(handle: FileHandle, release: () => Promise<void>): IncomingReader {
  let open = true;
  return {
    async read(buffer, position) {
      const { bytesRead } = await ofStorage('reading an archive', handle.read(buffer, 0, buffer.length, position));
      return bytesRead;
    },
    async close() {
      if (!open) return;
      open = false;
      await release();
    },
  };
}
