import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { ReleaseFiles } from './archive-store.ts';
import { paths } from './keys.ts';
import type { PartialFiles } from './partial-files.ts';
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
    if (!known?.shasums.equals(files.shasums)) {
      const home = join(this.#directory, paths.provider(provider));
      await ofStorage('making the directory of a provider', mkdir(home, { recursive: true }));
      // That of another list says nothing of this one.
      const signature = join(this.#directory, paths.signature(provider, version));
      if (!files.signature) await ofStorage('removing checksums', rm(signature, { force: true }));
      await this.#partials.write(join(this.#directory, paths.shasums(provider, version)), files.shasums);
    }
    if (files.signature && !known?.signature?.equals(files.signature)) {
      await this.#partials.write(join(this.#directory, paths.signature(provider, version)), files.signature);
    }
    if (files.statement && !known?.statement?.equals(files.statement)) {
      await this.#partials.write(join(this.#directory, paths.statement(provider, version)), files.statement);
    }
  }

  /** @throws StorageFailed */
  async get(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined> {
    const read = (path: string) => readIfFile('reading checksums', join(this.#directory, path));
    const [shasums, signature, statement] = await Promise.all([
      read(paths.shasums(provider, version)),
      read(paths.signature(provider, version)),
      read(paths.statement(provider, version)),
    ]);
    return shasums && { shasums, signature, statement };
  }

  /** Versions whose SHA256SUMS is kept, in no particular order. @throws StorageFailed */
  async versions(provider: ProviderAddress): Promise<Version[]> {
    const home = join(this.#directory, paths.provider(provider));
    const names = (await ifPresent('listing a provider', readdir(home))) ?? [];
    return names.flatMap((name) => {
      const [, text = ''] = /_([^_]+)_SHA256SUMS$/.exec(name) ?? [];
      const version = Version.fromPublished(text);
      return version && paths.shasums(provider, version) === `${paths.provider(provider)}/${name}` ? [version] : [];
    });
  }

  /** @throws StorageFailed */
  async discard(provider: ProviderAddress, version: Version): Promise<void> {
    // SHA256SUMS last: the others alone are of no meaning, and whatever is left of an interruption is discarded again.
    for (const path of [paths.signature, paths.statement, paths.shasums].map((of) => of(provider, version))) {
      await ofStorage('removing checksums', rm(join(this.#directory, path), { force: true }));
    }
  }
}
