import { z } from 'zod';
import type { ProviderArchive } from '../address/archive.ts';
import { type Sha256, zipHash } from '../address/hash.ts';
import type { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import { IntegrityMismatch, NotFound } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, ReleaseFiles, StoredArchive } from '../store/archive-store.ts';
import type { ProviderVersions, ReleaseStatement } from '../upstream/registry-answers.ts';
import { parseShasums } from '../upstream/shasums.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { packageIn, publishedTwice } from './archive-sources.ts';
import { nameOf } from './listed-names.ts';
import { wantedArchive } from './not-stored.ts';
import { PairMemo } from './pair-memo.ts';
import { NOBODY, type Policy, type Requester } from './policy.ts';
import type { Release } from './release.ts';
import { parseStatementFile } from './release-statement.ts';
import type { ProviderAnswers } from './seasoned-metadata.ts';
import { isForAll, type StaleNote, UpstreamAnswers } from './upstream-answers.ts';

/** A platform of which the release does not tell may have been added to it since: it is asked for anew, but not more often than this. */
const UNTOLD_PLATFORM_RECHECK_MS = 60_000;

const NOTHING_STORED: readonly StoredArchive[] = [];
/** In the place of an upstream's answer, where there is none. */
const NO_ANSWER = {};

export interface ListedRelease {
  readonly version: Version;
  /** `undefined` where only what is stored is known. */
  readonly protocols: readonly string[] | undefined;
  readonly platforms: readonly Platform[];
}

/** All that there is of a provider. The same object until something changes: what is made of it can be kept. */
export interface ReleaseCatalogue {
  readonly releases: readonly ListedRelease[];
  /** Upstream's words to whoever installs the provider. */
  readonly warnings: readonly string[];
}

export interface ReleaseList {
  readonly catalogue: ReleaseCatalogue;
  readonly stale?: StaleNote;
  /** Until then (milliseconds since the epoch) it stays as it is, unless something changes here. */
  readonly freshUntil?: number | undefined;
}

/** What a client has to know to fetch an archive and to verify it for itself, all of it in agreement. */
export interface PackageDescription {
  /** Upstream decides who may have the archive: being allowed to use this mirror is not enough. */
  readonly isPrivate: boolean;
  readonly archive: ProviderArchive;
  /** The name under which SHA256SUMS lists the archive. */
  readonly listedAs: string;
  readonly sha256: Sha256;
  readonly statement: ReleaseStatement;
  readonly stale?: StaleNote;
  /** Until then (milliseconds since the epoch) it stays as it is, unless something changes here. */
  readonly freshUntil?: number | undefined;
}

/** SHA256SUMS and signature, upstream's own bytes. */
export interface SignedChecksums {
  readonly files: ReleaseFiles;
  readonly stale?: StaleNote;
  /** Until then (milliseconds since the epoch) it stays as it is, unless something changes here. */
  readonly freshUntil?: number | undefined;
}

/**
 * A provider's releases as its registry tells of them, for clients that verify signatures themselves: upstream's words,
 * or what was kept of them beside stored archives.
 */
export class ProviderReleases {
  readonly #policy: Policy;
  readonly #metadata: ProviderAnswers;
  readonly #store: Pick<ArchiveStore, 'find' | 'list' | 'getRelease'>;
  readonly #upstreams: UpstreamAnswers;
  /** By what is stored and what upstream said. */
  readonly #catalogues = new PairMemo<ReleaseCatalogue>();

  constructor(deps: {
    policy: Policy;
    metadata: ProviderAnswers;
    store: Pick<ArchiveStore, 'find' | 'list' | 'getRelease'>;
    isSealed: () => boolean;
    logger: Logger;
    now?: () => number;
  }) {
    this.#policy = deps.policy;
    this.#metadata = deps.metadata;
    this.#store = deps.store;
    this.#upstreams = new UpstreamAnswers(deps);
  }

