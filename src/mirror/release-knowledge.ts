import { z } from 'zod';
import type { ProviderArchive } from '../address/archive.ts';
import { type Hash, parseHash, type Sha256, sha256Of } from '../address/hash.ts';
import { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { hasCode } from '../errors.ts';
import type { ReleaseFiles } from '../store/archive-store.ts';
import type { ReleaseStatement } from '../upstream/registry-answers.ts';
import { parseShasums } from '../upstream/shasums.ts';
import { verifySignature } from '../upstream/signature.ts';
import { parseStatementFile } from './release-statement.ts';

/** What SHA256SUMS and what goes with it tell of a version, without any archive. */
export interface ReleaseKnowledge {
  /** Every line of SHA256SUMS, also those of files that are no archives. Empty when there is none. */
  readonly digests: ReadonlyMap<string, Sha256>;
  /** Of its archives. */
  readonly archives: readonly Sha256[];
  /** Whether the signature is there and is good. */
  readonly isSigned: boolean;
  /** What is wrong with the signature. */
  readonly objection: string | undefined;
  /** Whether there is a signature at all, and a key of the registry to check it with. */
  readonly isCheckable: boolean;
  /** Whether the registry gave a key with it: then it signs. */
  readonly hasKeys: boolean;
  /** Those of which the registry tells hashes besides; it need not. */
  readonly statedPlatforms: readonly Platform[];
  /** `undefined` when it is not listed. */
  packageOf(archive: ProviderArchive): { readonly sha256: Sha256; readonly h1: Hash | undefined } | undefined;
}

/**
 * Reads what is kept of a release, and checks its signature whatever was thought of it when it came in.
 * @throws UpstreamInvalid, IntegrityMismatch when SHA256SUMS cannot be read
 */
export async function releaseKnowledge(
  provider: ProviderAddress,
  files: ReleaseFiles | undefined,
): Promise<ReleaseKnowledge> {
  const digests = files ? parseShasums(files.shasums, provider.hostname.toString()) : new Map<string, Sha256>();
  const statement = files?.statement && parseStatementFile(files.statement);
  const armoredKeys = keysIn(statement);
  const objection = files && (await objectionTo(files, armoredKeys));
  const listed = new Set(digests.values());
  return {
    digests,
    archives: [...digests].flatMap(([name, digest]) => (name.endsWith('.zip') ? [digest] : [])),
    isSigned: files !== undefined && objection === undefined,
    objection,
    isCheckable: files?.signature !== undefined && armoredKeys.length > 0,
    hasKeys: armoredKeys.length > 0,
    statedPlatforms: Object.keys(statement?.packages ?? {}).flatMap(platformIn),
    packageOf: ({ filename, platform }) => {
      const told = hashesIn(statement?.packages?.[platform.toString()]);
      // Publishers name archives as they like, and sign those of other products along: the registry knows which one it is.
      const byName = digests.get(filename) ?? [...digests].find(([name]) => name.endsWith(`_${platform}.zip`))?.[1];
      const sha256 = told.flatMap((hash) => sha256Of(hash) ?? []).find((digest) => listed.has(digest)) ?? byName;
      if (!sha256) return undefined;
      // Of these bytes, or of none that are of interest.
      const agrees = told.some((hash) => sha256Of(hash) === sha256);
      return { sha256, h1: agrees ? told.find((hash) => hash.startsWith('h1:')) : undefined };
    },
  };
}

async function objectionTo(
  { shasums, signature }: ReleaseFiles,
  armoredKeys: readonly string[],
): Promise<string | undefined> {
  if (!signature) return 'SHA256SUMS is not signed';
  if (armoredKeys.length === 0) return 'the registry gives no key for the signature of SHA256SUMS';
  try {
    await verifySignature({ shasums, signature, armoredKeys });
    return undefined;
  } catch (error) {
    if (!hasCode(error, 'INTEGRITY_MISMATCH')) throw error;
    return error.message;
  }
}

function keysIn(statement: ReleaseStatement | undefined): string[] {
  const keys = statement?.signing_keys.gpg_public_keys ?? [];
  return keys.flatMap(({ ascii_armor: armor }) => (typeof armor === 'string' ? [armor] : []));
}

/** None of what is no platform. */
function platformIn(text: string): Platform[] {
  try {
    return [Platform.parse(text)];
  } catch {
    return [];
  }
}

const entry = z.object({ hashes: z.array(z.string()) });

/** Of an entry of the registry's `packages`; those that are none are left out. */
function hashesIn(told: unknown): Hash[] {
  return (entry.safeParse(told).data?.hashes ?? []).flatMap((text) => {
    try {
      return [parseHash(text)];
    } catch {
      return [];
    }
  });
}
