import { setTimeout as delay } from 'node:timers/promises';
import type { ProviderArchive } from '../../address/archive.ts';
import { type Hash, parseHash, parseSha256, sha256Of, zipHash } from '../../address/hash.ts';
import type { ProviderAddress } from '../../address/provider.ts';
import type { Version } from '../../address/version.ts';
import { StorageFailed } from '../../errors.ts';
import { KeyedTurns } from '../../keyed-turns.ts';
import type { Logger } from '../../logger.ts';
import { paths } from '../keys.ts';
import {
  type ArchiveRecord,
  changedDocument,
  indexFor,
  isObject,
  parsedDocument,
  recordsOf,
} from '../mirror-document.ts';
import { isOurs } from '../stored-record.ts';
import type { Listing, Listings } from './listings.ts';
import type { SmallObjects } from './small-objects.ts';

/** Replicas that change the same document at once go one after the other. */
const MAX_ATTEMPTS = 20;
const RETRY_DELAY_MS = 50;

/**
 * What a bucket says of archives: a record beside each that we verified, and the `index.json` and `VERSION.json` of the
 * network mirror protocol. The record is what counts: it is written as a whole, by nobody but whoever stores the archive.
 * The documents are changed by all replicas; where the server knows no conditional writes, an entry of theirs may get
 * lost, and comes back when the provider is listed. Where there is no record (a mirror that was copied into the bucket),
 * they are believed as they would be in a directory.
 */
export class BucketDocuments {
  readonly #objects: SmallObjects;
  readonly #listings: Listings;
  readonly #logger: Logger;
  /** By provider. */
  readonly #changes = new KeyedTurns();

  constructor(deps: { objects: SmallObjects; listings: Listings; logger: Logger }) {
    this.#objects = deps.objects;
    this.#listings = deps.listings;
    this.#logger = deps.logger;
  }

