import { rm, stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { LRUCache } from 'lru-cache';
import { ModuleAddress, ModuleRelease } from '../../address/module.ts';
import type { Version } from '../../address/version.ts';
import { StorageFailed } from '../../errors.ts';
import { KeyedTurns } from '../../keyed-turns.ts';
import type { ByteRange, ReadPurpose } from '../archive-store.ts';
import { reading } from '../keeping.ts';
import { paths } from '../keys.ts';
import { packageVersions, recordVersions } from '../module-directories.ts';
import type { MadePackage, ModuleStore, PackageRecord, StoredPackage, WorkDirectory } from '../module-store.ts';
import { packageRecordIn, packageRecordText } from '../package-record.ts';
import { orForeign } from '../provider-directories.ts';
import { gone, ofStorage } from '../storage-errors.ts';
import type { ObjectLook } from './bucket.ts';
import type { BucketDeps } from './bucket-deps.ts';
import { BucketQuarantine } from './bucket-quarantine.ts';
import { Listings } from './listings.ts';
import { digestOfObject, openObject } from './object-body.ts';
import { publishPackage } from './publish-package.ts';
import { SmallObjects } from './small-objects.ts';

/** How long it is believed that a package is still there. When it is read, its absence shows at once. */
const HIT_MS = 5_000;
const MAX_REMEMBERED = 10_000;
/** Another replica may be between its package and its record; a clock may be wrong by as much. */
const SETTLED_MS = 10_000;
/** How long a link that clients are sent to is good for: until they follow it, which they do at once. */
const LINK_LIFETIME_MS = 5 * 60_000;

/**
 * Module packages in a bucket, each with a JSON object beside it, as in a directory.
 *
 * A package is present when its record can be read and the object has the size that stands there. Packages are made in
 * local directories; then the package is put in place, then the record, each whole.
 */
export class BucketModuleStore implements ModuleStore {
  readonly #deps: BucketDeps;
  readonly link: ((stored: StoredPackage) => Promise<string>) | undefined;
  readonly #objects: SmallObjects;
  readonly #listings: Listings;
  readonly #quarantine: BucketQuarantine;
  readonly #hits = new LRUCache<string, StoredPackage>({ max: MAX_REMEMBERED, ttl: HIT_MS });
  readonly #lists = new LRUCache<string, { identity: string; list: readonly StoredPackage[] }>({
    max: MAX_REMEMBERED,
  });
  /** By release. */
  readonly #turns = new KeyedTurns();
  /** Of our own: what was looked up meanwhile may be older. */
  #changes = 0;

  constructor(deps: BucketDeps) {
    this.#deps = deps;
    this.link = deps.redirect ? (stored) => this.#link(stored) : undefined;
    this.#objects = new SmallObjects(deps);
    this.#listings = new Listings(deps);
    this.#quarantine = new BucketQuarantine(deps);
  }

  async find(release: ModuleRelease): Promise<StoredPackage | undefined> {
    const key = paths.modulePackage(release);
    const hit = this.#hits.get(key);
    if (hit) return hit;
    const changes = this.#changes;
    const [record, look] = await Promise.all([this.recall(release), this.#deps.bucket.head(key)]);
    if (!record || !look) return undefined;
    const stored = await this.#asStored(release, record, look);
    if (stored && changes === this.#changes) this.#hits.set(key, stored);
    return stored;
  }

  async recall(release: ModuleRelease): Promise<PackageRecord | undefined> {
    return this.#recordIn(release, (await this.#objects.get(paths.moduleRecord(release)))?.content);
  }

  async list(module: ModuleAddress): Promise<readonly StoredPackage[]> {
    const home = paths.module(module);
    const listing = await this.#listings.get(home);
    const known = this.#lists.get(home);
    if (known?.identity === listing.identity) return known.list;
    const found = packageVersions([...listing.objects.keys()]).map(async (version) => {
      const release = new ModuleRelease(module, version);
      const look = listing.objects.get(nameOf(paths.modulePackage(release)));
      const recordKey = paths.moduleRecord(release);
      const etag = listing.objects.get(nameOf(recordKey))?.etag;
      if (!look || etag === undefined) return undefined;
      const record = this.#recordIn(release, (await this.#objects.get(recordKey, etag))?.content);
      return record && this.#asStored(release, record, look);
    });
    const list = (await Promise.all(found)).filter((stored) => stored !== undefined);
    this.#lists.set(home, { identity: listing.identity, list });
    return list;
  }

  peek(release: ModuleRelease): Promise<StoredPackage | undefined> {
    return this.find(release);
  }

  async recorded(module: ModuleAddress): Promise<readonly Version[]> {
    return recordVersions([...(await this.#listings.get(paths.module(module))).objects.keys()]);
  }

  async *modules(): AsyncGenerator<ModuleAddress> {
    const { bucket } = this.#deps;
    for (const hostname of await bucket.directories(`${paths.modules}/`)) {
      for (const namespace of await bucket.directories(`${paths.modules}/${hostname}/`)) {
        for (const name of await bucket.directories(`${paths.modules}/${hostname}/${namespace}/`)) {
          const below = `${hostname}/${namespace}/${name}`;
          for (const system of await bucket.directories(`${paths.modules}/${below}/`)) {
            const module = orForeign(() => ModuleAddress.parse(`${below}/${system}`));
            if (!module || paths.module(module) !== `${paths.modules}/${below}/${system}`) continue;
            if ((await this.recorded(module)).length > 0) yield module;
          }
        }
      }
    }
  }

  async read(stored: StoredPackage, range?: ByteRange, purpose: ReadPurpose = 'use'): Promise<Readable> {
    const key = paths.modulePackage(stored.release);
    const stream = await openObject(this.#deps.bucket, key, stored.size, range);
    if (!stream) throw this.#noticeGone(stored.release);
    return reading(this.#deps.keeping, key, { stream, purpose });
  }

  /** Costs a look into the bucket: clients cannot be sent where nothing is. */
  async #link({ release, size }: StoredPackage): Promise<string> {
    const key = paths.modulePackage(release);
    const look = await this.#deps.bucket.head(key);
    if (look?.size !== size) throw this.#noticeGone(release);
    this.#deps.keeping.uses.note(key);
    return this.#deps.bucket.link(key, { lifetimeMs: LINK_LIFETIME_MS, mediaType: 'application/gzip' });
  }

  workDirectory(): Promise<WorkDirectory> {
    return this.#deps.partials.createDirectory();
  }

  put(release: ModuleRelease, made: MadePackage): Promise<StoredPackage> {
    return this.#inTurn(release, async () => {
      const { size: written } = await ofStorage('storing a package', stat(made.file));
      if (written !== made.size) throw new StorageFailed('storing a package', new Error('its size has changed'));
      const record = await publishPackage({ ...this.#deps, objects: this.#objects }, release, made);
      const look = await this.#deps.bucket.head(paths.modulePackage(release));
      if (look?.size !== written)
        throw new StorageFailed('storing a package', new Error('it is not there as it was sent'));
      await rm(made.file, { force: true }).catch(() => {});
      return { ...record, release, storedAt: look.mtime };
    });
  }

  putFingerprint(release: ModuleRelease, fingerprint: string): Promise<void> {
    return this.#inTurn(release, async () => {
      const key = paths.moduleRecord(release);
      const seen = await this.#objects.latest(key);
      const record = this.#recordIn(release, seen?.content);
      if (!seen || !record || record.fingerprint === fingerprint) return;
      // Who was quicker knows at least as well.
      await this.#objects.put(key, packageRecordText({ ...record, fingerprint }), { etag: seen.etag });
    });
  }

  lastUse({ release, storedAt }: StoredPackage): Promise<Date> {
    return this.#deps.keeping.uses.of(paths.modulePackage(release), storedAt);
  }

  quarantine({ release, size, sha256 }: StoredPackage, reason: string): Promise<string | undefined> {
    return this.#inTurn(release, async () => {
      const id = await this.#quarantine.take(release, { size, sha256, reason });
      await this.#deps.keeping.uses.forget(paths.modulePackage(release));
      return id;
    });
  }

  async verify({ release, size, sha256 }: StoredPackage): Promise<boolean> {
    return (await digestOfObject(this.#deps.bucket, paths.modulePackage(release), size)) === sha256;
  }

  discard(release: ModuleRelease): Promise<void> {
    return this.#inTurn(release, () => this.#removePackage(release));
  }

  forget(release: ModuleRelease): Promise<void> {
    return this.#inTurn(release, async () => {
      // Not offered any more before it is not there any more.
      await this.#objects.remove(paths.moduleRecord(release));
      await this.#removePackage(release);
    });
  }

  async close(): Promise<void> {}

  async #asStored(release: ModuleRelease, record: PackageRecord, look: ObjectLook): Promise<StoredPackage | undefined> {
    if (look.size === record.size) return { ...record, release, storedAt: look.mtime };
    if (Date.now() - look.mtime.getTime() <= SETTLED_MS) return undefined;
    this.#deps.logger.warn('a stored module package is damaged and was discarded', {
      module: release.module.toString(),
      version: release.version.toString(),
      expected: record.size,
      size: look.size,
    });
    await this.discard(release);
    return undefined;
  }

  #recordIn(release: ModuleRelease, content: Buffer | undefined): PackageRecord | undefined {
    const record = content && packageRecordIn(content.toString());
    if (content && !record) {
      this.#deps.logger.warn('the record of a module package is not readable; the package is not used', {
        module: release.module.toString(),
        version: release.version.toString(),
      });
    }
    return record;
  }

  async #removePackage(release: ModuleRelease): Promise<void> {
    await this.#deps.bucket.remove(paths.modulePackage(release));
    await this.#deps.keeping.uses.forget(paths.modulePackage(release));
  }

  #noticeGone(release: ModuleRelease): StorageFailed {
    this.#changed(release);
    return gone('opening a package');
  }

  async #inTurn<T>(release: ModuleRelease, work: () => Promise<T>): Promise<T> {
    try {
      return await this.#turns.take(release.toString(), work);
    } finally {
      this.#changed(release);
    }
  }

  #changed(release: ModuleRelease): void {
    this.#changes += 1;
    this.#deps.keeping.changes.note();
    this.#hits.delete(paths.modulePackage(release));
    this.#listings.forget(paths.module(release.module));
  }
}

function nameOf(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}
