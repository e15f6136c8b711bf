import { LRUCache } from 'lru-cache';
import pLimit from 'p-limit';
import { ProviderArchive } from '../../address/archive.ts';
import type { ProviderAddress } from '../../address/provider.ts';
import type { Logger } from '../../logger.ts';
import type { StoredArchive } from '../archive-store.ts';
import type { ForeignArchives } from '../foreign-archives.ts';
import { paths } from '../keys.ts';
import type { ArchiveRecord } from '../mirror-document.ts';
import { orForeign } from '../provider-directories.ts';
import { asStored, isOurs } from '../stored-record.ts';
import type { ListedObject, ObjectLook } from './bucket.ts';
import type { BucketDocuments } from './bucket-documents.ts';
import type { Listing, Listings } from './listings.ts';

/** Records read at a time, for all lists together. */
const CONCURRENT_READS = 32;
const MAX_REMEMBERED = 10_000;

/** What is stored of a provider: the same array for as long as nothing changes in the bucket. */
export class ArchiveLists {
  readonly #listings: Listings;
  readonly #documents: BucketDocuments;
  readonly #foreign: ForeignArchives<ObjectLook>;
  readonly #discardDamaged: (archive: ProviderArchive, record: ArchiveRecord, look: ObjectLook) => Promise<void>;
  readonly #logger: Logger;
  readonly #lists = new LRUCache<string, { identity: string; list: readonly StoredArchive[] }>({
    max: MAX_REMEMBERED,
  });
  readonly #reading = pLimit(CONCURRENT_READS);
  /** By provider: documents that are being completed. */
  readonly #naming = new Map<string, Promise<void>>();

  constructor(deps: {
    listings: Listings;
    documents: BucketDocuments;
    foreign: ForeignArchives<ObjectLook>;
    discardDamaged: (archive: ProviderArchive, record: ArchiveRecord, look: ObjectLook) => Promise<void>;
    logger: Logger;
  }) {
    this.#listings = deps.listings;
    this.#documents = deps.documents;
    this.#foreign = deps.foreign;
    this.#discardDamaged = deps.discardDamaged;
    this.#logger = deps.logger;
  }

  /** As `ArchiveStore.list`. @throws StorageFailed */
  async get(provider: ProviderAddress): Promise<readonly StoredArchive[]> {
    const home = paths.provider(provider);
    const listing = await this.#listings.get(home);
    const known = this.#lists.get(home);
    if (known?.identity === listing.identity) return known.list;

    const list: StoredArchive[] = [];
    const unnamed: StoredArchive[] = [];
    const candidates: ProviderArchive[] = [];
    const look = async (archive: ProviderArchive, object: ListedObject) => {
      const { record, isNamed } = await this.#documents.listed(archive, object.size, listing);
      const stored = asStored(archive, record, object);
      if (stored) list.push(stored);
      if (stored && !isNamed) unnamed.push(stored);
      if (stored || !record) return;
      if (isOurs(record)) await this.#discardDamaged(archive, record, object);
      else if (this.#foreign.isCandidate(archive, record, object)) candidates.push(archive);
    };
    await Promise.all(
      archivesIn(provider, listing).map(([archive, object]) => this.#reading(() => look(archive, object))),
    );
    if (unnamed.length > 0) this.#name(provider, unnamed);
    if (candidates.length > 0) list.push(...(await this.#foreign.adoptSome(candidates)));
    else this.#lists.set(home, { identity: listing.identity, list });
    return list;
  }

  /** Waits for what is being written. */
  async close(): Promise<void> {
    await Promise.all(this.#naming.values());
  }

  /** An entry got lost while replicas wrote at once: clients of the bucket itself must find it again, too. */
  #name(provider: ProviderAddress, unnamed: readonly StoredArchive[]): void {
    const key = provider.toString();
    if (this.#naming.has(key)) return;
    const naming = (async () => {
      for (const { archive } of unnamed) await this.#documents.nameRecorded(archive);
    })()
      .catch((error: unknown) => {
        this.#logger.warn('the documents of a provider could not be completed', { provider: key, error });
      })
      .finally(() => this.#naming.delete(key));
    this.#naming.set(key, naming);
  }
}

function archivesIn(provider: ProviderAddress, { objects }: Listing): [ProviderArchive, ListedObject][] {
  return [...objects]
    .filter(([name]) => name.endsWith('.zip'))
    .flatMap(([name, object]) => {
      const archive = orForeign(() => ProviderArchive.parseFilename(provider, name));
      return archive ? [[archive, object] as [ProviderArchive, ListedObject]] : [];
    });
}
