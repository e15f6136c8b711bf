import type { Stats } from 'node:fs';
import { LRUCache } from 'lru-cache';
import pLimit from 'p-limit';
import type { ProviderArchive } from '../address/archive.ts';
import { type Hash, type Sha256, zipHash } from '../address/hash.ts';
import type { Logger } from '../logger.ts';
import { settledWithin } from '../time-limit.ts';
import { isSettled, judge } from './adoption.ts';
import type { StoredArchive } from './archive-store.ts';
import type { ArchiveRecord } from './mirror-documents.ts';
import type { PackageHasher } from './package-hash.ts';
import { asStored, examinationOf } from './stored-record.ts';

/** How long a list waits for archives that somebody else put in place to be examined. Clients wait 10 s in all. */
const ADOPTION_PATIENCE_MS = 3_000;
const MAX_REMEMBERED = 10_000;

/** What there is of an archive, and what becomes of it. */
interface Shelf {
  pathOf(archive: ProviderArchive): string;
  look(archive: ProviderArchive): Promise<Stats | undefined>;
  recordOf(archive: ProviderArchive): Promise<ArchiveRecord | undefined>;
  record(archive: ProviderArchive, sha256: Sha256, h1: Hash | undefined, size: number): Promise<StoredArchive>;
  discard(archive: ProviderArchive): Promise<void>;
}

/** Archives that lie in their place without our having put them there: compared with what they are known by, once. */
export class ForeignArchives {
  readonly #shelf: Shelf;
  readonly #hasher: PackageHasher;
  readonly #logger: Logger;
  /** Files that could not be verified: not read again until they, or the hashes beside them, change. */
  readonly #unverifiable = new LRUCache<string, string>({ max: MAX_REMEMBERED });
  readonly #adoptions = new Map<string, Promise<StoredArchive | undefined>>();
  readonly #background = pLimit(1);
  #closed = false;

  constructor(deps: { shelf: Shelf; hasher: PackageHasher; logger: Logger }) {
    this.#shelf = deps.shelf;
    this.#hasher = deps.hasher;
    this.#logger = deps.logger;
  }

  /** Somebody else put it there, says by which hash it can be known, and it was not examined before. */
  isCandidate(archive: ProviderArchive, record: ArchiveRecord | undefined, file: Stats): boolean {
    if (!record?.hashes.length) return false;
    return this.#unverifiable.get(archive.toString()) !== examinationOf(record, file);
  }

  /** As `ArchiveStore.adopt`. @throws StorageFailed */
  async adopt(archive: ProviderArchive, expected?: Sha256): Promise<StoredArchive | undefined> {
    const key = `${expected ?? ''} ${archive}`;
    const running = this.#adoptions.get(key);
    if (running) return running;
    const started = this.#adopt(archive, expected).finally(() => this.#adoptions.delete(key));
    this.#adoptions.set(key, started);
    return started;
  }

  /** Those that could be examined soon enough; the others will be in a later list. */
  async adoptSome(candidates: readonly ProviderArchive[]): Promise<StoredArchive[]> {
    const adopted: StoredArchive[] = [];
    const examine = async (archive: ProviderArchive) => {
      if (this.#closed) return;
      const stored = await this.adopt(archive);
      if (stored) adopted.push(stored);
    };
    const all = Promise.all(
      candidates.map((archive) =>
        this.#background(() => examine(archive)).catch((error: unknown) => {
          this.#logger.warn('an archive could not be examined', { archive: archive.toString(), error });
        }),
      ),
    );
    await settledWithin(all, ADOPTION_PATIENCE_MS);
    return [...adopted];
  }

  /** Waits for examinations under way; further ones are dropped. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#adoptions.values());
  }

  async #adopt(archive: ProviderArchive, expected: Sha256 | undefined): Promise<StoredArchive | undefined> {
    const file = await this.#shelf.look(archive);
    if (!file) return undefined;
    const record = await this.#shelf.recordOf(archive);
    const stored = asStored(archive, record, file);
    if (stored) return stored;

    const known = [...(expected ? [zipHash(expected)] : []), ...(record?.hashes ?? [])];
    const judgement = await judge(this.#shelf.pathOf(archive), file, known, this.#hasher);
    if (judgement.verdict === 'verified') {
      this.#logger.info('took over an archive that was put in place', { archive: archive.toString() });
      return this.#shelf.record(archive, judgement.sha256, judgement.h1, file.size);
    }
    if (judgement.verdict === 'contradicted') {
      this.#logger.warn('an archive that was put in place is not what it should be and was discarded', {
        archive: archive.toString(),
        sha256: judgement.sha256,
        expected: known,
      });
      await this.#shelf.discard(archive);
      return undefined;
    }
    // While it may still be being copied, its next state is worth another look.
    if (record && isSettled(file)) this.#unverifiable.set(archive.toString(), examinationOf(record, file));
    return undefined;
  }
}
