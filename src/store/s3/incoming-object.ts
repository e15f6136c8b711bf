import type { Sha256 } from '../../address/hash.ts';
import type { IncomingArchive, IncomingReader, StoredArchive } from '../archive-store.ts';
import { IncomingFile } from '../incoming-file.ts';
import { unlimitedRoom } from '../room.ts';
import type { BucketDeps } from './bucket-deps.ts';
import type { Condition, Written } from './bucket-requests.ts';
import { Upload } from './upload.ts';

/** What has arrived and was verified. */
export interface Arrived {
  /** The local file, from now on the publisher's. */
  readonly partial: string;
  /** Bytes. */
  readonly size: number;
  readonly sha256: Sha256;
  /** Puts it under its key. May be called again after a conflict; then everything is sent once more. */
  finish(condition: Condition): Promise<Written>;
}

/** An archive that is written to a local file, and sent to the bucket as it grows. */
export class IncomingObject implements IncomingArchive {
  readonly #file: IncomingFile;
  readonly #upload: Upload;
  #written = 0;

  private constructor(file: IncomingFile, upload: Upload) {
    this.#file = file;
    this.#upload = upload;
  }

  /** @throws StorageFailed */
  static async open(
    deps: BucketDeps,
    { key, publish }: { key: string; publish: (arrived: Arrived) => Promise<StoredArchive> },
  ): Promise<IncomingObject> {
    const { bucket, partials, keeping, sending: inTurn, logger } = deps;
    const { path, handle } = await partials.create();
    const newUpload = () => new Upload({ bucket, key, path, inTurn, logger });
    const first = newUpload();
    let next: Upload | undefined = first;
    const file = new IncomingFile({
      path,
      handle,
      reserve: unlimitedRoom.reserve,
      hold: () => keeping.holds.hold(key),
      publish: async (partial, size, sha256) => {
        const finish = (condition: Condition) => {
          const upload = next ?? newUpload();
          next = undefined;
          return upload.finish(size, condition);
        };
        return { path: partial, stored: await publish({ partial, size, sha256, finish }) };
      },
    });
    return new IncomingObject(file, first);
  }

  expect(size: number): Promise<void> {
    return this.#file.expect(size);
  }

  async write(chunk: Uint8Array): Promise<void> {
    await this.#file.write(chunk);
    this.#written += chunk.length;
    this.#upload.grew(this.#written);
  }

  openReader(): Promise<IncomingReader> {
    return this.#file.openReader();
  }

  commit(sha256: Sha256): Promise<StoredArchive> {
    return this.#file.commit(sha256);
  }

  async abort(): Promise<void> {
    await this.#upload.abort();
    await this.#file.abort();
  }
}
