import { Readable } from 'node:stream';
import type { Sha256 } from '../address/hash.ts';
import type {
  ArchiveStore,
  ByteRange,
  IncomingArchive,
  IncomingReader,
  StoredArchive,
} from '../store/archive-store.ts';
import type { ArchiveBody, ReadableArchive } from './readable-archive.ts';

/** Withheld until the whole archive is verified. Without its end, where the directory of a zip is, it cannot be used. */
const WITHHELD_BYTES = 64 * 1024;
/** What one follower reads at once: there may be many of them, each with this much in memory. */
const READ_BYTES = 64 * 1024;

type Outcome = { readonly stored: StoredArchive } | { readonly error: Error };

/** An archive that is arriving: bytes come in at its end, and any number of followers read what is there already. */
export class Arrival implements ReadableArchive {
  readonly state = 'arriving';
  readonly storedAt = undefined;
  readonly sha256: Sha256;
  readonly size: number | undefined;
  readonly #store: ArchiveStore;
  readonly #incoming: IncomingArchive;
  readonly #followers = new Set<Follower>();
  readonly #ended: Promise<void>;
  #written = 0;
  #isVerified = false;
  #outcome: Outcome | undefined;

  constructor(deps: {
    store: ArchiveStore;
    incoming: IncomingArchive;
    sha256: Sha256;
    size: number | undefined;
    /** The end of the download, which may have begun anew by then. */
    ended: Promise<void>;
  }) {
    this.#store = deps.store;
    this.#incoming = deps.incoming;
    this.sha256 = deps.sha256;
    this.size = deps.size;
    this.#ended = deps.ended;
  }

  /** Bytes that have come in. */
  get written(): number {
    return this.#written;
  }

  /** @throws StorageFailed */
  async append(chunk: Uint8Array): Promise<void> {
    await this.#incoming.write(chunk);
    this.#written += chunk.length;
    for (const follower of this.#followers) follower.wake();
  }

  /** Everything has come in and has the right digest: followers get the rest, and need not wait for it to be put away. */
  verified(): void {
    this.#isVerified = true;
    for (const follower of this.#followers) follower.wake();
  }

  /** It is in the store. */
  complete(stored: StoredArchive): void {
    this.#outcome = { stored };
  }

  /** It will not be in the store. Followers end with the error, unless it was only the putting away that failed. */
  fail(error: Error): void {
    this.#outcome = { error };
    if (this.#isVerified) return;
    for (const follower of this.#followers) follower.destroy(error);
  }

  settled(): Promise<void> {
    return this.#ended;
  }

  async stream(range?: ByteRange): Promise<ArchiveBody> {
    if (this.#outcome && 'error' in this.#outcome) throw this.#outcome.error;
    if (this.#outcome) return this.#store.read(this.#outcome.stored, range);
    const reader = await this.#incoming.openReader();
    const follower: Follower = new Follower({
      reader,
      range,
      visible: () => this.#visible(),
      isComplete: () => this.#isVerified,
      onClose: () => void this.#followers.delete(follower),
    });
    // It may have failed while the reader was being opened.
    const outcome = this.#outcome as Outcome | undefined;
    if (outcome && 'error' in outcome) {
      follower.destroy();
      throw outcome.error;
    }
    this.#followers.add(follower);
    return follower;
  }

  /** How many bytes from the beginning followers may have. */
  #visible(): number {
    if (this.#isVerified) return this.#written;
    // Without a known size any byte may be among the last.
    const releasable = (this.size ?? this.#written) - WITHHELD_BYTES;
    return Math.max(0, Math.min(this.#written, releasable));
  }
}

/** Reads behind the download, at its own pace. Destroying it touches nothing else. */
class Follower extends Readable implements ArchiveBody {
  readonly #reader: IncomingReader;
  readonly #visible: () => number;
  readonly #isComplete: () => boolean;
  readonly #onClose: () => void;
  readonly #end: number;
  #position: number;
  /** Memory that was given back, and, by what stands for it in chunks, memory that is out. */
  readonly #free: Buffer[] = [];
  readonly #lent = new WeakSet<ArrayBufferLike>();
  #isReading = false;
  #isWaiting = false;

  constructor(deps: {
    reader: IncomingReader;
    range: ByteRange | undefined;
    visible: () => number;
    isComplete: () => boolean;
    onClose: () => void;
  }) {
    super({ highWaterMark: READ_BYTES });
    this.#reader = deps.reader;
    this.#visible = deps.visible;
    this.#isComplete = deps.isComplete;
    this.#onClose = deps.onClose;
    this.#position = deps.range?.start ?? 0;
    this.#end = deps.range ? deps.range.end + 1 : Number.POSITIVE_INFINITY;
    // The download may fail before whoever asked for this stream has begun to listen.
    this.on('error', () => {});
  }

  release({ buffer }: Buffer): void {
    // Chunks that were joined on their way are no memory of ours.
    if (this.#lent.delete(buffer)) this.#free.push(Buffer.from(buffer));
  }

  /** More may be visible than before. */
  wake(): void {
    if (!this.#isWaiting) return;
    this.#isWaiting = false;
    this._read();
  }

  override _read(): void {
    const until = Math.min(this.#visible(), this.#end);
    if (until > this.#position) {
      void this.#fill(until);
    } else if (this.#position >= this.#end || this.#isComplete()) {
      this.push(null);
    } else {
      this.#isWaiting = true;
    }
  }

  async #fill(until: number): Promise<void> {
    this.#isReading = true;
    try {
      // Slow: not a slice of memory that others have slices of, too.
      const buffer = this.#free.pop() ?? Buffer.allocUnsafeSlow(READ_BYTES);
      this.#lent.add(buffer.buffer);
      const wanted = buffer.subarray(0, Math.min(READ_BYTES, until - this.#position));
      const length = await this.#reader.read(wanted, this.#position);
      if (length === 0) throw new Error('an arriving archive is shorter than what was written');
      this.#position += length;
      this.#isReading = false;
      if (this.destroyed) await this.#reader.close();
      else this.push(buffer.subarray(0, length));
    } catch (error) {
      this.#isReading = false;
      if (this.destroyed) await this.#reader.close();
      else this.destroy(error as Error);
    }
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#onClose();
    // A read under way closes the reader when it is done with it.
    if (!this.#isReading) void this.#reader.close();
    callback(error);
  }
}
