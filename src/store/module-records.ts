import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import type { ModuleRelease } from '../address/module.ts';
import type { Logger } from '../logger.ts';
import { paths } from './keys.ts';
import { fileIdentity } from './mirror-documents.ts';
import type { PackageRecord } from './module-store.ts';
import { packageRecordIn, packageRecordText, packageTimeIn } from './package-record.ts';
import type { PartialFiles } from './partial-files.ts';
import { ifPresent, ofStorage, readIfFile } from './storage-errors.ts';

/** Records kept parsed. One is a few hundred bytes. */
const MAX_PARSED = 20_000;

/** What is kept of a package, and of its file. */
export interface KeptRecord {
  readonly record: PackageRecord;
  /** When the package with this digest was last written, in milliseconds since 1970. Older records do not tell. */
  readonly mtimeMs: number | undefined;
}

/** `VERSION.json` beside each module package: what it is, and what it was made of. */
export class ModuleRecords {
  readonly #directory: string;
  readonly #partials: PartialFiles;
  readonly #logger: Logger;
  readonly #parsed = new LRUCache<string, { identity: string; kept: KeptRecord | undefined }>({
    max: MAX_PARSED,
  });

  constructor(deps: { directory: string; partials: PartialFiles; logger: Logger }) {
    this.#directory = deps.directory;
    this.#partials = deps.partials;
    this.#logger = deps.logger;
  }

  /** Parsed anew only when the file has changed. What cannot be read is none, and said once. @throws StorageFailed */
  async get(release: ModuleRelease): Promise<KeptRecord | undefined> {
    const path = this.#pathOf(release);
    const seen = await ifPresent('looking for a package record', stat(path));
    if (!seen?.isFile()) return undefined;
    const identity = fileIdentity(seen);
    const parsed = this.#parsed.get(path);
    if (parsed?.identity === identity) return parsed.kept;

    const content = await readIfFile('reading a package record', path);
    if (content === undefined) return undefined;
    const text = content.toString();
    const record = packageRecordIn(text);
    if (!record) {
      this.#logger.warn('the record of a module package is not readable; the package is not used', {
        module: release.module.toString(),
        version: release.version.toString(),
      });
    }
    const kept = record && { record, mtimeMs: packageTimeIn(text) };
    this.#parsed.set(path, { identity, kept });
    return kept;
  }

  /** @throws StorageFailed */
  async put(release: ModuleRelease, { record, mtimeMs }: KeptRecord): Promise<void> {
    await this.#partials.write(this.#pathOf(release), packageRecordText(record, mtimeMs));
  }

  /** @throws StorageFailed */
  async remove(release: ModuleRelease): Promise<void> {
    await ofStorage('removing a package record', rm(this.#pathOf(release), { force: true }));
  }

  #pathOf(release: ModuleRelease): string {
    return join(this.#directory, paths.moduleRecord(release));
  }
}
