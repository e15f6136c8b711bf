import type { ProviderArchive } from '../address/archive.ts';
import { type Hash, sha256Of } from '../address/hash.ts';
import { LarderError } from '../errors.ts';
import type { ArchiveStore } from '../store/archive-store.ts';
import { type ReleaseKnowledge, releaseKnowledge } from './release-knowledge.ts';

/** What SHA256SUMS tells that is kept here, without asking anybody. Where none is kept, or none that can be read, it tells nothing. */
export class KeptKnowledge {
  readonly #archives: Pick<ArchiveStore, 'getRelease'>;

  constructor(deps: { archives: Pick<ArchiveStore, 'getRelease'> }) {
    this.#archives = deps.archives;
  }

  /** That the version exists, and not for this platform. @throws StorageFailed */
  async doesNotExist(archive: ProviderArchive): Promise<boolean> {
    const release = await this.#of(archive);
    return release !== undefined && release.archives.length > 0 && release.packageOf(archive) === undefined;
  }

  /** One of these that is a digest of no file of the version. @throws StorageFailed */
  async foreignDigest(archive: ProviderArchive, hashes: readonly Hash[]): Promise<Hash | undefined> {
    const listed = new Set((await this.#of(archive))?.digests.values());
    if (listed.size === 0) return undefined;
    return hashes.find((hash) => {
      const sha256 = sha256Of(hash);
      return sha256 !== undefined && !listed.has(sha256);
    });
  }

  async #of({ provider, version }: ProviderArchive): Promise<ReleaseKnowledge | undefined> {
    const files = await this.#archives.getRelease(provider, version);
    try {
      return files && (await releaseKnowledge(provider, files));
    } catch (error) {
      if (error instanceof LarderError) return undefined;
      throw error;
    }
  }
}
