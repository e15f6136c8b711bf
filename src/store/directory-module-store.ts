import type { Stats } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type ModuleAddress, ModuleRelease } from '../address/module.ts';
import type { Version } from '../address/version.ts';
import { StorageFailed } from '../errors.ts';
import { KeyedTurns } from '../keyed-turns.ts';
import type { Logger } from '../logger.ts';
import { isSettled } from './adoption.ts';
import type { ArchiveBody } from './archive-body.ts';
import type { ByteRange, ReadPurpose } from './archive-store.ts';
import { ALTERED } from './changed-files.ts';
import { DirectoryLocks } from './directory-locks.ts';
import { openFound, ReadingMemory } from './file-stream.ts';
import { demandFirst } from './first-package.ts';
import { freeKeeping, type Keeping, reading } from './keeping.ts';
import { paths } from './keys.ts';
import { makeDirectory, mayNotWrite } from './make-directory.ts';
import { moduleDirectories, moduleFiles } from './module-directories.ts';
import { ModuleRecords } from './module-records.ts';
import type { MadePackage, ModuleStore, PackageRecord, StoredPackage, WorkDirectory } from './module-store.ts';
import { PartialFiles } from './partial-files.ts';
import { Quarantine } from './quarantine.ts';
import { RecordedPackages } from './recorded-packages.ts';
import { RememberedLists } from './remembered-lists.ts';
import { ifPresent, ofStorage } from './storage-errors.ts';

interface Opening {
  readonly directory: string;
  readonly keeping?: Keeping;
  /** How long whoever asks for what was written to waits until it has been compared, in milliseconds; to its end, where nothing is said. */
  readonly patienceMs?: number | undefined;
  readonly logger: Logger;
}

/**
 * Module packages below `modules/`, each with a JSON file beside it.
 *
 * A package is present when its record can be read and the file has the size that stands there. Writing puts the package
 * in place first, then the record, each whole; a package that a crash left without a record is replaced by the next one.
 */
export class DirectoryModuleStore implements ModuleStore {
  readonly #directory: string;
  readonly #partials: PartialFiles;
  readonly #records: ModuleRecords;
  readonly #keeping: Keeping;
  readonly #memory = new ReadingMemory();
  readonly #quarantine: Quarantine;
  readonly #recorded: RecordedPackages;
  readonly #logger: Logger;
  readonly #lists: RememberedLists<StoredPackage>;
  /** By release. */
  readonly #changes = new KeyedTurns();
  /** The same between processes. */
  readonly #locks: DirectoryLocks;

