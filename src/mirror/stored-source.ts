import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { ArchiveStore, ReleaseFiles, StoredArchive } from '../store/archive-store.ts';
import { paths } from '../store/keys.ts';
import type { ModuleStore } from '../store/module-store.ts';
import type { CarriedArchive, CarriedPackage, CarrySource } from './carried.ts';

/**
 * Carries out of the stores of a data directory. Archives whose package hash is not known yet are
 * hashed on the way; nothing is written there, for a server may be writing at the same time.
 */
export class StoredSource implements CarrySource {
  readonly #store: ArchiveStore;
  readonly #modules: ModuleStore;
  readonly #directory: string | undefined;

  /** @param deps.directory where both stores keep their files; `undefined` when they are in a bucket */
  constructor(deps: { store: ArchiveStore; modules: ModuleStore; directory: string | undefined }) {
    this.#store = deps.store;
    this.#modules = deps.modules;
    this.#directory = deps.directory;
  }

  async *archives(): AsyncGenerator<CarriedArchive> {
    for await (const provider of this.#store.providers()) {
      for (const stored of [...(await this.#store.list(provider))].sort(byName)) {
        const h1 = stored.h1 ?? (await this.#store.computePackageHash(stored))?.zip;
        yield { archive: stored.archive, size: stored.size, sha256: stored.sha256, h1 };
      }
    }
  }

  async *packages(): AsyncGenerator<CarriedPackage> {
    for await (const module of this.#modules.modules()) yield* await this.#modules.list(module);
  }

  release(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined> {
    return this.#store.getRelease(provider, version);
  }

  openArchive(carried: CarriedArchive): Promise<Readable> {
    return this.#store.read({ ...carried, storedAt: new Date(0) }, undefined, 'look');
  }

  openPackage(carried: CarriedPackage): Promise<Readable> {
    return this.#modules.read({ ...carried, storedAt: new Date(0) }, undefined, 'look');
  }

  fileOf(carried: CarriedArchive | CarriedPackage): string | undefined {
    if (this.#directory === undefined) return undefined;
    const path = 'archive' in carried ? paths.archive(carried.archive) : paths.modulePackage(carried.release);
    return join(this.#directory, path);
  }
}

/** As they are listed: old versions first. */
function byName({ archive: a }: StoredArchive, { archive: b }: StoredArchive): number {
  return Version.compare(a.version, b.version) || (`${a.platform}` < `${b.platform}` ? -1 : 1);
}
