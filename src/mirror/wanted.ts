import type { ProviderArchive } from '../address/archive.ts';
import type { Hash } from '../address/hash.ts';
import type { Hostname } from '../address/hostname.ts';
import type { ModuleRelease } from '../address/module.ts';
import type { Platform } from '../address/platform.ts';
import type { Diagnostic, Requirements } from '../configuration/requirements.ts';

/** What somebody needs, as they brought it. */
export interface Wish {
  /** Files with their paths relative to each other: lock files, configuration in both syntaxes, warm lists. */
  readonly files: readonly { readonly path: string; readonly text: string }[];
  /** Empty: those of the configuration. */
  readonly platforms: readonly Platform[];
  /** Whose rules hold where the two clients differ: default registry, `.tofu` files. */
  readonly client: 'opentofu' | 'terraform';
}

/** One thing that has to be here for `init` to go through. */
export type WantedItem =
  | { readonly kind: 'archive'; readonly archive: ProviderArchive }
  | { readonly kind: 'package'; readonly release: ModuleRelease };

/** What a wish comes down to. */
export type PlannedItem =
  | {
      readonly wanted: WantedItem;
      /** Of an archive whose version is locked: the hashes that are accepted of it, on whatever platform. */
      readonly locked?: readonly Hash[];
    }
  /** What it could not be brought down to: no such provider, no version that fits, a platform it does not exist for. */
  | {
      readonly unplanned: string;
      readonly outcome: 'unsupported' | 'failed';
      readonly reason: string;
    };

/** A wish that was read. */
export interface ReadWish {
  readonly requirements: Requirements;
  readonly platforms: readonly Platform[];
  readonly diagnostics: readonly Diagnostic[];
  /** Whose registry is meant where none is named; `undefined` when all are named: then nobody's rules decide about that. */
  readonly impliedHostname: Hostname | undefined;
}
