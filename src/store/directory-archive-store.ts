import type { Stats } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import pLimit from 'p-limit';
import type { ProviderArchive } from '../address/archive.ts';
import { type Hash, type Sha256, zipHash } from '../address/hash.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { Logger } from '../logger.ts';
import { isSettled, judge } from './adoption.ts';
import type { ArchiveBody } from './archive-body.ts';
import type {
  ArchiveStore,
  ByteRange,
  ComputedHashes,
  IncomingArchive,
  PartialArchive,
  ReadPurpose,
  ReleaseFiles,
  StoredArchive,
} from './archive-store.ts';
import { ALTERED } from './changed-files.ts';
import { openFound, ReadingMemory } from './file-stream.ts';
import { ForeignArchives } from './foreign-archives.ts';
import { IncomingFile } from './incoming-file.ts';
import { freeKeeping, type Keeping, reading } from './keeping.ts';
import { KeptReleases } from './kept-releases.ts';
import { paths } from './keys.ts';
import { makeDirectory } from './make-directory.ts';
import { fileIdentity, MirrorDocuments } from './mirror-documents.ts';
import type { PackageHasher } from './package-hash.ts';
import { PartialFiles } from './partial-files.ts';
import { archiveFiles, providerDirectories } from './provider-directories.ts';
import { Quarantine } from './quarantine.ts';
import { RecordedArchives } from './recorded-archives.ts';
import { RememberedLists } from './remembered-lists.ts';
import { gone, ifPresent, ofStorage } from './storage-errors.ts';
import { asStored, isOurs, isRecordOf, type Look, type OurRecord } from './stored-record.ts';

/** Of a provider with hundreds of versions, so that others get their turn with the disk meanwhile. */
const LOOKED_AT_AT_A_TIME = 16;

/**
 * Archives in the packed layout below `providers/`: at any moment a `filesystem_mirror` and a static network mirror.
 *
 * An archive is present when VERSION.json records its digest and size and the file has that size. Writing puts the
 * archive in place first, then VERSION.json, then index.json, each whole; after a crash in between, the archive is not
 * present until it has been compared with its digest again.
 */
export class DirectoryArchiveStore implements ArchiveStore {
  readonly #directory: string;
  readonly #partials: PartialFiles;
  readonly #documents: MirrorDocuments;
  readonly #releases: KeptReleases;
  readonly #hasher: PackageHasher;
  readonly #logger: Logger;
  readonly #lists: RememberedLists<StoredArchive>;
  readonly #recorded: RecordedArchives;
  readonly #foreign: ForeignArchives<Stats>;
  readonly #keeping: Keeping;
  readonly #memory = new ReadingMemory();
  readonly #quarantine: Quarantine;

