import type { Hash } from '../address/hash.ts';
import type { ModuleAddress } from '../address/module.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import { VersionConstraint } from '../address/version-constraint.ts';

/** A place in what a user gave us. */
export interface Origin {
  readonly file: string;
  /** `LINE`, `LINE:COLUMN` or a path of keys; `undefined` for the file as a whole. */
  readonly at: string | undefined;
}

/** `error`: a part could not be used. `warning`: it was, but is not what it seems. `note`: left out on purpose. */
export type Severity = 'error' | 'warning' | 'note';

export interface Diagnostic extends Origin {
  readonly severity: Severity;
  /** What is the matter and how to mend it. Never quotes URLs: they may hold secrets. */
  readonly message: string;
}

/** What a lock file holds of a provider. */
export interface LockedProvider {
  /** The lock file. */
  readonly file: string;
  readonly version: Version;
  readonly hashes: readonly Hash[];
}

/**
 * A provider that somebody needs. There may be several for one address: two configurations side by side, each with a
 * version of its own.
 */
export interface ProviderRequirement {
  readonly address: ProviderAddress;
  /** All of them hold. None: any version. */
  readonly constraints: readonly VersionConstraint[];
  /** Then this is the version that is installed. */
  readonly locked: LockedProvider | undefined;
  readonly origins: readonly Origin[];
}

/** A module that somebody calls from a registry. Each call picks its own version. */
export interface ModuleRequirement {
  readonly address: ModuleAddress;
  readonly constraint: VersionConstraint;
  /** The directory within its package, as in `NAMESPACE/NAME/SYSTEM//SUBDIR`. */
  readonly subdir: string | undefined;
  readonly origins: readonly Origin[];
}

/** What was found in what users have. Whatever could be read is here, however much could not. */
export interface Requirements {
  readonly providers: readonly ProviderRequirement[];
  readonly modules: readonly ModuleRequirement[];
  readonly diagnostics: readonly Diagnostic[];
}

/** Whether this version is one that `init` may install: the locked one, or else one that all constraints accept. */
export function accepts(requirement: ProviderRequirement, version: Version): boolean {
  if (requirement.locked) return String(requirement.locked.version) === String(version);
  return VersionConstraint.all(requirement.constraints).allows(version);
}

/** All of them together, what is the same in several of them once. */
export function mergeRequirements(parts: readonly Requirements[]): Requirements {
  return {
    providers: once(
      parts.flatMap(({ providers }) => providers),
      ({ address, constraints, locked }) =>
        [
          address,
          constraints.map(String).sort().join(', '),
          locked ? `locked ${locked.version} ${[...locked.hashes].sort().join(' ')}` : '',
        ].join('|'),
    ),
    modules: once(
      parts.flatMap(({ modules }) => modules),
      ({ address, constraint, subdir }) => [address, constraint, subdir ?? ''].join('|'),
    ),
    diagnostics: parts.flatMap(({ diagnostics }) => diagnostics),
  };
}

/** `FILE:AT: MESSAGE`, as people and editors expect it. */
export function formatDiagnostic({ file, at, severity, message }: Diagnostic): string {
  return `${file}${at === undefined ? '' : `:${at}`}: ${severity === 'error' ? '' : `${severity}: `}${message}`;
}

/** In order of first appearance. */
function once<T extends { readonly origins: readonly Origin[] }>(all: readonly T[], identity: (one: T) => string): T[] {
  const groups = new Map<string, { first: T; origins: Map<string, Origin> }>();
  for (const one of all) {
    const key = identity(one);
    const group = groups.get(key) ?? { first: one, origins: new Map<string, Origin>() };
    groups.set(key, group);
    for (const origin of one.origins) group.origins.set(`${origin.file}|${origin.at ?? ''}`, origin);
  }
  return [...groups.values()].map(({ first, origins }) => ({ ...first, origins: [...origins.values()] }));
}
