import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { ReleaseFiles } from './archive-store.ts';
import { paths } from './keys.ts';
import type { PartialFiles } from './partial-files.ts';
import { readRelease, releaseChanges, releasedVersions, releasePaths } from './release-paths.ts';
import { ifPresent, ofStorage, readIfFile } from './storage-errors.ts';

/** SHA256SUMS, signatures and statements, as files beside the archives of their versions. */
export class KeptReleases {
  readonly #directory: string;
  readonly #partials: PartialFiles;

  constructor(deps: { directory: string; partials: PartialFiles }) {
    this.#directory = deps.directory;
    this.#partials = deps.partials;
  }

  /** @throws StorageFailed */
  async put(provider: ProviderAddress, version: Version, files: ReleaseFiles): Promise<void> {
    const known = await this.get(provider, version);
    if (!known) {
      const home = join(this.#directory, paths.provider(provider));
      await ofStorage('making the directory of a provider', mkdir(home, { recursive: true }));
    }
    for (const { path, content } of releaseChanges(provider, version, { files, known })) {
      if (content) await this.#partials.write(join(this.#directory, path), content);
      else await this.#remove(path);
    }
  }

  /** @throws StorageFailed */
  get(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined> {
    const read = (path: string) => readIfFile('reading checksums', join(this.#directory, path));
    return readRelease(provider, version, read);
  }

  /** Versions whose SHA256SUMS is kept, in no particular order. @throws StorageFailed */
  async versions(provider: ProviderAddress): Promise<Version[]> {
    const home = join(this.#directory, paths.provider(provider));
    return releasedVersions(provider, (await ifPresent('listing a provider', readdir(home))) ?? []);
  }

  /** @throws StorageFailed */
  async discard(provider: ProviderAddress, version: Version): Promise<void> {
    for (const path of releasePaths(provider, version)) await this.#remove(path);
  }

  /** Absent is fine. */
  async #remove(path: string): Promise<void> {
    await ofStorage('removing checksums', rm(join(this.#directory, path), { force: true }));
  }
}
