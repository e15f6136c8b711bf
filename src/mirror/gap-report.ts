import type { Hostname } from '../address/hostname.ts';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import type { Platform } from '../address/platform.ts';
import type { Version } from '../address/version.ts';
import type { VersionConstraint } from '../address/version-constraint.ts';
import type { Diagnostic, Origin } from '../configuration/requirements.ts';
import type { Wish } from './wanted.ts';

/**
 * - `archive`: a provider's version is known, and its archive for a platform is not stored
 * - `provider`, `module`: no version that is stored is accepted
 * - `unsupported`: a provider's version does not exist for a platform, wherever it is fetched from
 * - `altered`: it is stored, and not what it was when it was stored: nobody gets it
 * - `young`: it is not stored, and too new to be brought in yet (cooldown)
 * - `lock`: an archive is stored, and the lock file accepts none of its hashes
 * - `contradicted`: the same, and the lock file has a digest that the registry's SHA256SUMS does not list
 * - `refused`: it is not to be had here, stored or not
 */
export type GapKind =
  | 'archive'
  | 'provider'
  | 'module'
  | 'unsupported'
  | 'altered'
  | 'young'
  | 'lock'
  | 'contradicted'
  | 'refused';

/** One thing that `init` would fail on. */
export interface Gap {
  readonly kind: GapKind;
  readonly address: MirroredAddress;
  /** The one that `init` picks or has to have; `undefined` when there is none. */
  readonly version: Version | undefined;
  /** Empty for any version. */
  readonly constraint: VersionConstraint;
  /** On which it would fail; none of modules. */
  readonly platforms: readonly Platform[];
  /** For people. */
  readonly reason: string;
  /** Versions that are stored, newest first. */
  readonly stored: readonly Version[];
  /** Who accepts other hashes. */
  readonly lockFile: string | undefined;
  /** Places that ask for it. */
  readonly wantedBy: readonly Origin[];
}

export interface GapReport {
  readonly gaps: readonly Gap[];
  readonly diagnostics: readonly Diagnostic[];
  readonly platforms: readonly Platform[];
  /** By whose rules the files were read. */
  readonly client: Wish['client'];
  /** The registry that was meant where none is named; `undefined` when all are: then all clients read the same. */
  readonly impliedHostname: Hostname | undefined;
  /** What was looked for and is here. */
  readonly present: { readonly archives: number; readonly packages: number };
}
