import { z } from 'zod';
import { type Hash, parseHash, type Sha256 } from '../address/hash.ts';
import type { MetadataCache, MetadataKind } from '../cache/metadata-cache.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, ComputedHashes, StoredArchive } from '../store/archive-store.ts';
import { metadataKeys } from '../store/keys.ts';

/** A package hash is a function of the archive's digest: it never goes stale, it is only forgotten when unused for this long. */
const KEEP_MS = 365 * 24 * 3_600_000;

const kind: MetadataKind<Hash> = {
  decode: (stored) => parseHash(z.string().parse(stored)),
  encode: (hash) => hash,
  freshness: () => ({ freshForMs: KEEP_MS, keepForMs: KEEP_MS, absentForMs: 0 }),
};

/**
 * The `h1:` of what is stored: computed once per archive in the background, remembered beside the archive and, by
 * digest, in the metadata store (so that another replica or a re-download need not compute it again).
 */
export class PackageHashes {
  readonly #store: ArchiveStore;
  readonly #cache: MetadataCache;
  readonly #logger: Logger;
  /** Digests whose hash is being computed, or that turned out to have none (no readable zip). */
  readonly #attempted = new Map<Sha256, Promise<void>>();

  constructor(deps: { store: ArchiveStore; cache: MetadataCache; logger: Logger }) {
    this.#store = deps.store;
    this.#cache = deps.cache;
    this.#logger = deps.logger;
  }

  /** Computed earlier for an archive with this digest, here or on another replica. */
  async known(sha256: Sha256): Promise<Hash | undefined> {
    return (await this.#cache.peek(metadataKeys.packageHash(sha256), kind))?.value;
  }

  /** The form that lock files hold, where it was computed earlier for an archive with this digest. */
  async knownUnpacked(sha256: Sha256): Promise<Hash | undefined> {
    return (await this.#cache.peek(metadataKeys.unpackedHash(sha256), kind))?.value;
  }

  /** The same of a stored archive, computed where it is not known. `undefined` when it is no readable zip. */
  async unpacked(stored: StoredArchive): Promise<Hash | undefined> {
    await this.#attempted.get(stored.sha256);
    const known = await this.knownUnpacked(stored.sha256);
    if (known) return known;
    const computed = await this.#store.computePackageHash(stored);
    if (computed) await this.#remember(stored.sha256, computed);
    return computed?.unpacked;
  }

  /** Sees to it that the archive's hash gets known, without making anybody wait. */
  request(stored: StoredArchive): void {
    if (stored.h1 || this.#attempted.has(stored.sha256)) return;
    const attempt = this.#compute(stored).catch((error: unknown) => {
      this.#attempted.delete(stored.sha256);
      this.#logger.warn('the package hash could not be computed', { archive: stored.archive.toString(), error });
    });
    this.#attempted.set(stored.sha256, attempt);
  }

  /** Resolves when everything requested so far is done. */
  async settled(): Promise<void> {
    await Promise.all(this.#attempted.values());
  }

  async #compute(stored: StoredArchive): Promise<void> {
    const known = await this.known(stored.sha256);
    const computed = known ? undefined : await this.#store.computePackageHash(stored);
    const h1 = known ?? computed?.zip;
    // No readable zip: the store has said why.
    if (!h1) return;
    await this.#store.putPackageHash(stored, h1);
    if (computed) await this.#remember(stored.sha256, computed);
    this.#attempted.delete(stored.sha256);
  }

  async #remember(sha256: Sha256, { zip, unpacked }: ComputedHashes): Promise<void> {
    const put = (key: string, h1: Hash) => this.#cache.read(key, kind, async () => h1, { host: 'this server' });
    await put(metadataKeys.packageHash(sha256), zip);
    await put(metadataKeys.unpackedHash(sha256), unpacked);
  }
}
