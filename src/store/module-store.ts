import type { Sha256 } from '../address/hash.ts';
import type { ModuleAddress, ModuleRelease } from '../address/module.ts';
import type { Version } from '../address/version.ts';
import type { ArchiveBody } from './archive-body.ts';
import type { ByteRange, ReadPurpose } from './archive-store.ts';

/** What is remembered of a module version's package, also when the package itself is gone. JSON-compatible. */
export interface PackageRecord {
  /** Of the package as it was first made: what a later one must be, too. */
  readonly sha256: Sha256;
  /** Bytes. */
  readonly size: number;
  /** Where in the package the module is: `modules/vpc`, or empty for its root. */
  readonly subdir: string;
  /** What it was made of, for people: `git::https://github.com/acme/net?ref=v1.0.0`. Holds no secrets. */
  readonly source: string;
  /** Changes when upstream has something else there: a commit, or the validator of an archive. */
  readonly fingerprint: string | undefined;
  /** Somebody brought it in: no upstream may have it, so it never makes room for others. */
  readonly brought?: boolean;
}

/** A package that is wholly here. */
export interface StoredPackage extends PackageRecord {
  readonly release: ModuleRelease;
  readonly storedAt: Date;
}

/** A package that was made, waiting in a file to be taken over. */
export interface MadePackage extends PackageRecord {
  /** In a work directory of the store; it is moved from there. */
  readonly file: string;
}

/** A directory of one's own, on the store's file system. Swept at the next start when a process dies over it. */
export interface WorkDirectory {
  readonly path: string;
  /** Removes it with everything in it. Never throws. */
  remove(): Promise<void>;
}

/**
 * Port: where module packages rest. Present means complete: `find` and `list` speak only of packages that were put
 * here whole, with their record, and still have the right size. What was written to since, as far as that shows, is
 * neither found nor read before its bytes have been compared with its digest again.
 *
 * @throws StorageFailed from every method when the disk fails.
 */
export interface ModuleStore {
  /** One that was altered is put into quarantine. @throws StorageFailed, `busy` while many are being compared */
  find(release: ModuleRelease): Promise<StoredPackage | undefined>;
  /** What `find` would compare, without comparing it: for whoever reads all of it anyway, to `verify` it. */
  peek(release: ModuleRelease): Promise<StoredPackage | undefined>;
  /** The record of a release's package, whether or not the package is (still) here. */
  recall(release: ModuleRelease): Promise<PackageRecord | undefined>;
  /** Everything stored of one module, in no particular order. While nothing changes it is the same array. */
  list(module: ModuleAddress): Promise<readonly StoredPackage[]>;
  /** Versions of which a record is kept, with or without their packages, in no particular order. */
  recorded(module: ModuleAddress): Promise<readonly Version[]>;
  /** Every module of which anything is stored, be it records alone, in lower case. */
  modules(): AsyncIterable<ModuleAddress>;
  /** The stored bytes. A package discarded meanwhile is still read to its end once opened. */
  read(stored: StoredPackage, range?: ByteRange, purpose?: ReadPurpose): Promise<ArchiveBody>;
  /**
   * A URL by which whoever has it may fetch a stored package, for some minutes. Only where clients are to be sent there.
   * @throws StorageFailed, `gone`
   */
  readonly link?: ((stored: StoredPackage) => Promise<string>) | undefined;
  /** Where packages are made. */
  workDirectory(): Promise<WorkDirectory>;
  /**
   * Takes the file over, durably: the package first, then its record, each whole. What is broken off in between is not
   * present. Room is made for it if there is a limit. What was first put under a release stays what it is, whichever
   * replica put it: only the same may take its place, in whatever state that is, until it is forgotten.
   * @throws IntegrityMismatch when the record that is there is of another package; then nothing changes
   */
  put(release: ModuleRelease, made: MadePackage): Promise<StoredPackage>;
  /** Notes that upstream has moved on without changing what the package is made of. Harmless when it is gone. */
  putFingerprint(release: ModuleRelease, fingerprint: string): Promise<void>;
  /** When it was last used by anybody; when it was stored, if never. Costs a look at a file. */
  lastUse(stored: StoredPackage): Promise<Date>;
  /** Puts a damaged package aside, its record stays. @returns the id of its place; `undefined` when it is gone */
  quarantine(stored: StoredPackage, reason: string): Promise<string | undefined>;
  /**
   * Reads the whole file and compares digests. `false` when it is damaged or gone. One that was written to since it was
   * stored, and is intact, needs no further comparison then.
   */
  verify(stored: StoredPackage): Promise<boolean>;
  /** Removes the package; its record stays, so that another one under the same version is noticed. Absent is fine. */
  discard(release: ModuleRelease): Promise<void>;
  /** Removes the package and its record. Absent is fine. */
  forget(release: ModuleRelease): Promise<void>;
  close(): Promise<void>;
}
