import { z } from 'zod';
import { type Hash, parseHash, type Sha256 } from '../address/hash.ts';
import type { MetadataCache, MetadataKind } from '../cache/metadata-cache.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
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
    const h1 = (await this.known(stored.sha256)) ?? (await this.#store.computePackageHash(stored));
    // No readable zip: the store has said why.
    if (!h1) return;
    await this.#store.putPackageHash(stored.archive, h1);
    await this.#cache.read(metadataKeys.packageHash(stored.sha256), kind, async () => h1, { host: 'this server' });
    this.#attempted.delete(stored.sha256);
  }
}
