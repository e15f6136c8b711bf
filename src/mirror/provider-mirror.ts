import { ProviderArchive } from '../address/archive.ts';
import { type Hash, type Sha256, zipHash } from '../address/hash.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { ArchiveCache } from '../cache/archive-cache.ts';
import type { ReadableArchive } from '../cache/readable-archive.ts';
import { hasCode, IntegrityMismatch } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import type { ProviderVersions } from '../upstream/registry-answers.ts';
import { type ArchiveSources, publishedTwice } from './archive-sources.ts';
import type { DriftReports } from './drift.ts';
import { KeptPackages, NO_PACKAGES, type PackagesByPlatform, type StoredOfVersion } from './kept-packages.ts';
import { notStored, wantedArchive } from './not-stored.ts';
import type { PackageHashes } from './package-hashes.ts';
import { PairMemo } from './pair-memo.ts';
import { NOBODY, type Policy, type Requester } from './policy.ts';
import type { Release, ReleasePackage } from './release.ts';
import type { ProviderAnswers } from './seasoned-metadata.ts';
import { isForAll, type StaleNote, UpstreamAnswers } from './upstream-answers.ts';

/** In the place of an upstream's answer, where there is none. */
const NO_ANSWER = {};

export interface VersionList {
  /** The same array until something changes: what is made of it can be kept. */
  readonly versions: readonly Version[];
  readonly stale?: StaleNote;
  /** Until then (milliseconds since the epoch) it stays as it is, unless something changes here. */
  readonly freshUntil?: number | undefined;
}

export interface ListedPackage {
  readonly archive: ProviderArchive;
  readonly hashes: readonly Hash[];
}

export interface PackageList {
  /** Upstream decides who may have the archives: being allowed to use this mirror is not enough. */
  readonly isPrivate?: boolean;
  /** The same array until something changes: what is made of it can be kept. */
  readonly archives: readonly ListedPackage[];
  readonly stale?: StaleNote;
  /** Until then (milliseconds since the epoch) it stays as it is, unless something changes here. */
  readonly freshUntil?: number | undefined;
}

/** What is known of an archive without pulling it. */
export interface ArchiveDescription {
  /** Bytes; `undefined` when upstream does not tell. */
  readonly size: number | undefined;
  readonly sha256: Sha256 | undefined;
  /** `undefined` while it is not stored. */
  readonly storedAt: Date | undefined;
}

/**
 * The provider mirror: what upstream has, united with what is stored.
 *
 * Lists come from upstream's metadata, through the metadata cache. When upstream is in trouble they are made of what
 * is stored, and only when nothing is stored does the trouble reach the client. Archives come from the store, and from
 * upstream when absent.
 */
export class ProviderMirror {
  readonly #policy: Policy;
  readonly #metadata: ProviderAnswers;
  readonly #sources: ArchiveSources;
  readonly #archives: ArchiveCache;
  readonly #store: ArchiveStore;
  readonly #hashes: PackageHashes;
  readonly #drift: DriftReports;
  readonly #kept: KeptPackages;
  readonly #upstreams: UpstreamAnswers;
  /** By what is stored and what upstream said. */
  readonly #versionLists = new PairMemo<readonly Version[]>();
  readonly #packageLists = new PairMemo<readonly ListedPackage[]>();
  readonly #byVersion = new WeakMap<readonly StoredArchive[], ReadonlyMap<string, StoredOfVersion>>();

  constructor(deps: {
    policy: Policy;
    metadata: ProviderAnswers;
    sources: ArchiveSources;
    archives: ArchiveCache;
    store: ArchiveStore;
    hashes: PackageHashes;
    drift: DriftReports;
    isSealed: () => boolean;
    logger: Logger;
    now?: () => number;
  }) {
    this.#policy = deps.policy;
    this.#metadata = deps.metadata;
    this.#sources = deps.sources;
    this.#archives = deps.archives;
    this.#store = deps.store;
    this.#hashes = deps.hashes;
    this.#drift = deps.drift;
    this.#kept = new KeptPackages(deps);
    this.#upstreams = new UpstreamAnswers(deps);
  }

