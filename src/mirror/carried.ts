import type { Readable } from 'node:stream';
import type { ProviderArchive } from '../address/archive.ts';
import type { Hash, Sha256 } from '../address/hash.ts';
import type { ModuleRelease } from '../address/module.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { ReleaseFiles } from '../store/archive-store.ts';
import type { PackageRecord } from '../store/module-store.ts';

/** An archive that is carried from one mirror to another. */
export interface CarriedArchive {
  readonly archive: ProviderArchive;
  /** Bytes. */
  readonly size: number;
  readonly sha256: Sha256;
  /** `undefined` while it is not known. */
  readonly h1: Hash | undefined;
  /** When its file was last written, where it is carried out of a store. */
  readonly storedAt?: Date | undefined;
}

/** A module package that is carried from one mirror to another. */
export interface CarriedPackage extends PackageRecord {
  readonly release: ModuleRelease;
  /** When its file was last written, where it is carried out of a store. */
  readonly storedAt?: Date | undefined;
}

/** Port: what is carried out of. Every method throws StorageFailed, or what a server is in trouble with. */
export interface CarrySource {
  /** All versions of a provider follow each other. */
  archives(): AsyncIterable<CarriedArchive>;
  packages(): AsyncIterable<CarriedPackage>;
  release(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined>;
  openArchive(carried: CarriedArchive): Promise<Readable>;
  openPackage(carried: CarriedPackage): Promise<Readable>;
  /** The file itself, where it is on this machine and never changed in place: it may be linked to. */
  fileOf(carried: CarriedArchive | CarriedPackage): string | undefined;
}

/** Why something that was brought was not taken. */
export type RefusalReason =
  /** Nothing says what it should be. */
  | 'unverifiable'
  /** It is not what it was said to be. */
  | 'digest'
  | 'signature'
  /** Something else is known here under its name. */
  | 'drift'
  /** It is no archive, or one that no client could use. */
  | 'invalid'
  | 'too large'
  /** The mirror that it was brought to does not mirror it. */
  | 'excluded'
  /** Whoever brings it may not bring this. */
  | 'forbidden';

/** What became of something that was brought. */
export type Intake<T> =
  | { readonly outcome: 'imported' | 'present'; readonly stored: T }
  | { readonly outcome: 'refused'; readonly why: RefusalReason; readonly reason: string };

export function refused(why: RefusalReason, reason: string): Intake<never> {
  return { outcome: 'refused', why, reason };
}
