import { createHash } from 'node:crypto';
import { createReadStream, type Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { type Hash, parseSha256, type Sha256, sha256Of } from '../address/hash.ts';
import { fileIdentity } from './mirror-documents.ts';
import type { PackageHasher } from './package-hash.ts';
import { ifPresent } from './storage-errors.ts';

/** A file that was written to this recently may still be being copied in: it is not judged by what it lacks. */
const UNSETTLED_MS = 10_000;
const READ_BYTES = 256 * 1024;

export type Judgement =
  | { readonly verdict: 'verified'; readonly sha256: Sha256; readonly h1: Hash | undefined }
  | { readonly verdict: 'contradicted'; readonly sha256: Sha256 }
  /** Nothing to compare with, or it changed while it was being read. */
  | { readonly verdict: 'unverifiable' };

/**
 * Compares an archive that somebody else put in place with the hashes it is known by; one match is enough.
 * @throws StorageFailed
 */
export async function judge(
  path: string,
  file: Stats,
  known: readonly Hash[],
  hasher: PackageHasher,
): Promise<Judgement> {
  const digests = known.flatMap((hash) => sha256Of(hash) ?? []);
  const packageHashes = known.filter((hash) => hash.startsWith('h1:'));
  const sha256 = known.length > 0 ? await digestOf(path) : undefined;
  if (!sha256) return { verdict: 'unverifiable' };

  let h1: Hash | undefined;
  if (!digests.includes(sha256) && packageHashes.length > 0) {
    const outcome = await hasher.hash(path);
    h1 = 'hash' in outcome ? outcome.hash : undefined;
  }
  const after = await ifPresent('looking for an archive', stat(path));
  if (!after || fileIdentity(after) !== fileIdentity(file)) return { verdict: 'unverifiable' };
  if (digests.includes(sha256) || (h1 && packageHashes.includes(h1))) return { verdict: 'verified', sha256, h1 };
  const contradicted = (digests.length > 0 || h1 !== undefined) && isSettled(file);
  return contradicted ? { verdict: 'contradicted', sha256 } : { verdict: 'unverifiable' };
}

/** Of a whole file; `undefined` when it is not there. @throws StorageFailed, also when the signal breaks it off */
export async function digestOf(path: string, signal?: AbortSignal): Promise<Sha256 | undefined> {
  const digest = createHash('sha256');
  const read = pipeline(createReadStream(path, { highWaterMark: READ_BYTES }), digest, { ...(signal && { signal }) });
  const isThere = await ifPresent(
    'reading an archive',
    read.then(() => true),
  );
  return isThere ? parseSha256(digest.digest('hex')) : undefined;
}

export function isSettled({ mtime }: Pick<Stats, 'mtime'>): boolean {
  return Date.now() - mtime.getTime() > UNSETTLED_MS;
}
