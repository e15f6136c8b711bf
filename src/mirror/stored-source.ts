import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { Hash } from '../address/hash.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import { hasCode } from '../errors.ts';
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
        yield { ...stored, h1: stored.h1 ?? (await this.#packageHash(stored)) };
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
    return this.#store.read(asStored(carried), undefined, 'look');
  }

  openPackage(carried: CarriedPackage): Promise<Readable> {
    return this.#modules.read(asStored(carried), undefined, 'look');
  }

  fileOf(carried: CarriedArchive | CarriedPackage): string | undefined {
    if (this.#directory === undefined) return undefined;
    const path = 'archive' in carried ? paths.archive(carried.archive) : paths.modulePackage(carried.release);
    return join(this.#directory, path);
  }

  /** What cannot be hashed cannot be copied either: that fails, and says why, when it is opened. */
  async #packageHash(stored: StoredArchive): Promise<Hash | undefined> {
    try {
      return (await this.#store.computePackageHash(stored))?.zip;
    } catch (error) {
      if (hasCode(error, 'STORAGE_FAILED')) return undefined;
      throw error;
    }
  }
}

/** One whose time is not known is found anew. */
function asStored<T extends { readonly storedAt?: Date | undefined }>(carried: T): T & { readonly storedAt: Date } {
  return { ...carried, storedAt: carried.storedAt ?? new Date(0) };
}

/** As they are listed: old versions first. */
function byName({ archive: a }: StoredArchive, { archive: b }: StoredArchive): number {
  return Version.compare(a.version, b.version) || (`${a.platform}` < `${b.platform}` ? -1 : 1);
}
