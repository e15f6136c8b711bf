import type { Readable } from 'node:stream';
import type * as Sdk from '@aws-sdk/client-s3';
import { answeredWithin } from '../../time-limit.ts';
import { type BucketSettings, clientConfig, mediaTypeOf } from './bucket-client.ts';
import { ifInBucket, isConflict, isNotImplemented, isUnchanged, ofBucket } from './bucket-errors.ts';

/** For one request about something small, its repetitions included. JSON answers are due within 8 s. */
const SMALL_MS = 5_000;
/** For one part of an upload, or one small object: 8 MiB on a slow line, three times. */
const PART_MS = 120_000;
/** Until the first byte of an object. */
const HEADERS_MS = 10_000;
/** Putting many parts together, or copying a large object, takes the server a while. */
const LONG_MS = 120_000;
/** Connections for everything but reading. Each client that reads has one of its own. */
const MAX_SOCKETS = 128;
/** What an aborted request gets to end by itself. */
const GRACE_MS = 500;

/** What is told of an object without its content. */
export interface ObjectLook {
  /** Bytes. */
  readonly size: number;
  readonly etag: string;
  /** To the second, as some answers tell no more. */
  readonly mtime: Date;
}

export interface ListedObject extends ObjectLook {
  readonly key: string;
}

/** `absent`: only if there is nothing yet. Otherwise only in the place of what has this ETag. */
export type Condition = 'absent' | { readonly etag: string } | undefined;

/** `conflict`: the condition did not hold. */
export type Written = 'written' | 'conflict';

/** One bucket, or a part of it, by keys relative to its prefix. Every request has a deadline. */
export class Bucket {
  readonly #sdk: typeof Sdk;
  readonly #client: Sdk.S3Client;
  /** With as many connections as there are readers: slow ones must not keep others from anything. */
  readonly #reader: Sdk.S3Client;
  readonly #bucket: string;
  readonly #prefix: string;
  /** Until the server says that it knows none. */
  #hasConditions = true;

  private constructor(sdk: typeof Sdk, { bucket, prefix, ...settings }: BucketSettings) {
    this.#sdk = sdk;
    this.#bucket = bucket;
    this.#prefix = prefix;
    this.#client = new sdk.S3Client(clientConfig(settings, MAX_SOCKETS));
    this.#reader = new sdk.S3Client(clientConfig(settings, Number.POSITIVE_INFINITY));
  }

  /** Asks nothing of the bucket yet: one that cannot be reached now may be later. */
  static async open(settings: BucketSettings): Promise<Bucket> {
    return new Bucket(await import('@aws-sdk/client-s3'), settings);
  }

  /** `undefined` when it is not there. @throws StorageFailed */
  async head(key: string): Promise<ObjectLook | undefined> {
    const command = new this.#sdk.HeadObjectCommand(this.#at(key));
    const found = await ifInBucket(
      'looking into the bucket',
      this.#within(SMALL_MS, (options) => this.#client.send(command, options)),
    );
    return found && lookOf(found.ContentLength, found);
  }

