import type { Sha256 } from '../address/hash.ts';
import type { ModuleAddress, ModuleRelease } from '../address/module.ts';
import { Version } from '../address/version.ts';
import type { PackageCache } from '../cache/package-cache.ts';
import type { ReadableArchive } from '../cache/readable-archive.ts';
import { hasCode, IntegrityMismatch, UpstreamInvalid, UpstreamUnreachable } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { loggerFor } from '../request-origin.ts';
import type { MadePackage, ModuleStore, PackageRecord, StoredPackage, WorkDirectory } from '../store/module-store.ts';
import { settledWithin } from '../time-limit.ts';
import { isGlob } from '../upstream/module-package/glob.ts';
import { isPlain } from '../upstream/module-package/plain-names.ts';
import type { LocationAnswer, ModuleVersions } from '../upstream/module-registry.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { DriftReports } from './drift.ts';
import { cannotBeMirrored, isSame, locationOf, type ModuleSources } from './module-sources.ts';
import type { MovedModules } from './moved-modules.ts';
import { PairMemo } from './pair-memo.ts';
import { NOBODY, type Policy, type Requester } from './policy.ts';
import type { ArchiveDescription } from './provider-mirror.ts';
import type { ModuleAnswers } from './seasoned-metadata.ts';
import { isForAll, type StaleNote, UpstreamAnswers } from './upstream-answers.ts';

/** An answer has to travel, too: so much of the deadline is left for that, in milliseconds. */
const TRAVEL_MS = 500;

const NOTHING_STORED: readonly StoredPackage[] = [];
/** In the place of an upstream's answer, where there is none. */
const NO_ANSWER = {};

export interface ModuleList {
  /** Newest first. The same array until something changes: what is made of it can be kept. */
  readonly versions: readonly Version[];
  readonly stale?: StaleNote;
  /** Until then (milliseconds since the epoch) it stays as it is, unless something changes here. */
  readonly freshUntil?: number | undefined;
}

/** Where a client gets a module. */
export type LocatedModule =
  | {
      readonly kind: 'package';
      /** Whether it was here already, or was made while one waited, or is still being made. */
      readonly state: 'stored' | 'made' | 'arriving';
      /** Where in the package the module is; empty for its root. */
      readonly subdir: string;
      /** `undefined` while the package is still being made. */
      readonly sha256: Sha256 | undefined;
      /** Upstream decides who may have the package: being allowed to use this mirror is not enough. */
      readonly isPrivate: boolean;
    }
  /** What no mirror can hold, and the client has to fetch itself. */
  | { readonly kind: 'elsewhere'; readonly location: string };

/**
 * The module mirror: versions as upstream lists them, united with what is stored, and packages that were made once of
 * whatever upstream points at. A package that is stored is served without asking anybody.
 */
export class ModuleMirror {
  readonly #policy: Policy;
  readonly #metadata: ModuleAnswers;
  readonly #sources: ModuleSources;
  readonly #packages: PackageCache;
  readonly #store: ModuleStore;
  readonly #drift: DriftReports;
  readonly #moved: MovedModules;
  readonly #unsupported: 'pass' | 'refuse';
  readonly #deadlineMs: number;
  readonly #logger: Logger;
  readonly #upstreams: UpstreamAnswers;
  /** By what is stored and what upstream said. */
  readonly #lists = new PairMemo<readonly Version[]>();

  constructor(deps: {
    policy: Policy;
    metadata: ModuleAnswers;
    sources: ModuleSources;
    packages: PackageCache;
    store: ModuleStore;
    drift: DriftReports;
    moved: MovedModules;
    /** What becomes of locations that cannot be mirrored. */
    unsupported: 'pass' | 'refuse';
    /** How long `locate` may take, in milliseconds. */
    deadlineMs: number;
    isSealed: () => boolean;
    logger: Logger;
    now?: () => number;
  }) {
    this.#policy = deps.policy;
    this.#metadata = deps.metadata;
    this.#sources = deps.sources;
    this.#packages = deps.packages;
    this.#store = deps.store;
    this.#drift = deps.drift;
    this.#moved = deps.moved;
    this.#unsupported = deps.unsupported;
    this.#deadlineMs = deps.deadlineMs;
    this.#logger = deps.logger;
    this.#upstreams = new UpstreamAnswers(deps);
  }