  private constructor(deps: {
    directory: string;
    partials: PartialFiles;
    hasher: PackageHasher;
    keeping: Keeping;
    patienceMs?: number | undefined;
    logger: Logger;
  }) {
    const { directory, partials, hasher, logger } = deps;
    this.#directory = directory;
    this.#partials = partials;
    this.#keeping = deps.keeping;
    this.#lists = new RememberedLists(deps.keeping.changes);
    this.#quarantine = new Quarantine({ directory, partials });
    this.#documents = new MirrorDocuments({ directory, partials, logger });
    this.#recorded = new RecordedArchives({
      ...deps,
      documents: this.#documents,
      onNoted: ({ provider }) => this.#lists.forget(this.#homeOf(provider)),
      putAside: async (altered) => void (await this.quarantine(altered, ALTERED)),
    });
    this.#foreign = new ForeignArchives<Stats>({
      shelf: {
        look: (archive) => this.#recorded.look(archive),
        identityOf: fileIdentity,
        isSettled,
        judge: (archive, file, known) => judge(this.#recorded.pathOf(archive), file, known, hasher),
        recordOf: (archive) => this.#recorded.recordOf(archive),
        asItWas: (...of) => this.#recorded.asItWas(...of),
        record: (...of) => this.#record(...of),
        discard: (archive) => this.discard(archive),
      },
      logger,
    });
    this.#releases = new KeptReleases({ directory, partials });
    this.#hasher = hasher;
    this.#logger = logger;
  }

  /**
   * Makes the directories and sweeps away what dead processes left. Hasher and keeping stay the caller's; without keeping
   * there is no limit, and uses are forgotten with the process. Whoever asks for what was written to waits for `patienceMs`
   * at most; until it has been compared, where nothing is said. @throws StorageFailed
   */
  static async open(deps: {
    directory: string;
    hasher: PackageHasher;
    keeping?: Keeping;
    patienceMs?: number | undefined;
    logger: Logger;
  }): Promise<DirectoryArchiveStore> {
    const { keeping = freeKeeping(deps) } = deps;
    await ofStorage('making the data directory', makeDirectory(join(deps.directory, paths.providers)));
    const partials = await PartialFiles.open(join(deps.directory, paths.partial), deps.logger);
    return new DirectoryArchiveStore({ ...deps, partials, keeping });
  }

  async find(archive: ProviderArchive): Promise<StoredArchive | undefined> {
    const [record, file] = await this.#recorded.see(archive);
    if (!file) return undefined;
    const stored = asStored(archive, record, file);
    if (stored) return this.#recorded.asItWas(stored, file);
    if (isOurs(record)) return this.#discardDamaged(archive, record, file);
    return this.#foreign.isCandidate(archive, record, file) ? this.adopt(archive) : undefined;
  }

  async peek(archive: ProviderArchive): Promise<StoredArchive | undefined> {
    const [record, file] = await this.#recorded.see(archive);
    return file && asStored(archive, record, file);
  }

  list(provider: ProviderAddress): Promise<readonly StoredArchive[]> {
    const directory = this.#homeOf(provider);
    return this.#lists.read(
      directory,
      () => ifPresent('looking for a provider', stat(directory)),
      () => this.#list(provider),
    );
  }

  async *providers(): AsyncGenerator<ProviderAddress> {
    for await (const provider of providerDirectories(this.#directory)) {
      const isHere = (await this.list(provider)).length > 0 || (await this.releases(provider)).length > 0;
      if (isHere) yield provider;
    }
  }

  async read(stored: StoredArchive, range?: ByteRange, purpose: ReadPurpose = 'use'): Promise<ArchiveBody> {
    const path = this.#recorded.pathOf(stored.archive);
    const file = { what: 'an archive', path, range, memory: this.#memory };
    const stream = await openFound(file, stored, () => this.find(stored.archive));
    return reading(this.#keeping, paths.archive(stored.archive), { stream, purpose });
  }

  async receive(archive: ProviderArchive): Promise<IncomingArchive> {
    const { path, handle } = await this.#partials.create();
    return new IncomingFile({
      path,
      handle,
      reserve: (bytes) => this.#keeping.room.reserve(bytes),
      hold: () => this.#keeping.holds.hold(paths.archive(archive)),
      publish: async (partial, size, sha256) => {
        const path = this.#recorded.pathOf(archive);
        await this.#partials.publish(partial, path);
        const { mtime = new Date() } = (await this.#recorded.look(archive)) ?? {};
        return { path, stored: await this.#record(archive, sha256, undefined, { size, mtime }) };
      },
    });
  }

  openPartial(name: string): Promise<PartialArchive | undefined> {
    return this.#partials.openShared(name);
  }

  adopt(archive: ProviderArchive, expected?: { readonly sha256: Sha256 }): Promise<StoredArchive | undefined> {
    return this.#foreign.adopt(archive, expected?.sha256);
  }

  putRelease(provider: ProviderAddress, version: Version, files: ReleaseFiles): Promise<void> {
    return this.#releases.put(provider, version, files);
  }

  getRelease(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined> {
    return this.#releases.get(provider, version);
  }

  releases(provider: ProviderAddress): Promise<readonly Version[]> {
    return this.#releases.versions(provider);
  }

  discardRelease(provider: ProviderAddress, version: Version): Promise<void> {
    return this.#releases.discard(provider, version);
  }

  async putPackageHash({ archive, sha256 }: Pick<StoredArchive, 'archive' | 'sha256'>, h1: Hash): Promise<void> {
    const record = await this.#recorded.recordOf(archive);
    if (!isRecordOf(record, sha256) || record.hashes[0] === h1) return;
    const others = record.hashes.filter((hash) => hash !== h1);
    await this.#documents.put(archive, { ...record, hashes: [h1, ...others] });
    this.#lists.forget(this.#homeOf(archive.provider));
  }

  async computePackageHash({ archive, sha256 }: StoredArchive): Promise<ComputedHashes | undefined> {
    // What was altered has another one, and is not what it would be told of.
    if ((await this.find(archive))?.sha256 !== sha256) throw gone('hashing an archive');
    const letGo = this.#keeping.holds.hold(paths.archive(archive));
    const outcome = await this.#hasher.hash(this.#recorded.pathOf(archive)).finally(letGo);
    if ('hash' in outcome) return { zip: outcome.hash, unpacked: outcome.unpacked ?? outcome.hash };
    // Cut off by our own shutdown: that says nothing of the archive.
    if (this.#hasher.isClosed) return undefined;
    this.#logger.warn('an archive has no package hash', { archive: archive.toString(), reason: outcome.reason });
    return undefined;
  }

  lastUse({ archive, storedAt }: StoredArchive): Promise<Date> {
    return this.#keeping.uses.of(paths.archive(archive), storedAt);
  }

  verify(stored: StoredArchive): Promise<boolean> {
    return this.#recorded.verify(stored);
  }

  async discard(archive: ProviderArchive): Promise<void> {
    // Not offered any more before it is not there any more.
    await this.#documents.remove(archive);
    this.#lists.forget(this.#homeOf(archive.provider));
    await ofStorage('removing an archive', rm(this.#recorded.pathOf(archive), { force: true }));
    await this.#isGone(archive);
  }

  async quarantine({ archive, size, sha256 }: StoredArchive, reason: string): Promise<string | undefined> {
    await this.#documents.remove(archive);
    this.#lists.forget(this.#homeOf(archive.provider));
    const id = await this.#quarantine.take(archive, { size, sha256, reason });
    await this.#isGone(archive);
    return id;
  }

  check(): Promise<void> {
    return this.#partials.check();
  }

  /** Waits for examinations under way, or ends them; further ones are dropped. */
  async close(): Promise<void> {
    await Promise.all([this.#foreign.close(), this.#recorded.close()]);
  }

  async #list(provider: ProviderAddress): Promise<{ list: readonly StoredArchive[]; isFinal: boolean }> {
    const list: StoredArchive[] = [];
    const candidates: ProviderArchive[] = [];
    const look = async (archive: ProviderArchive) => {
      const [record, file] = await this.#recorded.see(archive);
      const stored = file && asStored(archive, record, file);
      if (stored) list.push(stored);
      else if (file && isOurs(record)) await this.#discardDamaged(archive, record, file);
      else if (file && this.#foreign.isCandidate(archive, record, file)) candidates.push(archive);
    };
    const files = await archiveFiles(this.#directory, provider);
    const atATime = pLimit(LOOKED_AT_AT_A_TIME);
    await Promise.all(files.map((archive) => atATime(look, archive)));
    // What was passed over may be whole later, or named by a document, without the directory's showing it.
    const isFinal = list.length === files.length;
    if (candidates.length > 0) list.push(...(await this.#foreign.adoptSome(candidates)));
    return { list, isFinal };
  }

  async #record(archive: ProviderArchive, sha256: Sha256, h1: Hash | undefined, file: Look): Promise<StoredArchive> {
    const { size, mtime } = file;
    const hashes = h1 ? [h1, zipHash(sha256)] : [zipHash(sha256)];
    await this.#documents.put(archive, { hashes, size, mtimeMs: mtime.getTime() });
    this.#lists.forget(this.#homeOf(archive.provider));
    this.#keeping.room.came(archive, size);
    // As old as where it was copied from; it was wanted now.
    if (isSettled(file)) this.#keeping.uses.note(paths.archive(archive));
    return { archive, size, sha256, h1, storedAt: mtime };
  }

  async #isGone(archive: ProviderArchive): Promise<void> {
    this.#keeping.room.went(archive);
    await this.#keeping.uses.forget(paths.archive(archive));
  }

  async #discardDamaged(archive: ProviderArchive, record: OurRecord, file: Stats): Promise<undefined> {
    if (!isSettled(file)) return;
    this.#logger.warn('a stored archive is damaged and was discarded', {
      archive: archive.toString(),
      expected: record.size,
      size: file.size,
    });
    await this.discard(archive);
  }

  #homeOf(provider: ProviderAddress): string {
    return join(this.#directory, paths.provider(provider));
  }
}