  /**
   * Every version that upstream lists or that is stored, newest first.
   * @throws NotFound when upstream does not know the provider and nothing of it is stored
   * @throws UpstreamUnreachable, UpstreamRefused, UpstreamInvalid when upstream is in trouble and nothing is stored
   * @throws Unauthenticated when upstream is asked with the requester's token and does not accept that
   */
  async listVersions(provider: ProviderAddress, requester: Requester = NOBODY): Promise<VersionList> {
    const upstream = this.#policy.admit(provider, requester);
    const stored = isForAll(upstream) ? await this.#store.list(provider) : NOTHING_LISTED;
    const { answer, stale, freshUntil } = await this.#upstreams.ask(
      upstream,
      () => this.#metadata.versions(upstream, provider),
      stored.length > 0,
      { address: provider },
    );
    return {
      freshUntil,
      versions: this.#versionLists.get(stored, answer ?? NO_ANSWER, () => newestFirst(stored, answer)),
      ...stale,
    };
  }

  /**
   * Every platform of a version with its hashes. No archive is fetched for it. A version that nobody has, or that is
   * not to be had here, is an empty list: the clients take anything else as fatal, even when they have another source.
   * Where what is stored stands in for upstream, SHA256SUMS that is kept tells the other platforms: that they cannot be
   * had now is no reason to say that there are none.
   * @throws HostNotAllowed
   * @throws UpstreamUnreachable, UpstreamRefused, UpstreamInvalid, IntegrityMismatch when nothing of it is stored
   */
  async listPackages(provider: ProviderAddress, version: Version, requester: Requester = NOBODY): Promise<PackageList> {
    const upstream = this.#policy.admits(provider, requester);
    if (!upstream) return { archives: NOT_FOR_ANYBODY };
    const found = await this.#storedOf(provider, version);
    const wanted = { address: provider, version };
    if (this.#upstreams.isSealed && isForAll(upstream) && found.size === 0 && (await this.#hasAny(provider))) {
      // What is listed is all there is: another source may have this one.
      const { message } = notStored(upstream, wanted);
      return { archives: NOT_FOR_ANYBODY, stale: { ageSeconds: 0, reason: message, missing: message } };
    }
    const { answer, stale, freshUntil } = await this.#upstreams
      .ask(
        upstream,
        () => this.#metadata.release(upstream, provider, version),
        isForAll(upstream) && found.size > 0,
        wanted,
      )
      .catch(nobodyHasIt);

    const stored = isForAll(upstream) ? found : sharedWith(answer, found);
    const told = answer?.packages ?? (stale ? await this.#kept.of(upstream, provider, version, found) : NO_PACKAGES);
    const list = () => this.#packagesOf(provider, version, stored, told);
    // Who asks for the list also asks for the hashes that it lacks: it is made anew until it has them all.
    const isFinal = [...stored.values()].every(({ h1 }) => h1);
    const archives = isFinal ? this.#packageLists.get(found, told, list) : list();
    return { archives, isPrivate: !isForAll(upstream), freshUntil: isFinal ? freshUntil : undefined, ...stale };
  }

  /**
   * The archive, from the store or while it arrives from upstream; one download serves everybody who asks meanwhile.
   * @throws NotFound when upstream has no such archive
   * @throws UpstreamUnreachable, UpstreamRefused, UpstreamInvalid, IntegrityMismatch, StorageFailed
   * @throws Unauthenticated when upstream is asked with the requester's token and does not accept that
   */
  async openArchive(archive: ProviderArchive, requester: Requester = NOBODY): Promise<ReadableArchive> {
    const upstream = this.#policy.admit(archive.provider, requester);
    const load = async () => {
      this.#upstreams.demandOpen(upstream, wantedArchive(archive));
      return this.#sources.of(upstream, archive);
    };
    if (isForAll(upstream)) return this.#archives.read(archive, load, upstream.origin);
    this.#upstreams.demandOpen(upstream, wantedArchive(archive));
    const told = await this.#sources.released(upstream, archive);
    const readable = await this.#archives.read(archive, load, upstream.origin);
    return onlyAsTold(readable, told, archive);
  }

  /**
   * What a client wants to know before it downloads. Asks upstream for the length at most; pulls nothing.
   * @throws what `openArchive` throws before it pulls anything
   */
  async describeArchive(archive: ProviderArchive, requester: Requester = NOBODY): Promise<ArchiveDescription> {
    const upstream = this.#policy.admit(archive.provider, requester);
    const here = await this.#archives.find(archive);
    if (here && isForAll(upstream)) return here;
    this.#upstreams.demandOpen(upstream, wantedArchive(archive));
    const told = await this.#sources.released(upstream, archive);
    if (here) return onlyAsTold(here, told, archive);
    // What it would have to be is not to be had any more, and what is to be had is not described as it.
    if (told.drifted) throw publishedTwice(upstream, archive, told.sha256, told.drifted);
    const known = { sha256: told.sha256, storedAt: undefined };
    if (told.size !== undefined) return { ...known, size: told.size };
    return { ...known, size: await this.#sources.length(upstream, archive) };
  }

  #packagesOf(
    provider: ProviderAddress,
    version: Version,
    stored: StoredOfVersion,
    packages: PackagesByPlatform,
  ): ListedPackage[] {
    const archives = [...stored.values()].map((kept) => {
      const told = packages.get(kept.archive.platform.toString());
      const published = told?.drifted ?? told?.sha256;
      if (published && published !== kept.sha256) this.#drift.report(kept.archive, kept.sha256, published);
      this.#hashes.request(kept);
      return { archive: kept.archive, hashes: hashesOf(kept.sha256, kept.h1 ?? sameArchive(kept, told)?.h1) };
    });
    for (const { platform, sha256, h1, drifted } of packages.values()) {
      if (stored.has(platform.toString())) continue;
      const archive = new ProviderArchive(provider, version, platform);
      // Noticed before a restart, perhaps.
      if (drifted) this.#drift.report(archive, sha256, drifted);
      archives.push({ archive, hashes: hashesOf(sha256, h1) });
    }
    return archives.sort((a, b) => (a.archive.filename < b.archive.filename ? -1 : 1));
  }

  async #hasAny(provider: ProviderAddress): Promise<boolean> {
    return (await this.#store.list(provider)).length > 0;
  }

  async #storedOf(provider: ProviderAddress, version: Version): Promise<StoredOfVersion> {
    const all = await this.#store.list(provider);
    let byVersion = this.#byVersion.get(all);
    if (!byVersion) {
      byVersion = groupedByVersion(all);
      this.#byVersion.set(all, byVersion);
    }
    return byVersion.get(version.toString()) ?? NOTHING_STORED;
  }
}