  /**
   * Every version that upstream lists or that is stored.
   * @throws NotFound when upstream does not know the module and nothing of it is stored
   * @throws UpstreamUnreachable, UpstreamRefused, UpstreamInvalid when upstream is in trouble and nothing is stored
   * @throws Unauthenticated when upstream is asked with the requester's token and does not accept that
   */
  async list(module: ModuleAddress, requester: Requester = NOBODY): Promise<ModuleList> {
    const upstream = this.#policy.admit(module, requester);
    const stored = isForAll(upstream) ? await this.#store.list(module) : NOTHING_STORED;
    const { answer, stale, freshUntil } = await this.#upstreams.ask(
      upstream,
      () => this.#metadata.versions(upstream, module),
      stored.length > 0,
      { address: module },
    );
    return {
      versions: this.#lists.get(stored, answer ?? NO_ANSWER, () => united(stored, answer)),
      freshUntil,
      ...stale,
    };
  }

  /**
   * Where the package is. Of a package that is not here yet the making begins, and is waited for as long as the deadline
   * allows: then the checksum is known, and trouble is told in words.
   * @throws NotFound when upstream does not have the version
   * @throws UpstreamUnreachable, UpstreamRefused, UpstreamInvalid, IntegrityMismatch when the package cannot be made
   * @throws Unauthenticated as `list` does
   */
  async locate(release: ModuleRelease, requester: Requester = NOBODY): Promise<LocatedModule> {
    const until = performance.now() + this.#deadlineMs - TRAVEL_MS;
    const upstream = this.#policy.admit(release.module, requester);
    const stored = await this.#authorised(upstream, release);
    if (stored) return packageOf(stored, upstream, 'stored');

    const { value } = await this.#askFor(upstream, release);
    const location = locationOf(value);
    if (location.kind === 'unmirrored') {
      if (this.#unsupported === 'refuse') throw cannotBeMirrored(release, location.scheme);
      loggerFor(upstream.origin, this.#logger).info('clients are sent elsewhere for a module that cannot be mirrored', {
        module: release.toString(),
        scheme: location.scheme,
      });
      return { kind: 'elsewhere', location: location.text };
    }
    const made = await settledWithin(this.#make(upstream, release, value), until - performance.now());
    if (made) return packageOf(made, upstream, 'made');
    return {
      kind: 'package',
      state: 'arriving',
      subdir: subdirAhead(location.subdir, release),
      sha256: undefined,
      isPrivate: !isForAll(upstream),
    };
  }

  /** What is known of a package without making it. @throws as `locate` does when it is not stored */
  async describePackage(release: ModuleRelease, requester: Requester = NOBODY): Promise<ArchiveDescription> {
    const upstream = this.#policy.admit(release.module, requester);
    const stored = await this.#authorised(upstream, release);
    if (stored) return stored;
    await this.#askFor(upstream, release);
    return { size: undefined, sha256: undefined, storedAt: undefined };
  }

  /** The package. Takes as long as its making does. @throws as `locate` does */
  async openPackage(release: ModuleRelease, requester: Requester = NOBODY): Promise<ReadableArchive> {
    const upstream = this.#policy.admit(release.module, requester);
    const stored = await this.#authorised(upstream, release);
    const remake = () => this.#made(upstream, release);
    if (stored) {
      this.#packages.counts.hits += 1;
      return this.#packages.readable(stored, remake);
    }
    const { value } = await this.#askFor(upstream, release);
    const location = locationOf(value);
    if (location.kind === 'unmirrored') throw cannotBeMirrored(release, location.scheme);
    return this.#packages.readable(await this.#make(upstream, release, value), remake);
  }

  /** The stored package, if this requester may have it. Where upstream decides, it is asked. */
  async #authorised(upstream: Upstream, release: ModuleRelease): Promise<StoredPackage | undefined> {
    const stored = await this.#packages.find(release);
    if (!stored) return undefined;
    if (isForAll(upstream)) {
      this.#moved.check(upstream, stored);
      return stored;
    }
    const { value } = await this.#askFor(upstream, release);
    return this.#entitled(upstream, stored, value);
  }

  /**
   * The package, once it is certain that it is the one this requester was told of. Where upstream decides who may have
   * what, it may tell each of another one under the same version.
   */
  async #entitled(upstream: Upstream, stored: StoredPackage, answer: LocationAnswer): Promise<StoredPackage> {
    if (isForAll(upstream) || (await this.#sources.leadsTo(upstream, stored, answer))) return stored;
    throw new UpstreamInvalid(
      String(upstream.hostname),
      `tells whoever asks with this token of another package as ${stored.release} than the one that is kept here`,
    );
  }

  async #askFor(upstream: Upstream, release: ModuleRelease) {
    this.#upstreams.demandOpen(upstream, { address: release.module, version: release.version });
    return this.#metadata.location(upstream, release);
  }

  async #make(upstream: Upstream, release: ModuleRelease, answer: LocationAnswer): Promise<StoredPackage> {
    return this.#entitled(upstream, await this.#made(upstream, release), answer);
  }

  async #made(upstream: Upstream, release: ModuleRelease): Promise<StoredPackage> {
    let isOurs = false;
    const make = async (work: WorkDirectory, signal: AbortSignal): Promise<MadePackage> => {
      isOurs = true;
      const made = await this.#sources.make(upstream, release, work.path, signal);
      const first = await this.#store.recall(release);
      if (first && !isSame(first, made)) {
        this.#drift.report(release, first.sha256, made.sha256);
        throw publishedTwice(upstream, release, first, made);
      }
      return made;
    };
    try {
      return await this.#packages.read(release, make, upstream.origin);
    } catch (error) {
      const isRefusal = hasCode(error, 'UNAUTHENTICATED') || hasCode(error, 'UPSTREAM_REFUSED');
      // Of somebody else's token, which says nothing of this requester's.
      if (isRefusal && !isOurs && !isForAll(upstream)) return this.#packages.read(release, make, upstream.origin);
      throw error;
    }
  }
}

