import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import type { ProviderArchive } from '../address/archive.ts';
import type { Hash } from '../address/hash.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import { KeyedTurns } from '../keyed-turns.ts';
import type { Logger } from '../logger.ts';
import { DirectoryLocks } from './directory-locks.ts';
import { paths } from './keys.ts';
import { changedDocument, indexFor, isObject, parsedDocument, type Records, recordsOf } from './mirror-document.ts';
import type { PartialFiles } from './partial-files.ts';
import { ifPresent, ofStorage, readIfFile } from './storage-errors.ts';

/** Documents kept parsed. One is a few kilobytes. */
const MAX_PARSED = 5_000;

/**
 * `index.json` and `VERSION.json` of the provider network mirror protocol, beside the archives that they speak of.
 * They make the directory a static mirror, and they are the record of what was verified. Others may write them too
 * (another replica, rsync, `tofu providers mirror`); what they say of other platforms is kept as it is.
 */
export class MirrorDocuments {
  readonly #directory: string;
  readonly #partials: PartialFiles;
  readonly #logger: Logger;
  readonly #parsed = new LRUCache<string, { identity: string; records: Records }>({ max: MAX_PARSED });
  /** By provider. */
  readonly #changes = new KeyedTurns();
  /** The same between processes: each would put back what the other one has just changed. */
  readonly #locks: DirectoryLocks;

  constructor(deps: { directory: string; partials: PartialFiles; logger: Logger }) {
    this.#directory = deps.directory;
    this.#partials = deps.partials;
    this.#logger = deps.logger;
    this.#locks = new DirectoryLocks({ directory: join(deps.directory, paths.locks) });
  }

  /** By platform. Parsed anew only when the file has changed. @throws StorageFailed */
  async records(provider: ProviderAddress, version: Version): Promise<Records> {
    const path = join(this.#directory, paths.version(provider, version));
    const seen = await ifPresent('looking for a mirror document', stat(path));
    if (!seen?.isFile()) return new Map();
    const identity = fileIdentity(seen);
    const parsed = this.#parsed.get(path);
    if (parsed?.identity === identity) return parsed.records;

    const records = recordsOf(await this.#read(path));
    this.#parsed.set(path, { identity, records });
    return records;
  }

  /**
   * Records an archive that is in place.
   * @param mtimeMs of the file with these hashes, if that is known
   * @throws StorageFailed
   */
  async put(
    { provider, version, platform, filename }: ProviderArchive,
    { hashes, size, mtimeMs }: { hashes: readonly Hash[]; size: number; mtimeMs?: number | undefined },
  ): Promise<void> {
    await this.#change(provider, version, (archives) =>
      archives.set(platform.toString(), {
        hashes: [...hashes],
        url: filename,
        size,
        ...(mtimeMs !== undefined && { mtime: mtimeMs }),
      }),
    );
  }

  /** Notes another time of an archive that is still recorded with this hash; of no other. @throws StorageFailed */
  async noteTime({ provider, version, platform }: ProviderArchive, hash: Hash, mtimeMs: number): Promise<void> {
    const key = platform.toString();
    await this.#change(provider, version, (archives) => {
      const entry = archives.get(key);
      const isStill = isObject(entry) && Array.isArray(entry['hashes']) && entry['hashes'].includes(hash);
      if (isStill) archives.set(key, { ...entry, mtime: mtimeMs });
    });
  }

  /** Forgets an archive. @throws StorageFailed */
  async remove({ provider, version, platform }: ProviderArchive): Promise<void> {
    await this.#change(provider, version, (archives) => archives.delete(platform.toString()));
  }

  async #change(
    provider: ProviderAddress,
    version: Version,
    change: (archives: Map<string, unknown>) => unknown,
  ): Promise<void> {
    await this.#inTurn(provider, async () => {
      const path = join(this.#directory, paths.version(provider, version));
      const document = await this.#read(path);
      const changed = changedDocument(document, change);
      if (changed === undefined) await ofStorage('removing a mirror document', rm(path, { force: true }));
      else await this.#partials.write(path, changed);
      await this.#updateIndex(provider);
    });
  }

  #inTurn(provider: ProviderAddress, work: () => Promise<void>): Promise<void> {
    const home = paths.provider(provider);
    return this.#changes.take(home, () => this.#locks.hold(home, work));
  }

  /** A version is listed when it has a document, by whomever: then index.json cannot name what is not there. */
  async #updateIndex(provider: ProviderAddress): Promise<void> {
    const path = join(this.#directory, paths.index(provider));
    const directory = join(this.#directory, paths.provider(provider));
    const names = (await ifPresent('listing a provider', readdir(directory))) ?? [];
    const content = indexFor(names);
    if (content === undefined) {
      await ofStorage('removing a mirror document', rm(path, { force: true }));
      return;
    }
    const current = await readIfFile('reading a mirror document', path);
    if (current?.toString() !== content) await this.#partials.write(path, content);
  }

  /** Absent and unreadable documents are empty ones: what they should have said is found out anew. */
  async #read(path: string): Promise<Record<string, unknown>> {
    const content = await readIfFile('reading a mirror document', path);
    if (content === undefined) return {};
    const document = parsedDocument(content);
    if (document) return document;
    this.#logger.warn('a mirror document is not readable and will be made anew', {
      file: path.slice(this.#directory.length + 1),
    });
    return {};
  }
}

/** Changes whenever a file is written or replaced. */
export function fileIdentity(file: { ino: number; size: number; mtimeMs: number; ctimeMs: number }): string {
  return `${file.ino} ${file.size} ${file.mtimeMs} ${file.ctimeMs}`;
}
