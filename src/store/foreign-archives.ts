import { LRUCache } from 'lru-cache';
import pLimit from 'p-limit';
import type { ProviderArchive } from '../address/archive.ts';
import { type Hash, type Sha256, zipHash } from '../address/hash.ts';
import type { Logger } from '../logger.ts';
import { settledWithin } from '../time-limit.ts';
import type { Judgement } from './adoption.ts';
import type { StoredArchive } from './archive-store.ts';
import type { ArchiveRecord } from './mirror-document.ts';
import { asStored, examinationOf, type Look } from './stored-record.ts';

/** How long a list waits for archives that somebody else put in place to be examined. Clients wait 10 s in all. */
const ADOPTION_PATIENCE_MS = 3_000;
const MAX_REMEMBERED = 10_000;

/** What there is of an archive, and what becomes of it. */
interface Shelf<Seen extends Look> {
  look(archive: ProviderArchive): Promise<Seen | undefined>;
  /** Changes whenever it is written or replaced. */
  identityOf(file: Seen): string;
  /** Whether nobody is still copying it. */
  isSettled(file: Seen): boolean;
  /** Compares it with what it is known by. */
  judge(archive: ProviderArchive, file: Seen, known: readonly Hash[]): Promise<Judgement>;
  recordOf(archive: ProviderArchive): Promise<ArchiveRecord | undefined>;
  /** Notes what was found to be in this file. */
  record(archive: ProviderArchive, sha256: Sha256, h1: Hash | undefined, file: Seen): Promise<StoredArchive>;
  /** Of what is recorded with the size of the file: whether it is still that. `undefined` when it is not. */
  asItWas(stored: StoredArchive, file: Seen): Promise<StoredArchive | undefined>;
  discard(archive: ProviderArchive): Promise<void>;
}

/** Archives that lie in their place without our having put them there: compared with what they are known by, once. */
export class ForeignArchives<Seen extends Look> {
  readonly #shelf: Shelf<Seen>;
  readonly #logger: Logger;
  /** Files that could not be verified: not read again until they, or the hashes beside them, change. */
  readonly #unverifiable = new LRUCache<string, string>({ max: MAX_REMEMBERED });
  readonly #adoptions = new Map<string, Promise<StoredArchive | undefined>>();
  readonly #background = pLimit(1);
  #closed = false;

  constructor(deps: { shelf: Shelf<Seen>; logger: Logger }) {
    this.#shelf = deps.shelf;
    this.#logger = deps.logger;
  }

  /** Somebody else put it there, says by which hash it can be known, and it was not examined before. */
  isCandidate(archive: ProviderArchive, record: ArchiveRecord | undefined, file: Seen): boolean {
    if (!record?.hashes.length) return false;
    return this.#unverifiable.get(archive.toString()) !== examinationOf(record, this.#shelf.identityOf(file));
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
    if (stored) return this.#shelf.asItWas(stored, file);

    const known = [...(expected ? [zipHash(expected)] : []), ...(record?.hashes ?? [])];
    const judgement = await this.#shelf.judge(archive, file, known);
    if (judgement.verdict === 'verified') {
      this.#logger.info('took over an archive that was put in place', { archive: archive.toString() });
      return this.#shelf.record(archive, judgement.sha256, judgement.h1, file);
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
    if (record && this.#shelf.isSettled(file))
      this.#unverifiable.set(archive.toString(), examinationOf(record, this.#shelf.identityOf(file)));
    return undefined;
  }
}
