import type { Sha256 } from '../address/hash.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { ArchiveStore, ReleaseFiles } from '../store/archive-store.ts';
import type { ReleaseChecksums, ReleaseStatement } from '../upstream/registry-answers.ts';
import { parseShasums } from '../upstream/shasums.ts';
import { statementFile } from './release-statement.ts';

/** SHA256SUMS as it was first seen, and where upstream's of today contradicts it. */
export interface FirstChecksums {
  readonly files: ReleaseFiles;
  /** By file name: the digest seen first, of files that have another one today. */
  readonly contradicted: ReadonlyMap<string, Sha256>;
}

/**
 * Keeps the first SHA256SUMS of each version on disk beside where its archives go, and holds later ones against it. A list
 * that contradicts nothing takes its place when it names further files: platforms are added to releases. One that only
 * leaves files out does not: what it left out could come back as something else.
 *
 * @param checksums verified
 * @param statement what upstream says with them
 * @throws StorageFailed
 */
export async function firstChecksums(
  store: Pick<ArchiveStore, 'getRelease' | 'putRelease'>,
  provider: ProviderAddress,
  version: Version,
  checksums: ReleaseChecksums,
  statement: ReleaseStatement,
): Promise<FirstChecksums> {
  const { digests } = checksums;
  const kept = await store.getRelease(provider, version);
  const first = kept && digestsIn(kept.shasums);
  const contradicted = new Map([...(first ?? [])].filter(([name, digest]) => (digests.get(name) ?? digest) !== digest));
  if (kept && contradicted.size > 0) return { files: kept, contradicted };
  const addsNothing = kept !== undefined && first !== undefined && [...digests.keys()].every((name) => first.has(name));
  const shasums = addsNothing ? kept.shasums : checksums.shasums;
  // A signature is good for its own list only; that list may have come without one, or have had one before.
  const ofToday = shasums.equals(checksums.shasums) ? checksums.signature : undefined;
  const signature = ofToday ?? (kept?.shasums.equals(shasums) ? kept.signature : undefined);
  const files = { shasums, signature, statement: statementFile(statement) };
  await store.putRelease(provider, version, files);
  return { files, contradicted };
}

/** What is no checksum list any more, because the file was damaged, says nothing. */
function digestsIn(shasums: Buffer): ReadonlyMap<string, Sha256> | undefined {
  try {
    return parseShasums(shasums);
  } catch {
    return undefined;
  }
}
