import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProviderArchive } from '../address/archive.ts';
import { type Sha256, zipHash } from '../address/hash.ts';
import type { Logger } from '../logger.ts';
import { digestOf } from './adoption.ts';
import type { StoredArchive } from './archive-store.ts';
import { ChangedFiles, isStill, isUntouched } from './changed-files.ts';
import { paths } from './keys.ts';
import type { ArchiveRecord } from './mirror-document.ts';
import type { MirrorDocuments } from './mirror-documents.ts';
import { ifPresent } from './storage-errors.ts';
import { isRecordOf } from './stored-record.ts';

/** What lies in the places of archives, what is recorded of it, and whether that is still so. */
export class RecordedArchives {
  readonly #directory: string;
  readonly #documents: MirrorDocuments;
  readonly #changed: ChangedFiles;
  readonly #onNoted: (archive: ProviderArchive) => void;
  readonly #putAside: (altered: StoredArchive) => Promise<void>;

  constructor(deps: {
    directory: string;
    documents: MirrorDocuments;
    /** Another time stands in the record of an archive. */
    onNoted: (archive: ProviderArchive) => void;
    /** It was altered. */
    putAside: (altered: StoredArchive) => Promise<void>;
    /** How long whoever asks waits for a comparison, in milliseconds; to its end, where nothing is said. */
    patienceMs?: number | undefined;
    logger: Logger;
  }) {
    this.#directory = deps.directory;
    this.#documents = deps.documents;
    this.#changed = new ChangedFiles(deps);
    this.#onNoted = deps.onNoted;
    this.#putAside = deps.putAside;
  }

  pathOf(archive: ProviderArchive): string {
    return join(this.#directory, paths.archive(archive));
  }

  /** Both, by a look at each. @throws StorageFailed */
  see(archive: ProviderArchive): Promise<[record: ArchiveRecord | undefined, file: Stats | undefined]> {
    return Promise.all([this.recordOf(archive), this.look(archive)]);
  }

  /** @throws StorageFailed */
  async look(archive: ProviderArchive): Promise<Stats | undefined> {
    const file = await ifPresent('looking for an archive', stat(this.pathOf(archive)));
    return file?.isFile() ? file : undefined;
  }

  /** @throws StorageFailed */
  async recordOf(archive: ProviderArchive): Promise<ArchiveRecord | undefined> {
    const records = await this.#documents.records(archive.provider, archive.version);
    const record = records.get(archive.platform.toString());
    // Some other mirror may have kept it under another name: then it says nothing of this file.
    return record?.url === archive.filename ? record : undefined;
  }

  /** Itself, when it is what was stored: what was written to since is compared. @throws StorageFailed */
  async asItWas(stored: StoredArchive, file: Stats): Promise<StoredArchive | undefined> {
    if (isUntouched(stored, file)) return stored;
    const { archive, sha256 } = stored;
    const isSame = await this.#changed.isSame(
      { subject: archive, sha256, file, path: this.pathOf(archive) },
      {
        note: (mtimeMs) => this.#noteTime(archive, sha256, mtimeMs),
        putAside: () => this.#putAsideIfStill(stored, file),
      },
    );
    return isSame ? { ...stored, storedAt: file.mtime } : undefined;
  }

  /** As `ArchiveStore.verify`. @throws StorageFailed */
  async verify({ archive, sha256 }: StoredArchive): Promise<boolean> {
    const file = await this.look(archive);
    if (!file || (await digestOf(this.pathOf(archive))) !== sha256) return false;
    // It is as intact where nothing can be written.
    await this.#noteTime(archive, sha256, file.mtime.getTime()).catch(() => {});
    return true;
  }

  /** Ends a comparison under way; further ones are dropped. */
  close(): Promise<void> {
    return this.#changed.close();
  }

  /** It may have been purged meanwhile, and fetched anew. */
  async #putAsideIfStill(altered: StoredArchive, file: Stats): Promise<void> {
    const [record, now] = await this.see(altered.archive);
    if (isRecordOf(record, altered.sha256) && isStill(file, now)) await this.#putAside(altered);
  }

  async #noteTime(archive: ProviderArchive, sha256: Sha256, mtimeMs: number): Promise<void> {
    const record = await this.recordOf(archive);
    if (!isRecordOf(record, sha256) || record.mtimeMs === mtimeMs) return;
    await this.#documents.noteTime(archive, zipHash(sha256), mtimeMs);
    this.#onNoted(archive);
  }
}
