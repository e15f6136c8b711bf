import { type FileHandle, open } from 'node:fs/promises';
import type { IncomingReader, PartialArchive } from './archive-store.ts';
import { ifPresent, ofStorage } from './storage-errors.ts';

/**
 * A partial file that another process writes, also after that has renamed or removed it. However many read it, it costs
 * one descriptor.
 */
export class SharedPartial implements PartialArchive {
  readonly #handle: FileHandle;
  /** Who opened it, and every open reader. The handle is closed when it drops to 0. */
  #users = 1;
  #isClosed = false;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** `undefined` when there is no such file. @throws StorageFailed */
  static async open(path: string): Promise<SharedPartial | undefined> {
    const handle = await ifPresent('opening what another replica fetches', open(path, 'r'));
    return handle && new SharedPartial(handle);
  }

  async size(): Promise<number> {
    return (await ofStorage('looking at what another replica fetches', this.#handle.stat())).size;
  }

  async openReader(): Promise<IncomingReader> {
    this.#users += 1;
    let isOpen = true;
    return {
      read: async (buffer, position) => {
        const read = this.#handle.read(buffer, 0, buffer.length, position);
        return (await ofStorage('reading what another replica fetches', read)).bytesRead;
      },
      close: async () => {
        if (!isOpen) return;
        isOpen = false;
        await this.#release();
      },
    };
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#release();
  }

  async #release(): Promise<void> {
    this.#users -= 1;
    if (this.#users === 0) await this.#handle.close().catch(() => {});
  }
}
