import { LRUCache } from 'lru-cache';
import { ProviderArchive } from '../address/archive.ts';
import type { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import { hasCode, LarderError } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, ReleaseFiles, StoredArchive } from '../store/archive-store.ts';
import { settledWithin } from '../time-limit.ts';
import type { SignaturePolicy, Upstream } from '../upstream/upstream.ts';
import { nameLike, nameOf, platformsLike } from './listed-names.ts';
import { PairMemo } from './pair-memo.ts';
import type { ReleasePackage } from './release.ts';
import { type ReleaseKnowledge, releaseKnowledge } from './release-knowledge.ts';
import { digestOf } from './signature-states.ts';

const MAX_REMEMBERED = 1_000;
/** Whoever asks has waited for upstream already, and does so for ten seconds in all. */
const READING_LIMIT_MS = 1_000;

/** By platform, `linux_amd64`. */
export type PackagesByPlatform = ReadonlyMap<string, ReleasePackage>;

/** Archives of one version, by platform. The same object until something changes. */
export type StoredOfVersion = ReadonlyMap<string, StoredArchive>;

export const NO_PACKAGES: PackagesByPlatform = new Map();

/**
 * What platforms a version has of which something is stored, when nobody can be asked and nothing is remembered: its first
 * SHA256SUMS is kept on disk and names them all.
 *
 * It is believed when it names what is stored, and when its signature is what the upstream's policy asks for.
 */
export class KeptPackages {
  readonly #store: Pick<ArchiveStore, 'getRelease'>;
  readonly #logger: Logger;
  /** By content, and by what is asked of signatures: they are checked once. */
  readonly #known = new LRUCache<string, Promise<ReleaseKnowledge | undefined>>({ max: MAX_REMEMBERED });
  readonly #packages = new PairMemo<PackagesByPlatform>();

  constructor(deps: { store: Pick<ArchiveStore, 'getRelease'>; logger: Logger }) {
    this.#store = deps.store;
    this.#logger = deps.logger;
  }

  /** The same object while neither what is stored nor SHA256SUMS changes. Empty when there is nothing to go by. */
  async of(
    { signatures }: Upstream,
    provider: ProviderAddress,
    version: Version,
    stored: StoredOfVersion,
  ): Promise<PackagesByPlatform> {
    const knowledge = await this.#knowledgeOf(provider, version, signatures);
    if (!knowledge) return NO_PACKAGES;
    return this.#packages.get(stored, knowledge, () => packagesOf(provider, version, stored, knowledge));
  }

  /** `undefined` of what is not to be relied on. */
  async #knowledgeOf(
    provider: ProviderAddress,
    version: Version,
    policy: SignaturePolicy,
  ): Promise<ReleaseKnowledge | undefined> {
    const release = `${provider} ${version}`;
    let files: ReleaseFiles | undefined;
    try {
      files = await settledWithin(this.#store.getRelease(provider, version), READING_LIMIT_MS);
    } catch (error) {
      // What is stored can be told of all the same.
      if (!hasCode(error, 'STORAGE_FAILED')) throw error;
      this.#logger.warn('SHA256SUMS that is kept could not be read', { release, error });
    }
    if (!files) return undefined;
    const key = `${policy} ${digestOf(files)}`;
    const known = this.#known.get(key) ?? this.#check(provider, files, policy, release);
    this.#known.set(key, known);
    // What could not be checked once may be the next time.
    known.catch(() => this.#known.delete(key));
    return known;
  }

  async #check(
    provider: ProviderAddress,
    files: ReleaseFiles,
    policy: SignaturePolicy,
    release: string,
  ): Promise<ReleaseKnowledge | undefined> {
    const distrust = (why: object) =>
      this.#logger.warn('SHA256SUMS that is kept is not relied on', { release, ...why });
    try {
      const knowledge = await releaseKnowledge(provider, files);
      if (isReliable(knowledge, policy)) return knowledge;
      distrust({ reason: knowledge.objection });
    } catch (error) {
      if (!(error instanceof LarderError)) throw error;
      distrust({ error });
    }
    return undefined;
  }
}

/** What is asked of those that come from upstream: where there are keys, a signature that is missing was there once. */
function isReliable({ isSigned, hasKeys }: ReleaseKnowledge, policy: SignaturePolicy): boolean {
  return isSigned || policy === 'ignore' || (policy === 'verify' && !hasKeys);
}

function packagesOf(
  provider: ProviderAddress,
  version: Version,
  stored: StoredOfVersion,
  { digests, statedPlatforms, packageOf }: ReleaseKnowledge,
): PackagesByPlatform {
  const packages = new Map<string, ReleasePackage>();
  const add = (platform: Platform, name?: string) => {
    const key = platform.toString();
    const told = packageOf(new ProviderArchive(provider, version, platform));
    const sha256 = (name === undefined ? undefined : digests.get(name)) ?? told?.sha256;
    // What is stored as something else is no drift: upstream has said nothing.
    if (!sha256 || packages.has(key) || (stored.get(key)?.sha256 ?? sha256) !== sha256) return;
    packages.set(key, { platform, sha256, h1: told?.sha256 === sha256 ? told.h1 : undefined, size: undefined });
  };
  const named = [...stored.values()].flatMap(({ archive, sha256 }) => {
    const filename = nameOf(digests, archive, sha256);
    return filename === undefined ? [] : [{ filename, platform: archive.platform }];
  });
  // A list of other archives says nothing of these.
  if (named.length === 0) return NO_PACKAGES;
  for (const known of named) {
    for (const platform of platformsLike(known, digests)) add(platform, nameLike(known, platform));
  }
  // Those whose archives are named unlike their siblings.
  for (const platform of statedPlatforms) add(platform);
  return packages;
}
