import { rm, stat, utimes } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import pLimit from 'p-limit';
import type { ProviderArchive } from '../../address/archive.ts';
import type { Hash } from '../../address/hash.ts';
import { type Judgement, judge } from '../adoption.ts';
import { paths } from '../keys.ts';
import type { PackageHasher } from '../package-hash.ts';
import type { PartialFiles } from '../partial-files.ts';
import { ofStorage } from '../storage-errors.ts';
import type { Bucket } from './bucket.ts';
import { LocalCopies } from './local-copies.ts';
import { openObject } from './object-body.ts';

/** Archives that are fetched at a time to be looked into. */
const CONCURRENT_FETCHES = 2;

/** Archives of a bucket as local files, for as long as somebody looks into them. */
export class LocalArchives {
  /** Those that have just gone into the bucket. */
  readonly copies = new LocalCopies();
  readonly #bucket: Bucket;
  readonly #partials: PartialFiles;
  readonly #hasher: PackageHasher;
  readonly #fetching = pLimit(CONCURRENT_FETCHES);

  constructor(deps: { bucket: Bucket; partials: PartialFiles; hasher: PackageHasher }) {
    this.#bucket = deps.bucket;
    this.#partials = deps.partials;
    this.#hasher = deps.hasher;
  }

  /**
   * Works on an archive in a local file: the one in which it came, which is not needed any more then, or another one that
   * is fetched. `undefined` when it is gone. @throws StorageFailed, and what `work` throws
   */
  async with<T>(archive: ProviderArchive, size: number, work: (path: string) => Promise<T>): Promise<T | undefined> {
    const key = paths.archive(archive);
    const copy = this.copies.take(key);
    if (!copy) return this.#fetching(() => this.#fetched(key, size, work));
    try {
      return await work(copy.path);
    } finally {
      copy.letGo();
      this.copies.drop(key);
    }
  }

  /** Compares what is in the bucket with the hashes it is known by. @throws StorageFailed */
  async judge(archive: ProviderArchive, size: number, known: readonly Hash[]): Promise<Judgement> {
    const judged = await this.with(archive, size, async (path) => {
      // Nobody is still copying it, however young the local file is.
      await ofStorage('reading a partial file', utimes(path, 0, 0));
      return judge(path, await ofStorage('reading a partial file', stat(path)), known, this.#hasher);
    });
    return judged ?? { verdict: 'unverifiable' };
  }

  async #fetched<T>(key: string, size: number, work: (path: string) => Promise<T>): Promise<T | undefined> {
    const body = await openObject(this.#bucket, key, size);
    if (!body) return undefined;
    try {
      const { path, handle } = await this.#partials.create();
      try {
        await ofStorage('writing a partial file', pipeline(body, handle.createWriteStream()));
        return await work(path);
      } finally {
        await handle.close().catch(() => {});
        await rm(path, { force: true }).catch(() => {});
      }
    } finally {
      body.destroy();
    }
  }
}
