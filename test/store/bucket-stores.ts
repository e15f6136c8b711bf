import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pLimit from 'p-limit';
import type { Logger } from '../../src/logger.ts';
import { freeKeeping } from '../../src/store/keeping.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { PartialFiles } from '../../src/store/partial-files.ts';
import { Bucket } from '../../src/store/s3/bucket.ts';
import { BucketArchiveStore } from '../../src/store/s3/bucket-archive-store.ts';
import type { BucketSettings } from '../../src/store/s3/bucket-client.ts';
import { BucketModuleStore } from '../../src/store/s3/bucket-module-store.ts';
import type { S3Server } from '../support/s3.ts';

/** Stores over one bucket, each as another replica has it: with a data directory of its own. */
export class BucketStores {
  readonly #server: S3Server;
  readonly #logger: Logger;
  readonly #more: Partial<BucketSettings>;
  readonly #redirect: boolean;
  readonly #hasher = new PackageHasher();
  readonly #directories: string[] = [];
  readonly #closers: (() => Promise<void> | void)[] = [];

  constructor(deps: { server: S3Server; logger: Logger; more?: Partial<BucketSettings>; redirect?: boolean }) {
    this.#redirect = deps.redirect ?? false;
    this.#server = deps.server;
    this.#logger = deps.logger;
    this.#more = deps.more ?? {};
  }

  async bucket(): Promise<Bucket> {
    const { bucket, endpoint, accessKeyId, secretAccessKey } = this.#server;
    const opened = await Bucket.open({
      bucket,
      prefix: '',
      region: undefined,
      endpoint,
      pathStyle: true,
      credentials: async () => ({ accessKeyId, secretAccessKey }),
      ...this.#more,
    });
    this.#closers.push(() => opened.close());
    return opened;
  }

  async archives(): Promise<BucketArchiveStore> {
    const store = new BucketArchiveStore({ ...(await this.#deps()), hasher: this.#hasher });
    this.#closers.push(() => store.close());
    return store;
  }

  async modules(): Promise<BucketModuleStore> {
    return new BucketModuleStore(await this.#deps());
  }

  /** What lies about locally. */
  async partials(): Promise<string[]> {
    return (await Promise.all(this.#directories.map((directory) => readdir(directory)))).flat();
  }

  /** Lets go of everything; what lies about then is left over. */
  async settle(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
  }

  async close(): Promise<void> {
    await this.settle();
    await this.#hasher.close();
    for (const directory of this.#directories) await rm(directory, { recursive: true, force: true });
  }

  async #deps() {
    const directory = await mkdtemp(join(tmpdir(), 'larder-local-'));
    this.#directories.push(directory);
    const logger = this.#logger;
    return {
      bucket: await this.bucket(),
      partials: await PartialFiles.open(directory, logger),
      keeping: freeKeeping({ directory, logger }),
      sending: pLimit(4),
      redirect: this.#redirect,
      logger,
    };
  }
}