  /** @throws StorageFailed */
  async recordOf(archive: ProviderArchive): Promise<ArchiveRecord | undefined> {
    const own = recordIn(archive, (await this.#objects.get(paths.archiveRecord(archive)))?.content);
    if (own) return own;
    const { provider, version } = archive;
    return entryOf(archive, (await this.#objects.get(paths.version(provider, version)))?.content);
  }

  /** That of its own alone, whatever is remembered. @throws StorageFailed */
  async latestRecordOf(archive: ProviderArchive): Promise<ArchiveRecord | undefined> {
    return recordIn(archive, (await this.#objects.latest(paths.archiveRecord(archive)))?.content);
  }

  /**
   * The same for one of many, with as few requests as possible.
   * @param of has just been listed
   * @returns the record, and whether VERSION.json says the same
   * @throws StorageFailed
   */
  async listed(
    archive: ProviderArchive,
    size: number,
    of: Listing,
  ): Promise<{ record: ArchiveRecord | undefined; isNamed: boolean }> {
    const read = async (key: string) => {
      const etag = of.objects.get(key.slice(key.lastIndexOf('/') + 1))?.etag;
      return etag === undefined ? undefined : (await this.#objects.get(key, etag))?.content;
    };
    const entry = entryOf(archive, await read(paths.version(archive.provider, archive.version)));
    if (isOurs(entry) && entry.size === size) return { record: entry, isNamed: true };
    const own = recordIn(archive, await read(paths.archiveRecord(archive)));
    return own ? { record: own, isNamed: false } : { record: entry, isNamed: true };
  }

  /** Records an archive that is in place. @throws StorageFailed */
  async put(archive: ProviderArchive, hashes: readonly Hash[], size: number): Promise<void> {
    await this.#objects.put(paths.archiveRecord(archive), recordText(hashes, size));
    await this.#name(archive, hashes, size);
  }

  /** Names what has a record of its own in VERSION.json and index.json. @throws StorageFailed */
  async nameRecorded(archive: ProviderArchive): Promise<void> {
    const record = await this.latestRecordOf(archive);
    if (isOurs(record)) await this.#name(archive, record.hashes, record.size);
  }

  /** Forgets an archive. @throws StorageFailed */
  async remove(archive: ProviderArchive): Promise<void> {
    await this.#change(archive.provider, archive.version, (archives) => archives.delete(archive.platform.toString()));
    await this.#objects.remove(paths.archiveRecord(archive));
    this.#listings.forget(paths.provider(archive.provider));
  }

  async #name({ provider, version, platform, filename }: ProviderArchive, hashes: readonly Hash[], size: number) {
    await this.#change(provider, version, (archives) =>
      archives.set(platform.toString(), { hashes: [...hashes], url: filename, size }),
    );
  }

  async #change(
    provider: ProviderAddress,
    version: Version,
    change: (archives: Map<string, unknown>) => unknown,
  ): Promise<void> {
    await this.#changes.take(provider.toString(), async () => {
      try {
        const key = paths.version(provider, version);
        await this.#replace(key, async (content) => changedDocument(this.#parsed(key, content), change));
        await this.#replace(paths.index(provider), async () => {
          // After the index was read: what is listed is no older than what it will replace.
          this.#listings.forget(paths.provider(provider));
          return indexFor([...(await this.#listings.get(paths.provider(provider))).objects.keys()]);
        });
      } finally {
        this.#listings.forget(paths.provider(provider));
      }
    });
  }

  /** @param make the new content of the old; `undefined` is none */
  async #replace(key: string, make: (content: Buffer | undefined) => Promise<string | undefined>): Promise<void> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const seen = await this.#objects.latest(key);
      const content = await make(seen?.content);
      if (content === seen?.content.toString()) return;
      if (content === undefined) return this.#objects.remove(key);
      const written = await this.#objects.put(key, content, seen ? { etag: seen.etag } : 'absent');
      if (written === 'written') return;
      await delay(RETRY_DELAY_MS * attempt * Math.random());
    }
    throw new StorageFailed('writing a mirror document', new Error('others change it all the time'));
  }

  /** Absent and unreadable documents are empty ones: what they should have said is found out anew. */
  #parsed(key: string, content: Buffer | undefined): Record<string, unknown> {
    if (content === undefined) return {};
    const document = parsedDocument(content);
    if (document) return document;
    this.#logger.warn('a mirror document is not readable and will be made anew', { file: key });
    return {};
  }
}

/** What VERSION.json says of an archive. Some other mirror may have kept it under another name: then it says nothing of this one. */
function entryOf(archive: ProviderArchive, content: Buffer | undefined): ArchiveRecord | undefined {
  const document = content && parsedDocument(content);
  const record = document && recordsOf(document).get(archive.platform.toString());
  // A directory that was copied here wrote its files at other times.
  return record?.url === archive.filename ? { ...record, mtimeMs: undefined } : undefined;
}

function recordText(hashes: readonly Hash[], size: number): string {
  const h1 = hashes.find((hash) => hash.startsWith('h1:'));
  const [sha256] = hashes.flatMap((hash) => sha256Of(hash) ?? []);
  return `${JSON.stringify({ sha256, size, ...(h1 !== undefined && { h1 }) }, null, 2)}\n`;
}

/** `undefined` for what cannot be read. */
function recordIn({ filename }: ProviderArchive, content: Buffer | undefined): ArchiveRecord | undefined {
  const document = content && parsedDocument(content);
  if (!isObject(document)) return undefined;
  const { sha256, size, h1 } = document;
  if (typeof sha256 !== 'string' || !Number.isSafeInteger(size)) return undefined;
  try {
    const zip = zipHash(parseSha256(sha256));
    return {
      url: filename,
      hashes: typeof h1 === 'string' ? [parseHash(h1), zip] : [zip],
      size: size as number,
    };
  } catch {
    return undefined;
  }
}
