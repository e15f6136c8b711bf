import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import type { ModuleRelease } from '../address/module.ts';
import type { Logger } from '../logger.ts';
import { paths } from './keys.ts';
import { fileIdentity } from './mirror-documents.ts';
import type { PackageRecord } from './module-store.ts';
import { packageRecordIn, packageRecordText } from './package-record.ts';
import type { PartialFiles } from './partial-files.ts';
import { ifPresent, ofStorage, readIfFile } from './storage-errors.ts';

/** Records kept parsed. One is a few hundred bytes. */
const MAX_PARSED = 20_000;

/** `VERSION.json` beside each module package: what it is, and what it was made of. */
export class ModuleRecords {
  readonly #directory: string;
  readonly #partials: PartialFiles;
  readonly #logger: Logger;
  readonly #parsed = new LRUCache<string, { identity: string; record: PackageRecord | undefined }>({
    max: MAX_PARSED,
  });

  constructor(deps: { directory: string; partials: PartialFiles; logger: Logger }) {
    this.#directory = deps.directory;
    this.#partials = deps.partials;
    this.#logger = deps.logger;
  }

  /** Parsed anew only when the file has changed. What cannot be read is none, and said once. @throws StorageFailed */
  async get(release: ModuleRelease): Promise<PackageRecord | undefined> {
    const path = this.#pathOf(release);
    const seen = await ifPresent('looking for a package record', stat(path));
    if (!seen?.isFile()) return undefined;
    const identity = fileIdentity(seen);
    const parsed = this.#parsed.get(path);
    if (parsed?.identity === identity) return parsed.record;

    const content = await readIfFile('reading a package record', path);
    if (content === undefined) return undefined;
    const record = packageRecordIn(content.toString());
    if (!record) {
      this.#logger.warn('the record of a module package is not readable; the package is not used', {
        module: release.module.toString(),
        version: release.version.toString(),
      });
    }
    this.#parsed.set(path, { identity, record });
    return record;
  }

  /** @throws StorageFailed */
  async put(release: ModuleRelease, record: PackageRecord): Promise<void> {
    await this.#partials.write(this.#pathOf(release), packageRecordText(record));
  }

  /** @throws StorageFailed */
  async remove(release: ModuleRelease): Promise<void> {
    await ofStorage('removing a package record', rm(this.#pathOf(release), { force: true }));
  }

  #pathOf(release: ModuleRelease): string {
    return join(this.#directory, paths.moduleRecord(release));
  }
}
