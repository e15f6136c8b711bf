import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import { parseSha256 } from '../address/hash.ts';
import type { ModuleRelease } from '../address/module.ts';
import type { Logger } from '../logger.ts';
import { paths } from './keys.ts';
import { fileIdentity } from './mirror-documents.ts';
import type { PackageRecord } from './module-store.ts';
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
    const record = recordIn(content.toString());
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
  async put(
    release: ModuleRelease,
    { sha256, size, subdir, source, fingerprint, brought }: PackageRecord,
  ): Promise<void> {
    const document = {
      sha256,
      size,
      subdir,
      source,
      ...(fingerprint !== undefined && { fingerprint }),
      ...(brought && { brought }),
    };
    await this.#partials.write(this.#pathOf(release), `${JSON.stringify(document, null, 2)}\n`);
  }

  /** @throws StorageFailed */
  async remove(release: ModuleRelease): Promise<void> {
    await ofStorage('removing a package record', rm(this.#pathOf(release), { force: true }));
  }

  #pathOf(release: ModuleRelease): string {
    return join(this.#directory, paths.moduleRecord(release));
  }
}

function recordIn(text: string): PackageRecord | undefined {
  try {
    const document: unknown = JSON.parse(text);
    if (typeof document !== 'object' || document === null) return undefined;
    const { sha256, size, subdir, source, fingerprint, brought } = document as Record<string, unknown>;
    if (typeof sha256 !== 'string' || typeof subdir !== 'string' || typeof source !== 'string') return undefined;
    if (!Number.isSafeInteger(size) || (size as number) < 0) return undefined;
    if (fingerprint !== undefined && typeof fingerprint !== 'string') return undefined;
    const record = { sha256: parseSha256(sha256), size: size as number, subdir, source, fingerprint };
    return brought === true ? { ...record, brought } : record;
  } catch {
    // Cut off, or nonsense: the same here.
    return undefined;
  }
}
