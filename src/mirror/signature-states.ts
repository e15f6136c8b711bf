import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Sha256 } from '../address/hash.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import { hasCode } from '../errors.ts';
import type { ArchiveStore, ReleaseFiles } from '../store/archive-store.ts';
import { releaseKnowledge } from './release-knowledge.ts';

const MAX_REMEMBERED = 10_000;

/**
 * - `good`: SHA256SUMS is here with a signature that one of the registry's keys made
 * - `unsigned`: there is no signature
 * - `doubtful`: there is one, and it cannot be relied on
 * - `none`: no SHA256SUMS is kept
 */
export interface SignatureState {
  readonly state: 'good' | 'unsigned' | 'doubtful' | 'none';
  /** What is wrong with it, for people. */
  readonly objection: string | undefined;
  /** Whether SHA256SUMS names an archive of these bytes. */
  lists(sha256: Sha256): boolean;
}

/** What signatures of releases are worth, checked anew whatever was thought of them when they came in; each once. */
export class SignatureStates {
  readonly #store: Pick<ArchiveStore, 'getRelease'>;
  readonly #known = new LRUCache<string, SignatureState>({ max: MAX_REMEMBERED });

  constructor({ store }: { store: Pick<ArchiveStore, 'getRelease'> }) {
    this.#store = store;
  }

  /** @throws StorageFailed */
  async of(provider: ProviderAddress, version: Version): Promise<SignatureState> {
    const files = await this.#store.getRelease(provider, version);
    if (!files) return NONE;
    const key = digestOf(files);
    const known = this.#known.get(key);
    if (known) return known;
    const state = await check(provider, files);
    this.#known.set(key, state);
    return state;
  }
}

const NONE: SignatureState = { state: 'none', objection: undefined, lists: () => false };

async function check(provider: ProviderAddress, files: ReleaseFiles): Promise<SignatureState> {
  try {
    const { digests, isSigned, objection } = await releaseKnowledge(provider, files);
    const listed = new Set(digests.values());
    const state = isSigned ? 'good' : files.signature ? 'doubtful' : 'unsigned';
    return { state, objection, lists: (sha256) => listed.has(sha256) };
  } catch (error) {
    if (!hasCode(error, 'UPSTREAM_INVALID') && !hasCode(error, 'INTEGRITY_MISMATCH')) throw error;
    return { state: 'doubtful', objection: error.message, lists: () => false };
  }
}

/** By which it is known whether they are the same files as before. */
export function digestOf({ shasums, signature, statement }: ReleaseFiles): string {
  const digest = createHash('sha256');
  for (const file of [shasums, signature, statement]) digest.update(`${file?.length ?? '-'}\n`).update(file ?? '');
  return digest.digest('base64');
}
