import type { Readable } from 'node:stream';
import { LRUCache } from 'lru-cache';
import type { ProviderArchive } from '../../address/archive.ts';
import { type Hash, type Sha256, zipHash } from '../../address/hash.ts';
import { ProviderAddress } from '../../address/provider.ts';
import type { Version } from '../../address/version.ts';
import { StorageFailed } from '../../errors.ts';
import type {
  ArchiveStore,
  ByteRange,
  ComputedHashes,
  IncomingArchive,
  ReadPurpose,
  ReleaseFiles,
  StoredArchive,
} from '../archive-store.ts';
import { ForeignArchives } from '../foreign-archives.ts';
import { reading } from '../keeping.ts';
import { paths } from '../keys.ts';
import type { ArchiveRecord } from '../mirror-document.ts';
import type { PackageHasher } from '../package-hash.ts';
import { orForeign } from '../provider-directories.ts';
import { asStored, isOurs, isRecordOf } from '../stored-record.ts';
import { ArchiveLists } from './archive-lists.ts';
import type { ObjectLook } from './bucket.ts';
import type { BucketDeps } from './bucket-deps.ts';
import { BucketDocuments } from './bucket-documents.ts';
import { BucketQuarantine } from './bucket-quarantine.ts';
import { BucketReleases } from './bucket-releases.ts';
import { IncomingObject } from './incoming-object.ts';
import { Listings } from './listings.ts';
import { LocalArchives } from './local-archives.ts';
import { digestOfObject, openObject } from './object-body.ts';
import { publishOnce } from './publish.ts';
import { SmallObjects } from './small-objects.ts';

/** How long it is believed that an archive is still there. When it is read, its absence shows at once. */
const HIT_MS = 5_000;
const MAX_REMEMBERED = 10_000;
/** Another replica may be between its archive and its record, or about to be; a clock may be wrong by as much. */
const SETTLED_MS = 10_000;
/** How long a link that clients are sent to is good for: until they follow it, which they do at once. */
const LINK_LIFETIME_MS = 5 * 60_000;

/**
 * Archives in a bucket, in the same layout as in a directory: at any moment a static network mirror.
 *
 * An archive is present when its record tells its digest and size and the object has that size. Archives arrive in a
 * local file, which is sent to the bucket as it grows and appears there only once it was verified; then its record is
 * written, then VERSION.json and index.json.
 */
export class BucketArchiveStore implements ArchiveStore {
  readonly #deps: BucketDeps & { readonly hasher: PackageHasher };
  readonly link: ((stored: StoredArchive) => Promise<string>) | undefined;
  readonly #documents: BucketDocuments;
  readonly #releases: BucketReleases;
  readonly #foreign: ForeignArchives<ObjectLook>;
  readonly #quarantine: BucketQuarantine;
  readonly #local: LocalArchives;
  readonly #hits = new LRUCache<string, StoredArchive>({ max: MAX_REMEMBERED, ttl: HIT_MS });
  readonly #lists: ArchiveLists;
  /** Of our own: what was looked up meanwhile may be older. */
  #changes = 0;

