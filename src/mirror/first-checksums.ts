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
 * that only names more files takes its place: platforms are added to releases.
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
  const { shasums, digests } = checksums;
  const kept = await store.getRelease(provider, version);
  const first = kept && digestsIn(kept.shasums);
  const contradicted = new Map([...(first ?? [])].filter(([name, digest]) => (digests.get(name) ?? digest) !== digest));
  if (kept && contradicted.size > 0) return { files: kept, contradicted };
  // One that is only passed on, and did not come in time, is still good for the same list.
  const signature = checksums.signature ?? (kept?.shasums.equals(shasums) ? kept.signature : undefined);
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
