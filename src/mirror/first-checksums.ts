import type { Sha256 } from '../address/hash.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { ArchiveStore, ReleaseFiles } from '../store/archive-store.ts';
import type { ReleaseChecksums, ReleaseStatement } from '../upstream/registry-answers.ts';
import { parseShasums } from '../upstream/shasums.ts';
import { parseStatementFile, statementFile } from './release-statement.ts';

/** SHA256SUMS as it was first seen, and where upstream's of today contradicts it. */
export interface FirstChecksums {
  readonly files: ReleaseFiles;
  /** The digest of a file that was seen first, if it has another one today, be it under another name. */
  seenFirst(name: string, today: Sha256): Sha256 | undefined;
}

/**
 * Keeps the first SHA256SUMS of each version on disk beside where its archives go, and holds later ones against it. A list
 * that contradicts nothing takes its place when it names further files: platforms are added to releases. One that only
 * leaves files out does not: what it left out could come back as something else. Where upstream has no list today, the
 * one that it had stands.
 *
 * @param checksums verified
 * @param statement what upstream says with them
 * @returns `undefined` when there is no list, and never was
 * @throws StorageFailed
 */
export async function firstChecksums(
  store: Pick<ArchiveStore, 'getRelease' | 'putRelease'>,
  provider: ProviderAddress,
  version: Version,
  checksums: ReleaseChecksums,
  statement: ReleaseStatement,
): Promise<FirstChecksums | undefined> {
  const { digests } = checksums;
  const kept = await store.getRelease(provider, version);
  const first = kept && digestsIn(kept.shasums);
  const missing = [...(first ?? [])].filter(([name]) => !digests.has(name));
  const seenFirst = (name: string, today: Sha256) => {
    const digest = first?.get(name) ?? ofSamePlatform(name, missing);
    return digest === today ? undefined : digest;
  };
  if (checksums.shasums.length === 0) return kept && first && { files: kept, seenFirst };
  if (kept && [...digests].some(([name, digest]) => seenFirst(name, digest))) return { files: kept, seenFirst };
  const addsNothing = kept !== undefined && first !== undefined && [...digests.keys()].every((name) => first.has(name));
  const shasums = addsNothing ? kept.shasums : checksums.shasums;
  const vouching = vouchingFor(shasums, { ...checksums, statement }, kept);
  const files = { shasums, signature: vouching.signature, statement: statementFile(vouching.statement) };
  await store.putRelease(provider, version, files);
  return { files, seenFirst };
}

/** What proves a list to whoever verifies it: a signature, and among the rest the keys that it was made with. */
interface Vouching {
  readonly signature: Buffer | undefined;
  readonly statement: ReleaseStatement;
}

/**
 * A signature is good for its own list only, and only with its own keys. Upstream's list of today may be another than
 * the one that is handed out, or have come without signature or keys: then those stay that the list had before.
 */
function vouchingFor(
  shasums: Buffer,
  today: Vouching & { readonly shasums: Buffer },
  kept: ReleaseFiles | undefined,
): Vouching {
  const { statement } = today;
  const ofToday = { signature: shasums.equals(today.shasums) ? today.signature : undefined, statement };
  if (!kept?.signature || !kept.shasums.equals(shasums)) return ofToday;
  const keys = kept.statement && parseStatementFile(kept.statement)?.signing_keys;
  const isLess = !hasKeys(statement.signing_keys) && hasKeys(keys);
  if (ofToday.signature && !isLess) return ofToday;
  return { signature: kept.signature, statement: keys ? { ...statement, signing_keys: keys } : statement };
}

function hasKeys(keys: ReleaseStatement['signing_keys'] | undefined): boolean {
  return keys !== undefined && keys.gpg_public_keys.length > 0;
}

/** Under another name, other bytes are other bytes still. */
function ofSamePlatform(
  name: string,
  others: readonly (readonly [name: string, digest: Sha256])[],
): Sha256 | undefined {
  const [ending] = /_[a-z0-9]+_[a-z0-9]+\.zip$/.exec(name) ?? [];
  return ending === undefined ? undefined : others.find(([other]) => other.endsWith(ending))?.[1];
}

/** What is no checksum list any more, because the file was damaged, says nothing. */
function digestsIn(shasums: Buffer): ReadonlyMap<string, Sha256> | undefined {
  try {
    return parseShasums(shasums);
  } catch {
    return undefined;
  }
}
