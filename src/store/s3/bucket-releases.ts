import type { ProviderAddress } from '../../address/provider.ts';
import type { Version } from '../../address/version.ts';
import type { ReleaseFiles } from '../archive-store.ts';
import { paths } from '../keys.ts';
import { readRelease, releaseChanges, releasedVersions, releasePaths } from '../release-paths.ts';
import type { Listings } from './listings.ts';
import type { SmallObjects } from './small-objects.ts';

/** SHA256SUMS, signatures and statements, as objects beside the archives of their versions. */
export class BucketReleases {
  readonly #objects: SmallObjects;
  readonly #listings: Listings;

  constructor(deps: { objects: SmallObjects; listings: Listings }) {
    this.#objects = deps.objects;
    this.#listings = deps.listings;
  }

  /** @throws StorageFailed */
  async put(provider: ProviderAddress, version: Version, files: ReleaseFiles): Promise<void> {
    const known = await this.get(provider, version);
    try {
      for (const { path, content } of releaseChanges(provider, version, { files, known })) {
        if (content) await this.#objects.put(path, content);
        else await this.#objects.remove(path);
      }
    } finally {
      this.#listings.forget(paths.provider(provider));
    }
  }

  /** @throws StorageFailed */
  get(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined> {
    return readRelease(provider, version, async (path) => (await this.#objects.get(path))?.content);
  }

  /** Versions whose SHA256SUMS is kept, in no particular order. @throws StorageFailed */
  async versions(provider: ProviderAddress): Promise<Version[]> {
    const { objects } = await this.#listings.get(paths.provider(provider));
    return releasedVersions(provider, objects.keys());
  }

  /** @throws StorageFailed */
  async discard(provider: ProviderAddress, version: Version): Promise<void> {
    try {
      for (const path of releasePaths(provider, version)) await this.#objects.remove(path);
    } finally {
      this.#listings.forget(paths.provider(provider));
    }
  }
}
