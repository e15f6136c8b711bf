import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { ReleaseFiles } from './archive-store.ts';
import { paths } from './keys.ts';

// SHA256SUMS, signatures and statements by their paths, whatever they rest on.

/** What is to be at a path from now on; without content nothing is. */
export interface ReleaseChange {
  readonly path: string;
  readonly content: Buffer | undefined;
}

/** What has to change, in this order, for a version to have these files; nothing when it has them. */
export function releaseChanges(
  provider: ProviderAddress,
  version: Version,
  { files, known }: { files: ReleaseFiles; known: ReleaseFiles | undefined },
): ReleaseChange[] {
  const { shasums, signature, statement } = files;
  const changes: ReleaseChange[] = [];
  if (!known?.shasums.equals(shasums)) {
    // That of another list says nothing of this one.
    if (!signature) changes.push({ path: paths.signature(provider, version), content: undefined });
    changes.push({ path: paths.shasums(provider, version), content: shasums });
  }
  if (signature && !known?.signature?.equals(signature)) {
    changes.push({ path: paths.signature(provider, version), content: signature });
  }
  if (statement && !known?.statement?.equals(statement)) {
    changes.push({ path: paths.statement(provider, version), content: statement });
  }
  return changes;
}

/** What has to go, in this order, for a version to have none. */
export function releasePaths(provider: ProviderAddress, version: Version): string[] {
  // SHA256SUMS last: the others alone are of no meaning, and whatever is left of an interruption is discarded again.
  return [paths.signature, paths.statement, paths.shasums].map((of) => of(provider, version));
}

/** The files of a version; `undefined` without SHA256SUMS. @param read what is at a path, if anything */
export async function readRelease(
  provider: ProviderAddress,
  version: Version,
  read: (path: string) => Promise<Buffer | undefined>,
): Promise<ReleaseFiles | undefined> {
  const [shasums, signature, statement] = await Promise.all([
    read(paths.shasums(provider, version)),
    read(paths.signature(provider, version)),
    read(paths.statement(provider, version)),
  ]);
  return shasums && { shasums, signature, statement };
}

/** Versions whose SHA256SUMS is among the names in a provider's directory, in the order of these. */
export function releasedVersions(provider: ProviderAddress, names: Iterable<string>): Version[] {
  return [...names].flatMap((name) => {
    const [, text = ''] = /_([^_]+)_SHA256SUMS$/.exec(name) ?? [];
    const version = Version.fromPublished(text);
    return version && paths.shasums(provider, version) === `${paths.provider(provider)}/${name}` ? [version] : [];
  });
}
