import type { Sha256 } from '../address/hash.ts';
import type { ArchiveBody } from '../store/archive-body.ts';
import type {
  ArchiveStore,
  ByteRange,
  IncomingArchive,
  IncomingReader,
  StoredArchive,
} from '../store/archive-store.ts';
import { Follower } from './follower.ts';
import type { ReadableArchive } from './readable-archive.ts';

/** Withheld until the whole archive is verified. Without its end, where the directory of a zip is, it cannot be used. */
const WITHHELD_BYTES = 64 * 1024;

type Outcome = { readonly stored: StoredArchive } | { readonly error: Error };

/** Where the bytes are that have come in: an incoming archive of ours, or that of another replica. */
export type ArrivingBytes = Pick<IncomingArchive, 'openReader'>;

/** An archive that is arriving: bytes come in at its end, and any number of followers read what is there already. */
export class Arrival implements ReadableArchive {
  readonly state = 'arriving';
  readonly storedAt = undefined;
  readonly sha256: Sha256;
  readonly size: number | undefined;
  readonly #store: ArchiveStore;
  readonly #followers = new Set<Follower>();
  readonly #ended: Promise<void>;
  #bytes: ArrivingBytes;
  #written = 0;
  #isVerified = false;
  #outcome: Outcome | undefined;

  constructor(deps: {
    store: ArchiveStore;
    bytes: ArrivingBytes;
    sha256: Sha256;
    size: number | undefined;
    /** The end of the download, which may have begun anew by then. */
    ended: Promise<void>;
  }) {
    this.#store = deps.store;
    this.#bytes = deps.bytes;
    this.sha256 = deps.sha256;
    this.size = deps.size;
    this.#ended = deps.ended;
  }

  /** Bytes that have come in. */
  get written(): number {
    return this.#written;
  }

  /** Everything has come in and is right: it is being put away. */
  get isVerified(): boolean {
    return this.#isVerified;
  }

  /** So many bytes have come in. */
  grewTo(written: number): void {
    this.#written = written;
    this.#wake();
  }

  /** The same bytes, and all that come, are to be had there from now on. Who reads notices nothing. */
  async moveTo(bytes: ArrivingBytes): Promise<void> {
    this.#bytes = bytes;
    for (const follower of [...this.#followers]) {
      try {
        follower.readFrom(await bytes.openReader());
      } catch (error) {
        follower.destroy(error as Error);
      }
    }
  }

  /** Everything has come in and has the right digest: followers get the rest, and need not wait for it to be put away. */
  verified(): void {
    this.#isVerified = true;
    this.#wake();
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
    const follower: Follower = new Follower({
      reader: await this.#openReader(),
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

  /** Where the bytes are at the end of it, should they move meanwhile. */
  async #openReader(): Promise<IncomingReader> {
    for (;;) {
      const bytes = this.#bytes;
      const reader = await bytes.openReader();
      if (bytes === this.#bytes) return reader;
      await reader.close();
    }
  }

  #wake(): void {
    for (const follower of this.#followers) follower.wake();
  }

  /** How many bytes from the beginning followers may have. */
  #visible(): number {
    if (this.#isVerified) return this.#written;
    // Without a known size any byte may be among the last.
    const releasable = (this.size ?? this.#written) - WITHHELD_BYTES;
    return Math.max(0, Math.min(this.#written, releasable));
  }
}
