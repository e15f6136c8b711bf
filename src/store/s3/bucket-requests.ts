import type * as Sdk from '@aws-sdk/client-s3';
import { answeredWithin } from '../../time-limit.ts';
import { type BucketSettings, clientConfig } from './bucket-client.ts';
import { isConflict, isNotImplemented, ofBucket } from './bucket-errors.ts';

/** Connections for everything but reading. Each client that reads has one of its own. */
const MAX_SOCKETS = 128;
/** What an aborted request gets to end by itself, in milliseconds. */
const GRACE_MS = 500;

/** `absent`: only if there is nothing yet. Otherwise only in the place of what has this ETag. */
export type Condition = 'absent' | { readonly etag: string } | undefined;

/** `conflict`: the condition did not hold. */
export type Written = 'written' | 'conflict';

/** How requests to one bucket are made: by keys relative to its prefix, with deadlines and conditions. */
export class BucketRequests {
  readonly sdk: typeof Sdk;
  readonly client: Sdk.S3Client;
  /** With as many connections as there are readers: slow ones must not keep others from anything. */
  readonly reader: Sdk.S3Client;
  readonly bucket: string;
  readonly prefix: string;
  /** Until the server says that it knows none. */
  #hasConditions = true;

  constructor(sdk: typeof Sdk, { bucket, prefix, ...settings }: BucketSettings) {
    this.sdk = sdk;
    this.bucket = bucket;
    this.prefix = prefix;
    this.client = new sdk.S3Client(clientConfig(settings, MAX_SOCKETS));
    this.reader = new sdk.S3Client(clientConfig(settings, Number.POSITIVE_INFINITY));
  }

  at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.bucket, Key: this.prefix + key };
  }

  /** @param key with the prefix */
  withoutPrefix(key: string): string {
    return key.slice(this.prefix.length);
  }

  /** Connections that are in use are ended. */
  close(): void {
    this.client.destroy();
    this.reader.destroy();
  }

  /** @throws StorageFailed */
  async conditionally(
    operation: string,
    condition: Condition,
    write: (conditions: { IfNoneMatch?: string; IfMatch?: string }) => Promise<unknown>,
  ): Promise<Written> {
    const conditions =
      condition === undefined || !this.#hasConditions
        ? {}
        : condition === 'absent'
          ? { IfNoneMatch: '*' }
          : { IfMatch: condition.etag };
    try {
      await write(conditions);
      return 'written';
    } catch (error) {
      if (isConflict(error)) return 'conflict';
      if (condition !== undefined && this.#hasConditions && isNotImplemented(error)) {
        this.#hasConditions = false;
        return this.conditionally(operation, undefined, write);
      }
      return ofBucket(operation, Promise.reject(error));
    }
  }

  /** The SDK's own limits end with the headers, or are of each try: this one is for all of it. */
  async within<T>(limitMs: number, send: (options: { abortSignal: AbortSignal }) => Promise<T>): Promise<T> {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), limitMs);
    try {
      return await answeredWithin(send({ abortSignal: abort.signal }), limitMs + GRACE_MS);
    } finally {
      clearTimeout(timer);
    }
  }
}
