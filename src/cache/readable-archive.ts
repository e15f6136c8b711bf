import type { Readable } from 'node:stream';
import type { Sha256 } from '../address/hash.ts';
import type { ArchiveBody } from '../store/archive-body.ts';
import type { ByteRange, ReleaseFiles } from '../store/archive-store.ts';

/** An archive that can be sent to a client now: stored, or still arriving. */
export interface ReadableArchive {
  readonly state: 'stored' | 'arriving';
  /** Bytes; `undefined` while arriving from an upstream that did not tell. */
  readonly size: number | undefined;
  readonly sha256: Sha256;
  readonly storedAt: Date | undefined;
  /** Bytes that have come in so far. Only while arriving. */
  readonly written?: number | undefined;
  /**
   * Resolves once it is in the store, rejects with what keeps it out of there. Nobody has to read for that. Only while
   * arriving.
   */
  settled?(): Promise<void>;
  /**
   * Where whoever asks may fetch the bytes for themselves, for some minutes. Only of what is stored where clients are to
   * be sent; `undefined` when it cannot be told any more. @throws StorageFailed
   */
  link?(): Promise<string | undefined>;
  /**
   * The bytes. While arriving, follows the download and withholds the last bytes until the whole file is verified; the
   * stream is destroyed with the download's error if that fails. Destroying it never disturbs the download.
   */
  stream(range?: ByteRange): Promise<ArchiveBody>;
}

/** Where an absent archive comes from, and what it must turn out to be. Produced by the mirror's `load` function. */
export interface ArchiveSource {
  readonly sha256: Sha256;
  /** Bytes, when upstream's metadata tells. */
  readonly size: number | undefined;
  /** Kept beside the archive. */
  readonly release: ReleaseFiles | undefined;
  /** Upstream's bytes from `offset` on. Called again with a higher offset to resume after an interruption. */
  open(offset: number, signal: AbortSignal): Promise<OpenedSource>;
}

export interface OpenedSource {
  readonly body: Readable;
  /** Where `body` begins: the offset asked for, or 0 when upstream cannot resume. */
  readonly offset: number;
  /** Of the whole archive, when told. */
  readonly size: number | undefined;
  /** Where the bytes come from, for error messages: the provider's registry unless told. */
  readonly host?: string | undefined;
}