function publishedTwice(
  { hostname }: Upstream,
  { module, version }: ModuleRelease,
  first: PackageRecord,
  made: PackageRecord,
): IntegrityMismatch {
  return new IntegrityMismatch(
    `${hostname} now publishes something else as ${module.written} ${version}: the SHA-256 of its package was ` +
      `${first.sha256} when first seen and is ${made.sha256} now`,
    { hint: `an operator who knows why can accept it: larder purge ${module} ${version}` },
  );
}

function packageOf({ subdir, sha256 }: StoredPackage, upstream: Upstream, state: 'stored' | 'made'): LocatedModule {
  return { kind: 'package', state, subdir, sha256, isPrivate: !isForAll(upstream) };
}

/** Where the module will be in a package that is not made yet: a leading glob stands for the directory that becomes the root. */
function subdirAhead(subdir: string, { module, version }: ModuleRelease): string {
  const [first = '', ...rest] = subdir.split('/');
  const ahead = isGlob(first) ? rest.join('/') : subdir;
  if (!isGlob(ahead) && isPlain(ahead)) return ahead;
  throw new UpstreamUnreachable(
    String(module.hostname),
    'busy',
    `keeps ${module.written} ${version} in a directory whose name is not known before its package is made, which takes longer`,
  );
}

function united(stored: readonly StoredPackage[], answer: ModuleVersions | undefined): readonly Version[] {
  const versions = new Map<string, Version>();
  for (const { version } of answer?.versions ?? []) versions.set(version.toString(), version);
  for (const { release } of stored) versions.set(release.version.toString(), release.version);
  return [...versions.values()].sort((a, b) => Version.compare(b, a));
}
