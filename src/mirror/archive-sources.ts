import type { ProviderArchive } from '../address/archive.ts';
import type { Sha256 } from '../address/hash.ts';
import type { ReadOptions } from '../cache/metadata-cache.ts';
import type { ArchiveSource, OpenedSource } from '../cache/readable-archive.ts';
import { hasCode, IntegrityMismatch, NotFound } from '../errors.ts';
import type { ProviderRegistry } from '../upstream/provider-registry.ts';
import type { PackageDocument } from '../upstream/registry-answers.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { Release, ReleasePackage } from './release.ts';
import type { ProviderAnswers } from './seasoned-metadata.ts';

/** A client waits for the answer to its HEAD; without a length it goes on to its GET all the same. */
const LENGTH_DEADLINE_MS = 2_000;

/** Where archives are to be had, and what they must turn out to be. */
export class ArchiveSources {
  readonly #metadata: ProviderAnswers;
  readonly #registry: ProviderRegistry;

  constructor(deps: { metadata: ProviderAnswers; registry: ProviderRegistry }) {
    this.#metadata = deps.metadata;
    this.#registry = deps.registry;
  }

  /** Bytes, when upstream tells: it is asked, but nothing is pulled. */
  async length(upstream: Upstream, archive: ProviderArchive): Promise<number | undefined> {
    const document = await this.#metadata.document(upstream, archive);
    return this.#registry.archiveLength(upstream, document, AbortSignal.timeout(LENGTH_DEADLINE_MS));
  }

  /** @throws NotFound when upstream has the version, but not for this platform */
  async released(upstream: Upstream, archive: ProviderArchive): Promise<ReleasePackage> {
    const { value } = await this.#metadata.release(upstream, archive.provider, archive.version);
    return packageIn(value, upstream, archive);
  }

  /** What upstream says an archive is, and where it is, agreeing with each other and with what was said first. */
  async #promised(upstream: Upstream, archive: ProviderArchive): Promise<Promised> {
    const read = async (options: ReadOptions): Promise<Promised> => {
      const { value } = await this.#metadata.release(upstream, archive.provider, archive.version, options);
      return {
        release: value,
        told: packageIn(value, upstream, archive),
        document: await this.#metadata.document(upstream, archive),
      };
    };
    const known = await read({});
    // What is remembered of a release may be older than its document: before upstream is blamed it is asked anew.
    const promised = agree(known) || known.told.drifted ? known : await read({ notBefore: Date.now() });
    const { told, document } = promised;
    if (told.drifted) throw publishedTwice(upstream, archive, told.sha256, told.drifted);
    if (!agree(promised)) throw contradiction(upstream, archive, told.sha256, document.sha256);
    return promised;
  }

  /** Where an absent archive comes from. @throws IntegrityMismatch when upstream contradicts itself, or what it said first */
  async of(upstream: Upstream, archive: ProviderArchive): Promise<ArchiveSource> {
    const promised = await this.#promised(upstream, archive);
    const { sha256, size } = promised.told;
    let { document } = promised;
    const open = async (offset: number, signal: AbortSignal): Promise<OpenedSource> => ({
      ...(await this.#registry.openArchive(upstream, document, offset, signal)),
      host: document.downloadUrl.host,
    });
    return {
      sha256,
      size,
      release: promised.release.files,
      open: async (offset, signal) => {
        try {
          return await open(offset, signal);
        } catch (error) {
          // Download addresses expire; a new one is asked for once before the file host's word is taken for it.
          if (!hasCode(error, 'UPSTREAM_REFUSED') && !hasCode(error, 'NOT_FOUND')) throw error;
          document = await this.#metadata.document(upstream, archive, true);
          if (document.sha256 !== sha256) throw contradiction(upstream, archive, sha256, document.sha256);
          return open(offset, signal);
        }
      },
    };
  }
}

/** What upstream promises of one archive. */
interface Promised {
  readonly release: Release;
  readonly told: ReleasePackage;
  readonly document: PackageDocument;
}

function agree({ told, document }: Promised): boolean {
  return told.sha256 === document.sha256;
}

/** @throws NotFound when the release has no such platform */
export function packageIn(release: Release, { hostname }: Upstream, archive: ProviderArchive): ReleasePackage {
  const told = release.packages.get(archive.platform.toString());
  if (told) return told;
  throw new NotFound(`${hostname} has no ${archive.filename}`, {
    hint: `it has this version for: ${[...release.packages.keys()].sort().join(', ') || 'no platform'}`,
  });
}

function contradiction({ hostname }: Upstream, { filename }: ProviderArchive, listed: Sha256, documented: Sha256) {
  return new IntegrityMismatch(
    `${hostname} contradicts itself about ${filename}: SHA256SUMS says ${listed}, the package document ${documented}`,
  );
}

/** That upstream contradicts what it said first. */
export function publishedTwice(
  { hostname }: Upstream,
  { filename, provider, version }: ProviderArchive,
  first: Sha256,
  now: Sha256,
) {
  return new IntegrityMismatch(
    `${hostname} now publishes other bytes as ${filename}: its SHA-256 was ${first} when first seen and is ${now} now`,
    { hint: `an operator who knows why can accept it: larder purge ${provider} ${version}` },
  );
}