const NOT_FOR_ANYBODY: readonly ListedPackage[] = [];
const NOTHING_STORED: StoredOfVersion = new Map();
const NOTHING_LISTED: readonly StoredArchive[] = [];

function sharedWith(answer: Release | undefined, stored: StoredOfVersion): StoredOfVersion {
  return new Map([...stored].filter(([platform, kept]) => answer?.packages.get(platform)?.sha256 === kept.sha256));
}

/** Being let have one archive is not being let have another that goes by its name. */
function onlyAsTold<T extends { readonly sha256: Sha256 | undefined }>(
  found: T,
  told: ReleasePackage,
  archive: ProviderArchive,
): T {
  if (found.sha256 === told.sha256) return found;
  throw new IntegrityMismatch(`${archive} is kept here with other bytes than ${archive.provider.hostname} tells of`);
}

function groupedByVersion(all: readonly StoredArchive[]): ReadonlyMap<string, StoredOfVersion> {
  const byVersion = new Map<string, Map<string, StoredArchive>>();
  for (const stored of all) {
    const { version, platform } = stored.archive;
    const ofVersion = byVersion.get(version.toString()) ?? new Map<string, StoredArchive>();
    byVersion.set(version.toString(), ofVersion.set(platform.toString(), stored));
  }
  return byVersion;
}

function newestFirst(stored: readonly StoredArchive[], answer: ProviderVersions | undefined): Version[] {
  const listed = answer?.versions.map((entry) => entry.version) ?? [];
  const kept = stored.map(({ archive }) => archive.version);
  const versions = new Map([...listed, ...kept].map((version) => [version.toString(), version]));
  return [...versions.values()].sort((a, b) => Version.compare(b, a));
}

function nobodyHasIt(error: unknown): { answer?: undefined; stale?: undefined; freshUntil?: undefined } {
  if (hasCode(error, 'NOT_FOUND')) return {};
  throw error;
}

function hashesOf(sha256: Sha256, h1: Hash | undefined): Hash[] {
  return h1 ? [h1, zipHash(sha256)] : [zipHash(sha256)];
}

function sameArchive(kept: StoredArchive, told: ReleasePackage | undefined): ReleasePackage | undefined {
  return told?.sha256 === kept.sha256 ? told : undefined;
}