  /**
   * Every version that upstream lists or that is stored, newest first.
   * @throws NotFound when upstream does not know the provider and nothing of it is stored
   * @throws UpstreamUnreachable, UpstreamRefused, UpstreamInvalid when upstream is in trouble and nothing is stored
   * @throws Unauthenticated when upstream is asked with the requester's token and does not accept that
   */
  async list(provider: ProviderAddress, requester: Requester = NOBODY): Promise<ReleaseList> {
    const upstream = this.#policy.admit(provider, requester);
    const stored = isForAll(upstream) ? await this.#store.list(provider) : NOTHING_STORED;
    const { answer, stale, freshUntil } = await this.#upstreams.ask(
      upstream,
      () => this.#metadata.versions(upstream, provider),
      stored.length > 0,
      { address: provider },
    );
    return {
      freshUntil,
      catalogue: this.#catalogues.get(stored, answer ?? NO_ANSWER, () => catalogueOf(stored, answer)),
      ...stale,
    };
  }

  /**
   * What upstream says of one archive. What it said first is held to, and nothing is told of an archive that would not
   * be given out.
   * @throws NotFound when upstream does not have it
   * @throws IntegrityMismatch when upstream contradicts itself, what it said first, or what is stored
   * @throws UpstreamUnreachable, UpstreamRefused, UpstreamInvalid, Unauthenticated as `list` does
   */
  async describe(archive: ProviderArchive, requester: Requester = NOBODY): Promise<PackageDescription> {
    const { provider, version, platform } = archive;
    const upstream = this.#policy.admit(provider, requester);
    const stored = await this.#store.find(archive);
    const kept = once(async () => (isForAll(upstream) && stored ? this.#keptOf(stored) : undefined));
    const read = async () => {
      const known = await this.#metadata.release(upstream, provider, version);
      if (stored || known.value.packages.has(platform.toString())) return known;
      return this.#metadata.release(upstream, provider, version, {
        notBefore: Date.now() - UNTOLD_PLATFORM_RECHECK_MS,
      });
    };
    const { answer, stale, freshUntil } = await this.#upstreams.ask(
      upstream,
      read,
      async () => (await kept()) !== undefined,
      // The archive may have come without what its registry says of it.
      { ...wantedArchive(archive), ...(stored && { part: 'what the registry says' }) },
    );

    const isTold = answer?.packages.has(platform.toString());
    // Upstream may have dropped a platform that is stored.
    const told = (isTold ? undefined : await kept()) ?? toldOf(answer, upstream, archive);
    const { files, statement, sha256, drifted } = told;
    if (drifted && stored?.sha256 !== sha256) throw publishedTwice(upstream, archive, sha256, drifted);
    if (stored && stored.sha256 !== sha256) throw keptOtherwise(archive);

    const digests = files && parseShasums(files.shasums, provider.hostname.toString());
    const listedAs = digests ? nameOf(digests, archive, sha256) : archive.filename;
    if (listedAs === undefined) {
      throw new IntegrityMismatch(`SHA256SUMS of ${provider} ${version} does not list the SHA-256 ${sha256}`);
    }
    const fits = packagesFit(statement.packages, { platform, sha256, digests, size: stored?.size });
    return {
      isPrivate: !isForAll(upstream),
      archive,
      listedAs,
      sha256,
      statement: fits ? statement : { ...statement, packages: undefined },
      freshUntil,
      ...stale,
    };
  }

  /**
   * SHA256SUMS of a version and its signature.
   * @throws NotFound when upstream does not have the version, or has no SHA256SUMS of it
   * @throws UpstreamUnreachable, UpstreamRefused, UpstreamInvalid, IntegrityMismatch when none is kept
   */
  async checksums(
    provider: ProviderAddress,
    version: Version,
    requester: Requester = NOBODY,
  ): Promise<SignedChecksums> {
    const upstream = this.#policy.admit(provider, requester);
    const kept = once(async () => (isForAll(upstream) ? this.#store.getRelease(provider, version) : undefined));
    const { answer, stale, freshUntil } = await this.#upstreams.ask(
      upstream,
      () => this.#metadata.release(upstream, provider, version),
      async () => (await kept()) !== undefined,
      { address: provider, version, part: 'SHA256SUMS' },
    );
    const files = answer?.files ?? (await kept());
    if (!files) throw new NotFound(`${provider.hostname} has no SHA256SUMS of ${provider} ${version}`);
    return { files, freshUntil, ...stale };
  }

  /** What is known of a stored archive without asking anybody, if that is all there. */
  async #keptOf({ archive, sha256 }: StoredArchive): Promise<Told | undefined> {
    const files = await this.#store.getRelease(archive.provider, archive.version);
    const statement = files?.statement && parseStatementFile(files.statement);
    return statement && { files, statement, sha256, drifted: undefined };
  }
}

