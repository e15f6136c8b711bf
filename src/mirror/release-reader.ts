import pLimit from 'p-limit';
import { ProviderArchive } from '../address/archive.ts';
import { type Hash, type Sha256, sha256Of } from '../address/hash.ts';
import { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import { hasCode, NotFound } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { loggerFor } from '../request-origin.ts';
import type { ArchiveStore } from '../store/archive-store.ts';
import type { ProviderRegistry } from '../upstream/provider-registry.ts';
import type { PackageDocument, ReleaseChecksums, ReleaseStatement } from '../upstream/registry-answers.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { DriftReports } from './drift.ts';
import { type FirstChecksums, firstChecksums } from './first-checksums.ts';
import { nameLike, platformsLike } from './listed-names.ts';
import type { Release, ReleasePackage } from './release.ts';
import { parseStatementFile, statementFile } from './release-statement.ts';

/** Documents asked for at a time, when a release's platforms cannot be told from SHA256SUMS. */
const CONCURRENT_DOCUMENTS = 4;

/** The platform whose document is asked for, in this order: most likely wanted first, so that it is at hand for the download. */
const LIKELY_PLATFORMS = ['linux_amd64', 'linux_arm64', 'darwin_arm64', 'windows_amd64', 'darwin_amd64'].map((text) =>
  Platform.parse(text),
);

/** A version of a provider, as asked for. */
export interface WantedRelease {
  readonly upstream: Upstream;
  readonly provider: ProviderAddress;
  readonly version: Version;
  /** Those that the versions list names; empty when it names none. */
  readonly platforms: readonly Platform[];
}

/** Puts together what upstream tells of a version: one package document, SHA256SUMS, and its signature. */
export class ReleaseReader {
  readonly #registry: ProviderRegistry;
  readonly #document: (upstream: Upstream, archive: ProviderArchive) => Promise<PackageDocument>;
  readonly #store: Pick<ArchiveStore, 'getRelease' | 'putRelease'>;
  readonly #drift: DriftReports;
  readonly #knownPackageHash: (sha256: Sha256) => Promise<Hash | undefined>;
  readonly #logger: Logger;

  constructor(deps: {
    registry: ProviderRegistry;
    /** Asked for anew: it has to be of the same moment as SHA256SUMS. */
    document: (upstream: Upstream, archive: ProviderArchive) => Promise<PackageDocument>;
    store: Pick<ArchiveStore, 'getRelease' | 'putRelease'>;
    drift: DriftReports;
    /** `h1:` computed here earlier, by the archive's digest. */
    knownPackageHash: (sha256: Sha256) => Promise<Hash | undefined>;
    logger: Logger;
  }) {
    this.#registry = deps.registry;
    this.#document = deps.document;
    this.#store = deps.store;
    this.#drift = deps.drift;
    this.#knownPackageHash = deps.knownPackageHash;
    this.#logger = deps.logger;
  }

  /** @throws NotFound when upstream has no package of it, and what upstream fails with */
  async read(wanted: WantedRelease, signal: AbortSignal): Promise<Release> {
    const { upstream, provider, version, platforms } = wanted;
    const document = await this.#anyDocument(wanted);
    const checksums = await this.#registry.checksums(upstream, document, signal);
    for (const note of checksums.verdict.notes) {
      loggerFor(upstream.origin, this.#logger).warn('the signature is good, with a reservation', {
        release: `${provider} ${version}`,
        note,
      });
    }
    const first = await this.#firstChecksums(provider, version, checksums, document.statement);
    const listed = platforms.length > 0 ? platforms : platformsLike(document, checksums.digests);

    const packages = new Map<string, ReleasePackage>();
    for (const platform of listed) {
      const filename = nameLike(document, platform);
      const sha256 = checksums.digests.get(filename);
      if (!sha256) continue;
      const archive = new ProviderArchive(provider, version, platform);
      const seenFirst = first?.seenFirst(filename, sha256);
      packages.set(platform.toString(), await this.#describe(archive, sha256, document, seenFirst));
    }
    const unnamed = listed.filter((platform) => !packages.has(platform.toString()));
    for (const found of await this.#askEach(wanted, unnamed, checksums, first)) {
      packages.set(found.platform.toString(), found);
    }
    return {
      packages,
      files: first?.files,
      statement: (first?.files.statement && parseStatementFile(first.files.statement)) ?? document.statement,
      signature: checksums.verdict.state,
      complete: listed.every((platform) => packages.has(platform.toString())),
    };
  }

  /** A disk that is full or failing is no reason to refuse lists. */
  async #firstChecksums(
    provider: ProviderAddress,
    version: Version,
    checksums: ReleaseChecksums,
    statement: ReleaseStatement,
  ): Promise<FirstChecksums | undefined> {
    try {
      return await firstChecksums(this.#store, provider, version, checksums, statement);
    } catch (error) {
      if (!hasCode(error, 'STORAGE_FAILED')) throw error;
      this.#logger.warn('SHA256SUMS could not be kept', { release: `${provider} ${version}`, error });
      const { shasums, signature } = checksums;
      if (shasums.length === 0) return undefined;
      return { files: { shasums, signature, statement: statementFile(statement) }, seenFirst: () => undefined };
    }
  }

  /** One platform's document stands for all: the checksum list, keys and `packages` are the same in each. */
  async #anyDocument({ upstream, provider, version, platforms }: WantedRelease): Promise<PackageDocument> {
    const isAmong = (some: readonly Platform[]) => (platform: Platform) =>
      some.some((other) => other.toString() === platform.toString());
    const unlikely = platforms.filter((platform) => !isAmong(LIKELY_PLATFORMS)(platform));
    const candidates =
      platforms.length === 0 ? LIKELY_PLATFORMS : [...LIKELY_PLATFORMS.filter(isAmong(platforms)), ...unlikely];
    let absent: unknown = new NotFound(`${provider} ${version} is listed without any platform`);
    for (const platform of candidates.slice(0, LIKELY_PLATFORMS.length)) {
      try {
        return await this.#document(upstream, new ProviderArchive(provider, version, platform));
      } catch (error) {
        if (!hasCode(error, 'NOT_FOUND')) throw error;
        absent = error;
      }
    }
    throw absent;
  }

  /** For archives that are not named like their siblings (`…_linux_armv6.zip`): their own documents tell. */
  async #askEach(
    { upstream, provider, version }: WantedRelease,
    platforms: readonly Platform[],
    checksums: ReleaseChecksums,
    first: FirstChecksums | undefined,
  ): Promise<ReleasePackage[]> {
    const ask = async (platform: Platform): Promise<ReleasePackage | undefined> => {
      const archive = new ProviderArchive(provider, version, platform);
      try {
        const document = await this.#document(upstream, archive);
        const name = nameIn(checksums, document);
        if (name !== undefined) {
          return await this.#describe(archive, document.sha256, document, first?.seenFirst(name, document.sha256));
        }
        loggerFor(upstream.origin, this.#logger).warn('left out: SHA256SUMS does not name this archive', {
          archive: `${provider} ${version} ${platform}`,
        });
      } catch (error) {
        // The others need not wait for this one: the release is incomplete, and asked for again soon.
        if (hasCode(error, 'INTEGRITY_MISMATCH')) throw error;
        if (!hasCode(error, 'NOT_FOUND')) {
          loggerFor(upstream.origin, this.#logger).warn('left out for now', {
            archive: `${provider} ${version} ${platform}`,
            error,
          });
        }
      }
      return undefined;
    };
    const limit = pLimit(CONCURRENT_DOCUMENTS);
    const found = await Promise.all(platforms.map((platform) => limit(ask, platform)));
    return found.filter((entry) => entry !== undefined);
  }

  /**
   * @param sha256 what upstream says of it now
   * @param seenFirst where that was something else
   */
  async #describe(
    archive: ProviderArchive,
    sha256: Sha256,
    document: PackageDocument,
    seenFirst: Sha256 | undefined,
  ): Promise<ReleasePackage> {
    const { platform } = archive;
    if (seenFirst) {
      this.#drift.report(archive, seenFirst, sha256);
      // Nothing that upstream says of today's archive is true of the one seen first.
      const h1 = await this.#knownPackageHash(seenFirst);
      return { platform, sha256: seenFirst, h1, size: undefined, drifted: sha256 };
    }
    const told = document.packages.get(platform.toString());
    const agrees = told?.hashes.some((hash) => sha256Of(hash) === sha256);
    if (told && !agrees) {
      this.#logger.warn('ignored: upstream tells other hashes than SHA256SUMS', { platform: platform.toString() });
    }
    const h1 = agrees ? told?.hashes.find((hash) => hash.startsWith('h1:')) : undefined;
    return {
      platform,
      sha256,
      h1: h1 ?? (await this.#knownPackageHash(sha256)),
      size: agrees ? told?.size : undefined,
    };
  }
}

/**
 * The name that SHA256SUMS has for an archive: its own or, where the registry names it otherwise, the one with its digest.
 * `undefined` when it is not listed. Where there is no SHA256SUMS, its own name will do.
 */
function nameIn({ shasums, digests }: ReleaseChecksums, { filename, sha256 }: PackageDocument): string | undefined {
  if (shasums.length === 0) return filename;
  const listed = digests.get(filename);
  if (listed === undefined) return [...digests].find(([, digest]) => digest === sha256)?.[0];
  return listed === sha256 ? filename : undefined;
}