  private constructor(deps: Opening & { partials: PartialFiles; keeping: Keeping }) {
    const { directory, partials, logger } = deps;
    this.#directory = directory;
    this.#partials = partials;
    this.#keeping = deps.keeping;
    this.#lists = new RememberedLists(deps.keeping.changes);
    this.#quarantine = new Quarantine({ directory, partials });
    this.#records = new ModuleRecords({ directory, partials, logger });
    this.#locks = new DirectoryLocks({ directory: join(directory, paths.locks) });
    this.#recorded = new RecordedPackages({
      ...deps,
      records: this.#records,
      inTurn: (release, work) => this.#inTurn(release, work),
      putAside: async (altered) => void (await this.#putAside(altered, ALTERED)),
    });
    this.#logger = logger;
  }

  /**
   * Makes the directories and sweeps away what dead processes left. Without keeping there is no limit, and uses are
   * forgotten with the process. @throws StorageFailed
   */
  static async open(deps: Opening): Promise<DirectoryModuleStore> {
    const { directory, logger, keeping = freeKeeping(deps) } = deps;
    await ofStorage('making the data directory', makeDirectory(join(directory, paths.modules))).catch((error) => {
      // There are no modules then, and there may be providers.
      if (!mayNotWrite(error)) throw error;
    });
    const partials = await PartialFiles.open(join(directory, paths.partial), logger);
    return new DirectoryModuleStore({ ...deps, partials, keeping });
  }

  async find(release: ModuleRelease): Promise<StoredPackage | undefined> {
    const { stored, file } = await this.#see(release);
    return stored && file && this.#recorded.asItWas(stored, file);
  }

  async peek(release: ModuleRelease): Promise<StoredPackage | undefined> {
    return (await this.#see(release)).stored;
  }

  async recall(release: ModuleRelease): Promise<PackageRecord | undefined> {
    return (await this.#records.get(release))?.record;
  }

  list(module: ModuleAddress): Promise<readonly StoredPackage[]> {
    const directory = this.#homeOf(module);
    return this.#lists.read(
      directory,
      () => ifPresent('looking for a module', stat(directory)),
      async () => {
        const { packages } = await moduleFiles(this.#directory, module);
        const found = await Promise.all(packages.map((version) => this.peek(new ModuleRelease(module, version))));
        const list = found.filter((stored) => stored !== undefined);
        // What was passed over may be whole later without the directory's showing it.
        return { list, isFinal: list.length === packages.length };
      },
    );
  }

  async recorded(module: ModuleAddress): Promise<readonly Version[]> {
    return (await moduleFiles(this.#directory, module)).records;
  }

  async *modules(): AsyncGenerator<ModuleAddress> {
    for await (const module of moduleDirectories(this.#directory)) {
      const isHere = (await this.list(module)).length > 0 || (await this.recorded(module)).length > 0;
      if (isHere) yield module;
    }
  }

  async read(stored: StoredPackage, range?: ByteRange, purpose: ReadPurpose = 'use'): Promise<ArchiveBody> {
    const path = this.#recorded.pathOf(stored.release);
    const file = { what: 'a package', path, range, memory: this.#memory };
    const stream = await openFound(file, stored, () => this.find(stored.release));
    return reading(this.#keeping, paths.modulePackage(stored.release), { stream, purpose });
  }

  workDirectory(): Promise<WorkDirectory> {
    return this.#partials.createDirectory();
  }

  async put(release: ModuleRelease, made: MadePackage): Promise<StoredPackage> {
    const { sha256, size, subdir, source, fingerprint, brought, file } = made;
    const record: PackageRecord = { sha256, size, subdir, source, fingerprint, ...(brought && { brought }) };
    const reservation = await this.#keeping.room.reserve(size);
    try {
      await this.#partials.sync(file);
      return await this.#inTurn(release, () => this.#put(release, file, record));
    } finally {
      reservation.release();
    }
  }

  putFingerprint(release: ModuleRelease, fingerprint: string): Promise<void> {
    return this.#inTurn(release, async () => {
      const kept = await this.#records.get(release);
      if (!kept || kept.record.fingerprint === fingerprint) return;
      await this.#records.put(release, { ...kept, record: { ...kept.record, fingerprint } });
    });
  }

  lastUse({ release, storedAt }: StoredPackage): Promise<Date> {
    return this.#keeping.uses.of(paths.modulePackage(release), storedAt);
  }

  quarantine(stored: StoredPackage, reason: string): Promise<string | undefined> {
    return this.#inTurn(stored.release, () => this.#putAside(stored, reason));
  }

  verify(stored: StoredPackage): Promise<boolean> {
    return this.#recorded.verify(stored);
  }

  discard(release: ModuleRelease): Promise<void> {
    return this.#inTurn(release, () => this.#removePackage(release));
  }

  forget(release: ModuleRelease): Promise<void> {
    return this.#inTurn(release, async () => {
      // Not offered any more before it is not there any more.
      await this.#records.remove(release);
      await this.#removePackage(release);
    });
  }

  /** Ends a comparison under way; further ones are dropped. */
  close(): Promise<void> {
    return this.#recorded.close();
  }

  async #put(release: ModuleRelease, file: string, record: PackageRecord): Promise<StoredPackage> {
    const { size: written } = await ofStorage('storing a package', stat(file));
    if (written !== record.size) throw new StorageFailed('storing a package', new Error('its size has changed'));
    const known = (await this.#records.get(release))?.record;
    demandFirst(release, known, record);
    // It must never stand beside bytes that it does not speak of, which could have the same size.
    if (!known) await this.#records.remove(release);
    await this.#partials.publish(file, this.#recorded.pathOf(release));
    const { mtime = new Date() } = (await this.#recorded.look(release)) ?? {};
    try {
      await this.#records.put(release, { record, mtimeMs: mtime.getTime() });
    } catch (error) {
      // On a full disk it would only be in the way.
      await rm(this.#recorded.pathOf(release), { force: true }).catch(() => {});
      throw error;
    }
    this.#keeping.room.came(release, record.size);
    return { ...record, release, storedAt: mtime };
  }

  /** The file, and what is stored if that has the right size. */
  async #see(release: ModuleRelease): Promise<{ stored?: StoredPackage; file?: Stats }> {
    const [kept, file] = await this.#recorded.see(release);
    if (!kept || !file) return {};
    const { record, mtimeMs } = kept;
    const storedAt = mtimeMs === undefined ? file.mtime : new Date(mtimeMs);
    if (file.size === record.size) return { stored: { ...record, release, storedAt }, file };
    // Younger ones may still be being copied in.
    if (isSettled(file)) await this.#discardDamaged(release);
    return {};
  }

  async #putAside({ release, size, sha256 }: StoredPackage, reason: string): Promise<string | undefined> {
    const id = await this.#quarantine.take(release, { size, sha256, reason });
    await this.#isGone(release);
    return id;
  }

  #discardDamaged(release: ModuleRelease): Promise<void> {
    return this.#inTurn(release, async () => {
      // It may have been replaced meanwhile.
      const [kept, file] = await this.#recorded.see(release);
      if (!kept || !file || file.size === kept.record.size || !isSettled(file)) return;
      this.#logger.warn('a stored module package is damaged and was discarded', {
        module: release.module.toString(),
        version: release.version.toString(),
        expected: kept.record.size,
        size: file.size,
      });
      await this.#removePackage(release);
    });
  }

  async #removePackage(release: ModuleRelease): Promise<void> {
    await ofStorage('removing a package', rm(this.#recorded.pathOf(release), { force: true }));
    await this.#isGone(release);
  }

  async #isGone(release: ModuleRelease): Promise<void> {
    this.#keeping.room.went(release);
    await this.#keeping.uses.forget(paths.modulePackage(release));
  }

  /** The lists of its module are then made anew. */
  async #inTurn<T>(release: ModuleRelease, work: () => Promise<T>): Promise<T> {
    try {
      return await this.#changes.take(release.toString(), () => this.#locks.hold(paths.modulePackage(release), work));
    } finally {
      this.#lists.forget(this.#homeOf(release.module));
    }
  }

  #homeOf(module: ModuleAddress): string {
    return join(this.#directory, paths.module(module));
  }
}
