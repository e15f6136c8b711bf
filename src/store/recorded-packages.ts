import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sha256 } from '../address/hash.ts';
import type { ModuleRelease } from '../address/module.ts';
import type { Logger } from '../logger.ts';
import { digestOf } from './adoption.ts';
import { ChangedFiles, isStill, isUntouched } from './changed-files.ts';
import { paths } from './keys.ts';
import type { KeptRecord, ModuleRecords } from './module-records.ts';
import type { StoredPackage } from './module-store.ts';
import { ifPresent } from './storage-errors.ts';

/** What lies in the places of module packages, what is recorded of it, and whether that is still so. */
export class RecordedPackages {
  readonly #directory: string;
  readonly #records: ModuleRecords;
  readonly #changed: ChangedFiles;
  readonly #inTurn: <T>(release: ModuleRelease, work: () => Promise<T>) => Promise<T>;
  readonly #putAside: (altered: StoredPackage) => Promise<void>;

  constructor(deps: {
    directory: string;
    records: ModuleRecords;
    /** Nobody else changes the release meanwhile. */
    inTurn: <T>(release: ModuleRelease, work: () => Promise<T>) => Promise<T>;
    /** It was altered. Called in its turn. */
    putAside: (altered: StoredPackage) => Promise<void>;
    /** How long whoever asks waits for a comparison, in milliseconds; to its end, where nothing is said. */
    patienceMs?: number | undefined;
    logger: Logger;
  }) {
    this.#directory = deps.directory;
    this.#records = deps.records;
    this.#changed = new ChangedFiles(deps);
    this.#inTurn = deps.inTurn;
    this.#putAside = deps.putAside;
  }

  pathOf(release: ModuleRelease): string {
    return join(this.#directory, paths.modulePackage(release));
  }

  /** Both, by a look at each. @throws StorageFailed */
  see(release: ModuleRelease): Promise<[kept: KeptRecord | undefined, file: Stats | undefined]> {
    return Promise.all([this.#records.get(release), this.look(release)]);
  }

  /** @throws StorageFailed */
  async look(release: ModuleRelease): Promise<Stats | undefined> {
    const file = await ifPresent('looking for a package', stat(this.pathOf(release)));
    return file?.isFile() ? file : undefined;
  }

  /** Itself, when it is what was stored: what was written to since is compared. @throws StorageFailed */
  async asItWas(stored: StoredPackage, file: Stats): Promise<StoredPackage | undefined> {
    if (isUntouched(stored, file)) return stored;
    const { release, sha256 } = stored;
    const isSame = await this.#changed.isSame(
      { subject: release, sha256, file, path: this.pathOf(release) },
      {
        note: (mtimeMs) => this.#noteTime(release, sha256, mtimeMs),
        putAside: () => this.#putAsideIfStill(stored, file),
      },
    );
    return isSame ? { ...stored, storedAt: file.mtime } : undefined;
  }

  /** As `ModuleStore.verify`. @throws StorageFailed */
  async verify({ release, sha256 }: StoredPackage): Promise<boolean> {
    const file = await this.look(release);
    if (!file || (await digestOf(this.pathOf(release))) !== sha256) return false;
    // It is as intact where nothing can be written.
    await this.#noteTime(release, sha256, file.mtime.getTime()).catch(() => {});
    return true;
  }

  /** Ends a comparison under way; further ones are dropped. */
  close(): Promise<void> {
    return this.#changed.close();
  }

  /** It may have been purged meanwhile, and made anew. */
  #putAsideIfStill(altered: StoredPackage, file: Stats): Promise<void> {
    return this.#inTurn(altered.release, async () => {
      const [kept, now] = await this.see(altered.release);
      if (kept?.record.sha256 === altered.sha256 && isStill(file, now)) await this.#putAside(altered);
    });
  }

  async #noteTime(release: ModuleRelease, sha256: Sha256, mtimeMs: number): Promise<void> {
    if ((await this.#records.get(release))?.mtimeMs === mtimeMs) return;
    await this.#inTurn(release, async () => {
      const kept = await this.#records.get(release);
      if (kept && kept.record.sha256 === sha256) await this.#records.put(release, { ...kept, mtimeMs });
    });
  }
}