  constructor(deps: BucketDeps & { readonly hasher: PackageHasher }) {
    const { bucket, logger } = deps;
    this.#deps = deps;
    this.link = deps.redirect ? (stored) => this.#link(stored) : undefined;
    const objects = new SmallObjects({ bucket });
    const listings = new Listings({ bucket });
    this.#documents = new BucketDocuments({ objects, listings, logger });
    this.#releases = new BucketReleases({ objects, listings });
    this.#quarantine = new BucketQuarantine({ bucket });
    this.#local = new LocalArchives(deps);
    this.#foreign = new ForeignArchives<ObjectLook>({
      shelf: {
        look: (archive) => bucket.head(paths.archive(archive)),
        identityOf: ({ etag, size }) => `${etag} ${size}`,
        // Objects appear whole.
        isSettled: () => true,
        judge: (archive, { size }, known) => this.#local.judge(archive, size, known),
        recordOf: (archive) => this.#documents.recordOf(archive),
        record: (archive, sha256, h1, { size }) => this.#record(archive, sha256, h1, size),
        asItWas: async (stored) => stored,
        discard: (archive) => this.discard(archive),
      },
      logger,
    });
    this.#lists = new ArchiveLists({
      listings,
      documents: this.#documents,
      foreign: this.#foreign,
      discardDamaged: (...of) => this.#discardDamaged(...of),
      logger,
    });
  }

  async find(archive: ProviderArchive): Promise<StoredArchive | undefined> {
    const key = paths.archive(archive);
    const hit = this.#hits.get(key);
    if (hit) return hit;
    const changes = this.#changes;
    const [known, look] = await Promise.all([this.#documents.recordOf(archive), this.#deps.bucket.head(key)]);
    if (!look) return undefined;
    // Another replica may have written it a moment ago.
    const record = isOurs(known) ? known : ((await this.#documents.latestRecordOf(archive)) ?? known);
    const stored = asStored(archive, record, look);
    if (stored) {
      if (changes === this.#changes) this.#hits.set(key, stored);
      return stored;
    }
    if (isOurs(record)) {
      await this.#discardDamaged(archive, record, look);
      return undefined;
    }
    return this.#foreign.isCandidate(archive, record, look) ? this.adopt(archive) : undefined;
  }

  peek(archive: ProviderArchive): Promise<StoredArchive | undefined> {
    return this.find(archive);
  }

  list(provider: ProviderAddress): Promise<readonly StoredArchive[]> {
    return this.#lists.get(provider);
  }

  async *providers(): AsyncGenerator<ProviderAddress> {
    const { bucket } = this.#deps;
    for (const hostname of await bucket.directories(`${paths.providers}/`)) {
      for (const namespace of await bucket.directories(`${paths.providers}/${hostname}/`)) {
        for (const type of await bucket.directories(`${paths.providers}/${hostname}/${namespace}/`)) {
          const provider = orForeign(() => ProviderAddress.parse(`${hostname}/${namespace}/${type}`));
          if (!provider || paths.provider(provider) !== `${paths.providers}/${hostname}/${namespace}/${type}`) continue;
          const isHere = (await this.list(provider)).length > 0 || (await this.releases(provider)).length > 0;
          if (isHere) yield provider;
        }
      }
    }
  }

  async read(stored: StoredArchive, range?: ByteRange, purpose: ReadPurpose = 'use'): Promise<Readable> {
    const key = paths.archive(stored.archive);
    return reading(this.#deps.keeping, key, { stream: await this.#open(stored, range), purpose });
  }

  /** Costs a look into the bucket: clients cannot be sent where nothing is. */
  async #link(stored: StoredArchive): Promise<string> {
    const key = paths.archive(stored.archive);
    const look = await this.#deps.bucket.head(key);
    if (look?.size !== stored.size) throw this.#noticeGone(stored.archive);
    this.#deps.keeping.uses.note(key);
    return this.#deps.bucket.link(key, { lifetimeMs: LINK_LIFETIME_MS, mediaType: 'application/zip' });
  }

  receive(archive: ProviderArchive): Promise<IncomingArchive> {
    return IncomingObject.open(this.#deps, {
      key: paths.archive(archive),
      publish: async ({ finish, partial, size, sha256 }) => {
        const stored = await publishOnce({
          sha256,
          finish,
          record: () => this.#record(archive, sha256, undefined, size),
          look: () => this.#latest(archive),
          adopt: () => this.adopt(archive, { sha256 }),
        });
        this.#local.copies.keep(paths.archive(archive), partial);
        return stored;
      },
    });
  }

  adopt(archive: ProviderArchive, expected?: { readonly sha256: Sha256 }): Promise<StoredArchive | undefined> {
    return this.#foreign.adopt(archive, expected?.sha256);
  }

  async putRelease(provider: ProviderAddress, version: Version, files: ReleaseFiles): Promise<void> {
    await this.#releases.put(provider, version, files).finally(() => this.#changed());
  }

  getRelease(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined> {
    return this.#releases.get(provider, version);
  }

  releases(provider: ProviderAddress): Promise<readonly Version[]> {
    return this.#releases.versions(provider);
  }

  async discardRelease(provider: ProviderAddress, version: Version): Promise<void> {
    await this.#releases.discard(provider, version).finally(() => this.#changed());
  }

  async putPackageHash({ archive, sha256 }: Pick<StoredArchive, 'archive' | 'sha256'>, h1: Hash): Promise<void> {
    const record = (await this.#documents.latestRecordOf(archive)) ?? (await this.#documents.recordOf(archive));
    if (!isRecordOf(record, sha256) || record.hashes[0] === h1) return;
    const others = record.hashes.filter((hash) => hash !== h1);
    await this.#documents.put(archive, [h1, ...others], record.size).finally(() => this.#changed(archive));
  }

  async computePackageHash(stored: StoredArchive): Promise<ComputedHashes | undefined> {
    const { hasher, logger } = this.#deps;
    const outcome = await this.#local.with(stored.archive, stored.size, (path) => hasher.hash(path));
    if (outcome && 'hash' in outcome) return { zip: outcome.hash, unpacked: outcome.unpacked ?? outcome.hash };
    // Cut off by our own shutdown: that says nothing of the archive.
    if (hasher.isClosed) return undefined;
    const reason = outcome?.reason ?? 'it is not there any more';
    logger.warn('an archive has no package hash', { archive: stored.archive.toString(), reason });
    return undefined;
  }

  lastUse({ archive, storedAt }: StoredArchive): Promise<Date> {
    return this.#deps.keeping.uses.of(paths.archive(archive), storedAt);
  }

  async verify({ archive, size, sha256 }: StoredArchive): Promise<boolean> {
    return (await digestOfObject(this.#deps.bucket, paths.archive(archive), size)) === sha256;
  }

  async quarantine(stored: StoredArchive, reason: string): Promise<string | undefined> {
    const { archive, size, sha256 } = stored;
    await this.#documents.remove(archive).finally(() => this.#changed(archive));
    const id = await this.#quarantine.take(archive, { size, sha256, reason });
    await this.#isGone(archive);
    return id;
  }

  async discard(archive: ProviderArchive): Promise<void> {
    // Not offered any more before it is not there any more.
    await this.#documents.remove(archive).finally(() => this.#changed(archive));
    await this.#deps.bucket.remove(paths.archive(archive));
    await this.#isGone(archive);
  }

  async check(): Promise<void> {
    // What is stored can be read without a disk, and not without the bucket.
    await this.#deps.bucket.check();
    await this.#deps.partials.check();
  }

  /** Waits for what is under way; the bucket stays open. */
  async close(): Promise<void> {
    await this.#foreign.close();
    await this.#lists.close();
    await this.#local.copies.close();
  }

  /** What is there, whatever is remembered of it. */
  async #latest(archive: ProviderArchive): Promise<StoredArchive | 'unrecorded' | undefined> {
    const look = await this.#deps.bucket.head(paths.archive(archive));
    return look && (asStored(archive, await this.#documents.latestRecordOf(archive), look) ?? 'unrecorded');
  }

  async #record(archive: ProviderArchive, sha256: Sha256, h1: Hash | undefined, size: number): Promise<StoredArchive> {
    const key = paths.archive(archive);
    const look = await this.#deps.bucket.head(key);
    if (look?.size !== size) throw new StorageFailed('storing an archive', new Error('it is not there as it was sent'));
    const hashes = h1 ? [h1, zipHash(sha256)] : [zipHash(sha256)];
    await this.#documents.put(archive, hashes, size).finally(() => this.#changed(archive));
    // As old as where it was copied from; it was wanted now.
    if (isSettled(look)) this.#deps.keeping.uses.note(key);
    return { archive, size, sha256, h1, storedAt: look.mtime };
  }

  async #open({ archive, size }: StoredArchive, range?: ByteRange): Promise<Readable> {
    const stream = await openObject(this.#deps.bucket, paths.archive(archive), size, range);
    if (stream) return stream;
    throw this.#noticeGone(archive);
  }

  /** It was believed to be there. */
  #noticeGone(archive: ProviderArchive): StorageFailed {
    this.#changed(archive);
    return new StorageFailed('opening an archive', Object.assign(new Error('it is gone'), { code: 'ENOENT' }));
  }

  async #discardDamaged(archive: ProviderArchive, record: ArchiveRecord, look: ObjectLook): Promise<void> {
    if (!isSettled(look)) return;
    this.#deps.logger.warn('a stored archive is damaged and was discarded', {
      archive: archive.toString(),
      expected: record.size,
      size: look.size,
    });
    await this.discard(archive);
  }

  async #isGone(archive: ProviderArchive): Promise<void> {
    this.#changed(archive);
    this.#local.copies.drop(paths.archive(archive));
    await this.#deps.keeping.uses.forget(paths.archive(archive));
  }

  #changed(archive?: ProviderArchive): void {
    this.#changes += 1;
    this.#deps.keeping.changes.note();
    if (archive) this.#hits.delete(paths.archive(archive));
  }
}

function isSettled({ mtime }: ObjectLook): boolean {
  return Date.now() - mtime.getTime() > SETTLED_MS;
}
