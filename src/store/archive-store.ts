import type { ProviderArchive } from '../address/archive.ts';
import type { Hash, Sha256 } from '../address/hash.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { ArchiveBody } from './archive-body.ts';

/** Byte positions, both inclusive, as in a Range header. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Why something stored is read. A `use` says that somebody needs it: what was not used for the longest time makes room for
 * others first. A `look` says nothing: it is carried away, or looked into.
 */
export type ReadPurpose = 'use' | 'look';

/** An archive that is wholly here and was verified. */
export interface StoredArchive {
  readonly archive: ProviderArchive;
  /** Bytes. */
  readonly size: number;
  /** Of the whole file, as verified when it was stored. */
  readonly sha256: Sha256;
  /** Go's dirhash of the package, once computed. */
  readonly h1: Hash | undefined;
  readonly storedAt: Date;
}

/** The `h1:` of a package in its two forms, which differ where the zip has entries for directories. */
export interface ComputedHashes {
  /** Of the zip with all its entries: what mirrors publish. */
  readonly zip: Hash;
  /** Of the files alone, as they lie unpacked: what clients put into lock files, and look for there. */
  readonly unpacked: Hash;
}

/** What upstream published beside a version's archives, byte for byte. */
export interface ReleaseFiles {
  readonly shasums: Buffer;
  readonly signature: Buffer | undefined;
  /** What upstream says of the version besides: keys, protocols, hashes of all platforms. JSON. */
  readonly statement?: Buffer | undefined;
}

/**
 * Port: where archives rest. Present means verified: `find` and `list` speak only of archives that were committed
 * with the right digest and still have the right size. What was written to since, as far as that shows, is neither found
 * nor read before its bytes have been compared with the digest again.
 *
 * @throws StorageFailed from every method when the disk (or bucket) fails.
 */
export interface ArchiveStore {
  /**
   * Costs no more than a look at the file. Only a file that somebody else put in place, with hashes beside it, and one
   * that was written to since it was stored, is read and compared, once. A file that has lost its size is discarded, one
   * that was altered is put into quarantine.
   * @throws StorageFailed, `busy` while many are being compared
   */
  find(archive: ProviderArchive): Promise<StoredArchive | undefined>;
  /** What `find` would compare, without comparing it: for whoever reads all of it anyway, to `verify` it. */
  peek(archive: ProviderArchive): Promise<StoredArchive | undefined>;
  /**
   * Everything stored of one provider, in no particular order. Files that somebody else put in place are in it as soon
   * as they have been compared with the hashes beside them, which a list waits for a few seconds at most. What other
   * processes do may show a moment later. While nothing changes it is the same array: what is made of it can be kept.
   */
  list(provider: ProviderAddress): Promise<readonly StoredArchive[]>;
  /** Every provider of which anything is stored, be it checksums alone. */
  providers(): AsyncIterable<ProviderAddress>;
  /** The stored bytes. An archive discarded meanwhile is still read to its end once opened. */
  read(stored: StoredArchive, range?: ByteRange, purpose?: ReadPurpose): Promise<ArchiveBody>;
  /**
   * A URL by which whoever has it may fetch a stored archive, for some minutes. Only where clients are to be sent there.
   * @throws StorageFailed, `gone`
   */
  readonly link?: ((stored: StoredArchive) => Promise<string>) | undefined;
  /** Opens a place aside for an archive that is arriving. Nothing of it is visible to `find` before `commit`. */
  receive(archive: ProviderArchive): Promise<IncomingArchive>;
  /**
   * What another replica is writing, by the `partialName` that it told. `undefined` when it is not there. Stores in which
   * replicas cannot see each other's unfinished archives do not have it.
   */
  openPartial?(name: string): Promise<PartialArchive | undefined>;
  /**
   * Takes over a file that lies in the archive's place without a record: copied in, or left by a crash. It must have
   * the expected digest or a hash that is recorded beside it; one that contradicts them is discarded, and one of which
   * nothing is known is left alone. `undefined` when there is nothing to take over, which costs one look.
   */
  adopt(archive: ProviderArchive, expected?: { readonly sha256: Sha256 }): Promise<StoredArchive | undefined>;
  /** Keeps them beside the version's archives. */
  putRelease(provider: ProviderAddress, version: Version, files: ReleaseFiles): Promise<void>;
  getRelease(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined>;
  /** Versions of which SHA256SUMS is kept, with or without archives, in no particular order. */
  releases(provider: ProviderAddress): Promise<readonly Version[]>;
  /** Removes SHA256SUMS and what goes with it; the archives stay. Absent is fine. */
  discardRelease(provider: ProviderAddress, version: Version): Promise<void>;
  /** Remembers the computed package hash of a stored archive. Harmless when that is gone, or another one by now. */
  putPackageHash(stored: Pick<StoredArchive, 'archive' | 'sha256'>, h1: Hash): Promise<void>;
  /**
   * Computes the `h1:` of a stored archive, off the event loop. `undefined` when the file is no readable zip.
   * @throws StorageFailed, `gone` when it was altered; when it is not there any more it is one or the other
   */
  computePackageHash(stored: StoredArchive): Promise<ComputedHashes | undefined>;
  /** When it was last used by anybody; when it was stored, if never. Costs a look at a file. */
  lastUse(stored: StoredArchive): Promise<Date>;
  /**
   * Reads the whole file and compares digests. `false` when it is damaged or gone. One that was written to since it was
   * stored, and is intact, needs no further comparison then.
   */
  verify(stored: StoredArchive): Promise<boolean>;
  /** Puts a damaged archive aside instead of removing it. @returns the id of its place; `undefined` when it is gone */
  quarantine(stored: StoredArchive, reason: string): Promise<string | undefined>;
  /** Removes the archive and what is remembered of it. Absent is fine. */
  discard(archive: ProviderArchive): Promise<void>;
  /** For `/readyz`: rejects when nothing can be read or written. @throws StorageFailed, `readable` when it is only the writing */
  check(): Promise<void>;
  close(): Promise<void>;
}

/** An archive that is being written, and can already be read as far as it has come. */
export interface IncomingArchive {
  /** By which other replicas find it, where they can. */
  readonly partialName?: string | undefined;
  /**
   * Told how many bytes will come, before the first. Room is made for them if there is a limit.
   * @throws StorageFailed when there is no room for them
   */
  expect(size: number): Promise<void>;
  /** Appends. Applies backpressure: await it. */
  write(chunk: Uint8Array): Promise<void>;
  /** Bytes appended so far are readable through this at any time, also after `commit`. `end` inclusive. */
  openReader(): Promise<IncomingReader>;
  /** Makes it durable and visible under its final name. The caller has verified `sha256` over exactly the bytes written. */
  commit(sha256: Sha256): Promise<StoredArchive>;
  /** Removes what was written. Harmless after `commit`. */
  abort(): Promise<void>;
}

/** An archive that another replica is writing. It can still be read when that replica has finished, or died over it. */
export interface PartialArchive {
  /** Bytes that have come in so far. */
  size(): Promise<number>;
  openReader(): Promise<IncomingReader>;
  /** Readers that are open stay so. */
  close(): Promise<void>;
}

export interface IncomingReader {
  /** Reads up to `buffer.length` bytes from `position`; resolves to the number read. */
  read(buffer: Uint8Array, position: number): Promise<number>;
  close(): Promise<void>;
}
