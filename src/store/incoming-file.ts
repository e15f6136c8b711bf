import { type FileHandle, open, rm, statfs } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Sha256 } from '../address/hash.ts';
import { StorageFailed } from '../errors.ts';
import type { IncomingArchive, IncomingReader, StoredArchive } from './archive-store.ts';
import type { Reservation, Room } from './room.ts';
import { ofStorage } from './storage-errors.ts';

/** Room is set aside in steps of this, for what comes without having told its size. */
const STEP_BYTES = 16 * 1024 * 1024;

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
  readonly #reserve: Room['reserve'];
  readonly #hold: () => () => void;
  readonly #unhold: () => void;
  #reservation: Reservation | undefined;
  #written = 0;
  /** The writer and every open reader. The handle is closed when it drops to 0. */
  #users = 1;
  #state: 'writing' | 'committed' | 'aborted' = 'writing';

  constructor(deps: {
    path: string;
    handle: FileHandle;
    /** Sets room aside. */
    reserve: Room['reserve'];
    /** The archive is read or written from now on. @returns ends it */
    hold: () => () => void;
    publish: (partial: string, size: number, sha256: Sha256) => Promise<{ path: string; stored: StoredArchive }>;
  }) {
    this.#path = deps.path;
    this.#handle = deps.handle;
    this.#publish = deps.publish;
    this.#reserve = deps.reserve;
    this.#hold = deps.hold;
    this.#unhold = deps.hold();
  }

  get partialName(): string {
    return basename(this.#path);
  }

  /** Better told now than after most of it was fetched and given to somebody. */
  async expect(size: number): Promise<void> {
    await this.#reserveFor(size);
    const { bavail, bsize } = await ofStorage('looking for room', statfs(this.#path));
    if (bavail * bsize >= size) return;
    const full = Object.assign(new Error(`${size} bytes do not fit`), { code: 'ENOSPC' });
    throw new StorageFailed('storing an archive', full);
  }

  async write(chunk: Uint8Array): Promise<void> {
    const needed = this.#written + chunk.length;
    // In step with what really comes: nothing has to make room for bytes that are only promised.
    await this.#reserveFor(needed, needed + Math.min(needed, STEP_BYTES));
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
    const unhold = this.#hold();
    return reader(handle, async () => {
      unhold();
      await handle.close().catch(() => {});
    });
  }

  async commit(sha256: Sha256): Promise<StoredArchive> {
    const { path, stored } = await this.#publish(this.#path, this.#written, sha256);
    this.#path = path;
    this.#state = 'committed';
    this.#giveBack();
    await this.#release();
    return stored;
  }

  async abort(): Promise<void> {
    if (this.#state !== 'writing') return;
    this.#state = 'aborted';
    await this.#release();
    try {
      await ofStorage('removing a partial file', rm(this.#path, { force: true }));
    } finally {
      this.#giveBack();
    }
  }

  async #release(): Promise<void> {
    this.#users -= 1;
    // Everything was synced by name before; there is nothing left that closing could lose.
    if (this.#users > 0) return;
    this.#unhold();
    await this.#handle.close().catch(() => {});
  }

  async #reserveFor(least: number, most = least): Promise<void> {
    if (this.#reservation && least <= this.#reservation.bytes) return;
    if (this.#reservation) {
      await this.#reservation.grow(least, most);
      return;
    }
    this.#reservation = await this.#reserve(least, most);
    // Given up while it waited for room.
    if (this.#state !== 'writing') this.#giveBack();
  }

  /** What was set aside is taken up, or not needed any more. */
  #giveBack(): void {
    this.#reservation?.release();
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