  /** The bytes, which the caller ends or destroys, and what they are of. `end` inclusive. `undefined` when it is not there. @throws StorageFailed */
  async read(
    key: string,
    range?: { readonly start: number; readonly end?: number },
  ): Promise<{ readonly body: Readable; readonly look: ObjectLook } | undefined> {
    const command = new this.#sdk.GetObjectCommand({
      ...this.#at(key),
      ...(range && { Range: `bytes=${range.start}-${range.end ?? ''}` }),
    });
    const found = await ifInBucket(
      'reading from the bucket',
      this.#within(HEADERS_MS, (options) => this.#reader.send(command, options)),
    );
    if (!found) return undefined;
    const body = found.Body as Readable;
    // Whoever reads it may not have begun to listen when it breaks off.
    body.on('error', () => {});
    const whole = /\/(\d+)$/.exec(found.ContentRange ?? '')?.[1];
    return { body, look: lookOf(whole === undefined ? found.ContentLength : Number(whole), found) };
  }

  /**
   * All of a small object. `unchanged` when it still has the ETag that is known, `undefined` when it is not there.
   * @throws StorageFailed
   */
  async readSmall(
    key: string,
    known?: string,
  ): Promise<{ readonly content: Buffer; readonly etag: string } | 'unchanged' | undefined> {
    const command = new this.#sdk.GetObjectCommand({ ...this.#at(key), ...(known && { IfNoneMatch: known }) });
    return ifInBucket('reading from the bucket', this.#readSmall(command));
  }

  /** @throws StorageFailed */
  write(key: string, content: Buffer | string, condition?: Condition): Promise<Written> {
    const command = (conditions: object) =>
      new this.#sdk.PutObjectCommand({
        ...this.#at(key),
        Body: content,
        ContentLength: Buffer.byteLength(content),
        ContentType: mediaTypeOf(key),
        ...conditions,
      });
    return this.#conditionally('writing to the bucket', condition, (conditions) =>
      this.#within(PART_MS, (options) => this.#client.send(command(conditions), options)),
    );
  }

  /** Absent is fine. @throws StorageFailed */
  async remove(key: string): Promise<void> {
    const command = new this.#sdk.DeleteObjectCommand(this.#at(key));
    await ifInBucket(
      'removing from the bucket',
      this.#within(SMALL_MS, (options) => this.#client.send(command, options)),
    );
  }

  /** @returns whether there was anything to copy. @throws StorageFailed */
  async copy(from: string, to: string): Promise<boolean> {
    const source = [this.#bucket, ...(this.#prefix + from).split('/')].map(encodeURIComponent).join('/');
    const command = new this.#sdk.CopyObjectCommand({ ...this.#at(to), CopySource: source });
    return (
      (await ifInBucket(
        'copying in the bucket',
        this.#within(LONG_MS, (options) => this.#client.send(command, options)),
      )) !== undefined
    );
  }

  /** Everything below a prefix, by key. @throws StorageFailed */
  async *list(prefix: string): AsyncGenerator<ListedObject> {
    for await (const { Contents = [] } of this.#pages(prefix)) {
      for (const one of Contents) {
        if (one.Key === undefined) continue;
        yield { key: one.Key.slice(this.#prefix.length), ...lookOf(one.Size, one) };
      }
    }
  }

  /** The names between a prefix, which ends in `/`, and the next `/`. @throws StorageFailed */
  async directories(prefix: string): Promise<string[]> {
    const names: string[] = [];
    for await (const { CommonPrefixes = [] } of this.#pages(prefix, '/')) {
      for (const one of CommonPrefixes) names.push((one.Prefix ?? '').slice(this.#prefix.length + prefix.length, -1));
    }
    return names;
  }

  /** Begins an upload in parts. Nothing is there before it is completed. @returns its id. @throws StorageFailed */
  async beginUpload(key: string): Promise<string> {
    const command = new this.#sdk.CreateMultipartUploadCommand({ ...this.#at(key), ContentType: mediaTypeOf(key) });
    const { UploadId } = await ofBucket(
      'writing to the bucket',
      this.#within(SMALL_MS, (options) => this.#client.send(command, options)),
    );
    return UploadId ?? '';
  }

  /** @param part from 1 on. @returns the ETag of the part. @throws StorageFailed */
  async uploadPart(key: string, upload: string, part: number, content: Buffer): Promise<string> {
    const command = new this.#sdk.UploadPartCommand({
      ...this.#at(key),
      UploadId: upload,
      PartNumber: part,
      Body: content,
      ContentLength: content.length,
    });
    const { ETag } = await ofBucket(
      'writing to the bucket',
      this.#within(PART_MS, (options) => this.#client.send(command, options)),
    );
    return ETag ?? '';
  }

  /** @param etags of all parts, in their order. @throws StorageFailed */
  completeUpload(key: string, upload: string, etags: readonly string[], condition?: Condition): Promise<Written> {
    const Parts = etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 }));
    return this.#conditionally('writing to the bucket', condition, (conditions) => {
      const at = { ...this.#at(key), UploadId: upload, MultipartUpload: { Parts }, ...conditions };
      const command = new this.#sdk.CompleteMultipartUploadCommand(at);
      return this.#within(LONG_MS, (options) => this.#client.send(command, options));
    });
  }

  /** Gone already is fine. @throws StorageFailed */
  async abortUpload(key: string, upload: string): Promise<void> {
    const command = new this.#sdk.AbortMultipartUploadCommand({ ...this.#at(key), UploadId: upload });
    await ifInBucket(
      'removing an upload from the bucket',
      this.#within(SMALL_MS, (options) => this.#client.send(command, options)),
    );
  }

  /** Uploads that are neither completed nor aborted. @throws StorageFailed */
  async uploads(): Promise<{ readonly key: string; readonly id: string; readonly begunAt: Date }[]> {
    const command = new this.#sdk.ListMultipartUploadsCommand({ Bucket: this.#bucket, Prefix: this.#prefix });
    const { Uploads = [] } = await ofBucket(
      'listing uploads in the bucket',
      this.#within(HEADERS_MS, (options) => this.#client.send(command, options)),
    );
    return Uploads.flatMap(({ Key, UploadId, Initiated }) =>
      Key !== undefined && UploadId !== undefined && Initiated !== undefined
        ? [{ key: Key.slice(this.#prefix.length), id: UploadId, begunAt: Initiated }]
        : [],
    );
  }

  /** A URL by which anybody may GET the object for so long. Nothing is asked of the bucket. @throws StorageFailed */
  async link(key: string, { lifetimeMs, mediaType }: { lifetimeMs: number; mediaType: string }): Promise<string> {
    const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
    const command = new this.#sdk.GetObjectCommand({ ...this.#at(key), ResponseContentType: mediaType });
    return ofBucket(
      'making a link into the bucket',
      getSignedUrl(this.#client, command, { expiresIn: Math.round(lifetimeMs / 1000) }),
    );
  }

  /** Whether it can be listed now. @throws StorageFailed */
  async check(): Promise<void> {
    const command = new this.#sdk.ListObjectsV2Command({ Bucket: this.#bucket, Prefix: this.#prefix, MaxKeys: 1 });
    await ofBucket(
      'looking into the bucket',
      this.#within(SMALL_MS, (options) => this.#client.send(command, options)),
    );
  }

  /** Connections that are in use are ended. */
  close(): void {
    this.#client.destroy();
    this.#reader.destroy();
  }

  #at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: this.#prefix + key };
  }

  async *#pages(prefix: string, Delimiter?: string): AsyncGenerator<Sdk.ListObjectsV2CommandOutput> {
    let ContinuationToken: string | undefined;
    do {
      const command = new this.#sdk.ListObjectsV2Command({
        Bucket: this.#bucket,
        Prefix: this.#prefix + prefix,
        ...(Delimiter !== undefined && { Delimiter }),
        ...(ContinuationToken !== undefined && { ContinuationToken }),
      });
      const page = await ofBucket(
        'listing the bucket',
        this.#within(HEADERS_MS, (options) => this.#client.send(command, options)),
      );
      yield page;
      ContinuationToken = page.IsTruncated ? page.NextContinuationToken : undefined;
    } while (ContinuationToken !== undefined);
  }

  async #readSmall(command: Sdk.GetObjectCommand) {
    try {
      return await this.#within(SMALL_MS, async (options) => {
        const { Body, ETag = '' } = await this.#client.send(command, options);
        return { content: Buffer.from((await Body?.transformToByteArray()) ?? []), etag: ETag };
      });
    } catch (error) {
      if (isUnchanged(error)) return 'unchanged';
      throw error;
    }
  }

  async #conditionally(
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
        return this.#conditionally(operation, undefined, write);
      }
      return ofBucket(operation, Promise.reject(error));
    }
  }

  /** The SDK's own limits end with the headers, or are of each try: this one is for all of it. */
  async #within<T>(limitMs: number, send: (options: { abortSignal: AbortSignal }) => Promise<T>): Promise<T> {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), limitMs);
    try {
      return await answeredWithin(send({ abortSignal: abort.signal }), limitMs + GRACE_MS);
    } finally {
      clearTimeout(timer);
    }
  }
}

function lookOf(
  size: number | undefined,
  { ETag = '', LastModified }: { ETag?: string | undefined; LastModified?: Date | undefined },
): ObjectLook {
  const at = LastModified?.getTime() ?? 0;
  return { size: size ?? 0, etag: ETag, mtime: new Date(at - (at % 1_000)) };
}