/** What is told of an archive. */
interface Told extends Pick<Release, 'files' | 'statement'> {
  readonly sha256: Sha256;
  readonly drifted: Sha256 | undefined;
}

function toldOf(release: Release | undefined, upstream: Upstream, archive: ProviderArchive): Told {
  if (!release) throw new NotFound(`${upstream.hostname} has no ${archive.filename}`);
  const { sha256, drifted } = packageIn(release, upstream, archive);
  return { files: release.files, statement: release.statement, sha256, drifted };
}

/** Most answers need nothing from disk: what is there is read when it is first wanted. */
function once<T>(read: () => Promise<T>): () => Promise<T> {
  let reading: Promise<T> | undefined;
  return () => {
    reading ??= read();
    return reading;
  };
}

function catalogueOf(stored: readonly StoredArchive[], answer: ProviderVersions | undefined): ReleaseCatalogue {
  const releases = new Map<
    string,
    { version: Version; protocols?: readonly string[]; platforms: Map<string, Platform> }
  >();
  for (const { version, protocols, platforms } of answer?.versions ?? []) {
    const byName = new Map(platforms.map((platform) => [platform.toString(), platform]));
    releases.set(version.toString(), { version, protocols, platforms: byName });
  }
  for (const { archive } of stored) {
    const { version, platform } = archive;
    const known = releases.get(version.toString()) ?? { version, platforms: new Map() };
    releases.set(version.toString(), { ...known, platforms: known.platforms.set(platform.toString(), platform) });
  }
  return {
    releases: [...releases.values()]
      .map(({ version, protocols, platforms }) => ({ version, protocols, platforms: [...platforms.values()] }))
      .sort((a, b) => Version.compare(b.version, a.version)),
    warnings: answer?.warnings ?? [],
  };
}

/** The clients refuse an archive over `packages` that do not fit it, and do well without any. */
function packagesFit(
  packages: ReleaseStatement['packages'],
  { platform, sha256, digests, size }: KnownArchive,
): boolean {
  const own = packageEntry(packages?.[platform.toString()]);
  if (!own?.hashes.includes(zipHash(sha256)) || (size !== undefined && size !== own.package_size)) return false;
  const listed = digests && new Set<string>([...digests.values()].map(zipHash));
  const isListed = (hash: string) => !listed || !hash.startsWith('zh:') || listed.has(hash);
  return Object.values(packages ?? {}).every((entry) => packageEntry(entry)?.hashes.every(isListed));
}

interface KnownArchive {
  readonly platform: Platform;
  readonly sha256: Sha256;
  readonly digests: ReadonlyMap<string, Sha256> | undefined;
  /** Bytes, where it is stored. */
  readonly size: number | undefined;
}

function packageEntry(entry: unknown): z.infer<typeof packageShape> | undefined {
  return packageShape.safeParse(entry).data;
}

const packageShape = z.object({ hashes: z.array(z.string()), package_size: z.number() });

function keptOtherwise(archive: ProviderArchive): IntegrityMismatch {
  const { provider, version } = archive;
  return new IntegrityMismatch(`${archive} is kept here with other bytes than ${provider.hostname} tells of`, {
    hint: `an operator who knows why can remove it: larder purge ${provider} ${version}`,
  });
}
