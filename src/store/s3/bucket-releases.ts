import type { ProviderAddress } from '../../address/provider.ts';
import { Version } from '../../address/version.ts';
import type { ReleaseFiles } from '../archive-store.ts';
import { paths } from '../keys.ts';
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
      if (!known?.shasums.equals(files.shasums)) {
        // That of another list says nothing of this one.
        if (!files.signature && known?.signature) await this.#objects.remove(paths.signature(provider, version));
        await this.#objects.put(paths.shasums(provider, version), files.shasums);
      }
      if (files.signature && !known?.signature?.equals(files.signature)) {
        await this.#objects.put(paths.signature(provider, version), files.signature);
      }
      if (files.statement && !known?.statement?.equals(files.statement)) {
        await this.#objects.put(paths.statement(provider, version), files.statement);
      }
    } finally {
      this.#listings.forget(paths.provider(provider));
    }
  }

  /** @throws StorageFailed */
  async get(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined> {
    const read = async (key: string) => (await this.#objects.get(key))?.content;
    const [shasums, signature, statement] = await Promise.all([
      read(paths.shasums(provider, version)),
      read(paths.signature(provider, version)),
      read(paths.statement(provider, version)),
    ]);
    return shasums && { shasums, signature, statement };
  }

  /** Versions whose SHA256SUMS is kept, in no particular order. @throws StorageFailed */
  async versions(provider: ProviderAddress): Promise<Version[]> {
    const { objects } = await this.#listings.get(paths.provider(provider));
    return [...objects].flatMap(([name, { key }]) => {
      const [, text = ''] = /_([^_]+)_SHA256SUMS$/.exec(name) ?? [];
      const version = Version.fromPublished(text);
      return version && paths.shasums(provider, version) === key ? [version] : [];
    });
  }

  /** @throws StorageFailed */
  async discard(provider: ProviderAddress, version: Version): Promise<void> {
    try {
      // SHA256SUMS last: the others alone are of no meaning, and whatever is left of an interruption is discarded again.
      for (const of of [paths.signature, paths.statement, paths.shasums]) {
        await this.#objects.remove(of(provider, version));
      }
    } finally {
      this.#listings.forget(paths.provider(provider));
    }
  }
}
