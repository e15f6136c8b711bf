import pLimit from 'p-limit';
import { ProviderArchive } from '../address/archive.ts';
import { type Hash, type Sha256, sha256Of, zipHash } from '../address/hash.ts';
import type { Hostname } from '../address/hostname.ts';
import type { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { ReadableArchive } from '../cache/readable-archive.ts';
import { attributeOf } from '../configuration/hcl.ts';
import { type LockEntry, type LockFile, readLockFile } from '../configuration/lock-file.ts';
import { withHashes } from '../configuration/lock-file-hashes.ts';
import type { Diagnostic } from '../configuration/requirements.ts';
import { Forbidden, hasCode, IntegrityMismatch, InvalidAddress, LarderError, NotFound } from '../errors.ts';
import type { ArchiveStore, ReleaseFiles, StoredArchive } from '../store/archive-store.ts';
import type { PackageHashes } from './package-hashes.ts';
import { type ReleaseKnowledge, releaseKnowledge } from './release-knowledge.ts';

/** Providers looked at at a time. */
const CONCURRENT_PROVIDERS = 4;
/** Hashes that are named in a message; there may be dozens. */
const MAX_NAMED = 3;

export interface LockRequest {
  /** Their `h1:` is wanted. */
  readonly platforms: readonly Platform[];
  /** Archives of these platforms that are not stored are brought in. */
  readonly fetch: boolean;
  /** The name by which diagnostics call the file. */
  readonly file: string;
  /** Whose addresses whoever asks may see; all unless given. */
  readonly mayHave?: (address: ProviderAddress) => boolean;
}

/** What became of one provider of a lock file. */
export interface LockReport {
  readonly address: ProviderAddress;
  readonly version: Version;
  readonly outcome: 'completed' | 'unchanged' | 'failed';
  /** Hashes that the lock file did not have. */
  readonly added: readonly Hash[];
  /** Platforms that were asked for and whose `h1:` is not known, with the reason. */
  readonly missing: readonly { readonly platform: Platform; readonly reason: string }[];
  /** Platforms that were asked for and that the provider does not exist for. */
  readonly unsupported: readonly Platform[];
  /** Why it failed, or why there are fewer hashes than there might be. */
  readonly reason: string | undefined;
}

export interface CompletedLock {
  /** Differs from the one that was given in nothing but hashes that came to those that were there. */
  readonly text: string;
  readonly providers: readonly LockReport[];
  readonly diagnostics: readonly Diagnostic[];
}

/**
 * Completes lock files that were written through a network mirror, which hold one platform's `h1:` alone: with every
 * `zh:` of SHA256SUMS and the `h1:` of the platforms wanted, as `providers lock` writes them at the registry itself.
 *
 * Only what was verified goes in: lines of SHA256SUMS whose signature is good, what such a list vouches for, and hashes
 * of archives that are stored. Where the list is not signed it is the latter alone.
 */
export class LockCompletion {
  readonly #releases: ChecksumSource;
  readonly #store: Pick<ArchiveStore, 'find' | 'list'>;
  readonly #hashes: Pick<PackageHashes, 'known' | 'knownUnpacked' | 'unpacked'>;
  readonly #open: ((archive: ProviderArchive) => Promise<ReadableArchive>) | undefined;
  readonly #defaultHostname: Hostname;

  constructor(deps: {
    releases: ChecksumSource;
    store: Pick<ArchiveStore, 'find' | 'list'>;
    hashes: Pick<PackageHashes, 'known' | 'knownUnpacked' | 'unpacked'>;
    /** Brings an archive in as a client would. Without it, nothing can be fetched. */
    openArchive?: (archive: ProviderArchive) => Promise<ReadableArchive>;
    /** For addresses without a host, which the CLIs never write. */
    defaultHostname: Hostname;
  }) {
    this.#releases = deps.releases;
    this.#store = deps.store;
    this.#hashes = deps.hashes;
    this.#open = deps.openArchive;
    this.#defaultHostname = deps.defaultHostname;
  }

  /** What cannot be completed is told, provider by provider, and stays as it is. */
  async complete(text: string, request: LockRequest): Promise<CompletedLock> {
    const lock = readLockFile(text, request.file, this.#defaultHostname);
    const limit = pLimit(CONCURRENT_PROVIDERS);
    const providers = await Promise.all(lock.entries.map((entry) => limit(() => this.#report(entry, request))));
    const changes = lock.entries.flatMap((entry, index): [string, Hash[]][] => {
      const added = providers[index]?.added ?? [];
      return added.length === 0 ? [] : [[entry.address.toString(), [...entry.hashes, ...added]]];
    });
    const diagnostics = [...lock.diagnostics, ...locksNothing(lock)];
    return { text: withHashes(text, lock, new Map(changes)), providers, diagnostics };
  }

  async #report(entry: LockEntry, request: LockRequest): Promise<LockReport> {
    const { address, version } = entry;
    try {
      if (request.mayHave && !request.mayHave(address)) throw new Forbidden(`${address} is not open to this token`);
      const { reason, hashes, missing, unsupported } = await this.#hashesOf(entry, request);
      const added = [...hashes].filter((hash) => !entry.hashes.includes(hash)).sort();
      const outcome = added.length > 0 ? 'completed' : 'unchanged';
      return { address, version, outcome, added, missing, unsupported, reason };
    } catch (error) {
      if (!(error instanceof LarderError)) throw error;
      const reason = error.hint ? `${error.message}; ${error.hint}` : error.message;
      return { address, version, outcome: 'failed', added: [], missing: [], unsupported: [], reason };
    }
  }

  async #hashesOf(entry: LockEntry, { platforms, fetch }: LockRequest): Promise<Findings> {
    const { address, version } = entry;
    const list = attributeOf(entry.block.body, 'hashes');
    if (list && list.value.kind !== 'list') {
      throw new InvalidAddress('lock', address.toString(), 'its hashes are no list');
    }
    const { release, trouble } = await this.#release(address, version);
    refuseForeignDigests(entry, release);

    const found: Findings = { hashes: new Set(), missing: [], unsupported: [], reason: trouble ?? release.objection };
    if (release.isSigned) for (const digest of release.digests.values()) found.hashes.add(zipHash(digest));
    for (const platform of platforms) {
      await this.#addPlatform(found, new ProviderArchive(address, version, platform), release, fetch);
    }
    await this.#refuseForeignPackageHashes(entry, release, found);
    if (found.hashes.size === 0) {
      throw new NotFound(
        `nothing that could be relied on is known of ${address} ${version}${found.reason ? `: ${found.reason}` : ''}`,
      );
    }
    return found;
  }

  /** What SHA256SUMS tells. Where nobody can tell it now, archives that are stored still have hashes. */
  async #release(
    provider: ProviderAddress,
    version: Version,
  ): Promise<{ release: ReleaseKnowledge; trouble?: string }> {
    try {
      const { files } = await this.#releases.checksums(provider, version);
      return { release: await releaseKnowledge(provider, files) };
    } catch (error) {
      const isNoMore = hasCode(error, 'UPSTREAM_UNREACHABLE') || hasCode(error, 'NOT_FOUND');
      const stored = isNoMore ? await this.#store.list(provider) : [];
      if (!isNoMore || !stored.some(({ archive }) => archive.version.toString() === version.toString())) throw error;
      return { release: await releaseKnowledge(provider, undefined), trouble: error.message };
    }
  }

  /** @throws IntegrityMismatch when what is stored contradicts SHA256SUMS; what fetching fails with */
  async #addPlatform(
    found: Findings,
    archive: ProviderArchive,
    release: ReleaseKnowledge,
    fetch: boolean,
  ): Promise<void> {
    const { platform } = archive;
    const stored = (await this.#store.find(archive)) ?? (fetch ? await this.#fetched(archive) : undefined);
    if (stored) {
      refuseForeignArchive(stored, release);
      found.hashes.add(zipHash(stored.sha256));
      const h1 = await this.#hashes.unpacked(stored);
      if (h1) found.hashes.add(h1);
      else found.missing.push({ platform, reason: 'its archive is no zip that can be read' });
      return;
    }
    const told = release.packageOf(archive);
    if (!told) {
      if (release.digests.size > 0) found.unsupported.push(platform);
      else found.missing.push({ platform, reason: 'its archive is not stored' });
      return;
    }
    const h1 = release.isSigned ? ((await this.#hashes.knownUnpacked(told.sha256)) ?? told.h1) : undefined;
    if (h1) found.hashes.add(h1);
    else found.missing.push({ platform, reason: 'its archive is not stored, and nobody else can tell' });
  }

  /** `undefined` when upstream has no such archive. */
  async #fetched(archive: ProviderArchive): Promise<StoredArchive | undefined> {
    try {
      const readable = await this.#open?.(archive);
      await readable?.settled?.();
    } catch (error) {
      if (!hasCode(error, 'NOT_FOUND')) throw error;
    }
    return this.#store.find(archive);
  }

  /** An `h1:` of a platform that is not known here may be right; when all are known it is not. */
  async #refuseForeignPackageHashes(entry: LockEntry, release: ReleaseKnowledge, found: Findings): Promise<void> {
    const foreign = new Set(entry.hashes.filter((hash) => hash.startsWith('h1:') && !found.hashes.has(hash)));
    if (foreign.size === 0) return;
    const known: Hash[] = [];
    for (const sha256 of release.archives) {
      const unpacked = await this.#hashes.knownUnpacked(sha256);
      if (!unpacked) return;
      const zip = await this.#hashes.known(sha256);
      known.push(unpacked);
      foreign.delete(unpacked);
      if (zip) foreign.delete(zip);
    }
    const [wrong] = foreign;
    if (known.length === 0 || !wrong) return;
    throw contradicted(entry, wrong, `its archives have ${named(known)}`);
  }
}

/** Whoever has it completed means another file, or has lost what was in it. */
function locksNothing({ file, entries, diagnostics }: LockFile): Diagnostic[] {
  if (entries.length > 0 || diagnostics.some(({ severity }) => severity === 'error')) return [];
  return [{ file, at: '1:1', severity: 'warning', message: 'nothing in this file locks a provider' }];
}

/** Where SHA256SUMS of a version comes from. */
export interface ChecksumSource {
  /** @throws NotFound when there is none, UpstreamUnreachable when it cannot be had */
  checksums(provider: ProviderAddress, version: Version): Promise<{ readonly files: ReleaseFiles }>;
}

interface Findings {
  readonly hashes: Set<Hash>;
  readonly missing: { platform: Platform; reason: string }[];
  readonly unsupported: Platform[];
  readonly reason: string | undefined;
}

/** @throws IntegrityMismatch when the lock file has a digest that SHA256SUMS does not have */
function refuseForeignDigests(entry: LockEntry, { digests }: ReleaseKnowledge): void {
  if (digests.size === 0) return;
  const listed = new Set(digests.values());
  const wrong = entry.hashes.find((hash) => {
    const sha256 = sha256Of(hash);
    return sha256 !== undefined && !listed.has(sha256);
  });
  if (!wrong) return;
  const others = [...listed].map(zipHash).filter((hash) => !entry.hashes.includes(hash));
  throw contradicted(entry, wrong, `SHA256SUMS lists ${others.length > 0 ? named(others) : 'only others'}`);
}

/** @throws IntegrityMismatch */
function refuseForeignArchive({ archive, sha256 }: StoredArchive, { digests }: ReleaseKnowledge): void {
  if (digests.size === 0 || new Set<Sha256>(digests.values()).has(sha256)) return;
  throw new IntegrityMismatch(`${archive} is kept here as ${zipHash(sha256)}, which SHA256SUMS does not list`, {
    hint: `an operator who knows why can remove it: larder purge ${archive.provider} ${archive.version}`,
  });
}

function contradicted({ address, version }: LockEntry, wrong: Hash, known: string): IntegrityMismatch {
  return new IntegrityMismatch(`the lock file has ${wrong} of ${address} ${version}, but ${known}`, {
    hint: 'find out where that came from before you take it out',
  });
}

function named(hashes: readonly Hash[]): string {
  const more = hashes.length - MAX_NAMED;
  return hashes.slice(0, MAX_NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
