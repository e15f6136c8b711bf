import type { Readable } from 'node:stream';
import type * as Sdk from '@aws-sdk/client-s3';
import { type BucketSettings, mediaTypeOf } from './bucket-client.ts';
import { ifInBucket, isUnchanged, ofBucket } from './bucket-errors.ts';
import { BucketRequests, type Condition, type Written } from './bucket-requests.ts';
import { BucketUploads } from './bucket-uploads.ts';

/** For one request about something small, its repetitions included. JSON answers are due within 8 s. */
const SMALL_MS = 5_000;
/** For writing one small object: 8 MiB on a slow line, three times. */
const PART_MS = 120_000;
/** Mirror documents and checksums of the largest providers are a fraction of it; what is larger has no place in memory. */
const MAX_SMALL_BYTES = 16 * 1024 * 1024;
/** Until the first byte of an object. */
const HEADERS_MS = 10_000;
/** Copying a large object takes the server a while. */
const LONG_MS = 120_000;

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

/** One bucket, or a part of it, by keys relative to its prefix. Every request has a deadline. */
export class Bucket {
  readonly uploads: BucketUploads;
  readonly #requests: BucketRequests;

  private constructor(requests: BucketRequests) {
    this.#requests = requests;
    this.uploads = new BucketUploads(requests);
  }

  /** Asks nothing of the bucket yet: one that cannot be reached now may be later. */
  static async open(settings: BucketSettings): Promise<Bucket> {
    return new Bucket(new BucketRequests(await import('@aws-sdk/client-s3'), settings));
  }

  /** `undefined` when it is not there. @throws StorageFailed */
  async head(key: string): Promise<ObjectLook | undefined> {
    const command = new this.#requests.sdk.HeadObjectCommand(this.#requests.at(key));
    const found = await ifInBucket(
      'looking into the bucket',
      this.#requests.within(SMALL_MS, (options) => this.#requests.client.send(command, options)),
    );
    return found && lookOf(found.ContentLength, found);
  }

  /** The bytes, which the caller ends or destroys, and what they are of. `end` inclusive. `undefined` when it is not there. @throws StorageFailed */
  async read(
    key: string,
    range?: { readonly start: number; readonly end?: number },
  ): Promise<{ readonly body: Readable; readonly look: ObjectLook } | undefined> {
    const command = new this.#requests.sdk.GetObjectCommand({
      ...this.#requests.at(key),
      ...(range && { Range: `bytes=${range.start}-${range.end ?? ''}` }),
    });
    const found = await ifInBucket(
      'reading from the bucket',
      this.#requests.within(HEADERS_MS, (options) => this.#requests.reader.send(command, options)),
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
   * @throws StorageFailed, also when it is larger than anything small is
   */
  async readSmall(
    key: string,
    known?: string,
  ): Promise<{ readonly content: Buffer; readonly etag: string } | 'unchanged' | undefined> {
    const command = new this.#requests.sdk.GetObjectCommand({
      ...this.#requests.at(key),
      ...(known && { IfNoneMatch: known }),
    });
    return ifInBucket('reading from the bucket', this.#readSmall(command));
  }

  /** @throws StorageFailed */
  write(key: string, content: Buffer | string, condition?: Condition): Promise<Written> {
    const command = (conditions: object) =>
      new this.#requests.sdk.PutObjectCommand({
        ...this.#requests.at(key),
        Body: content,
        ContentLength: Buffer.byteLength(content),
        ContentType: mediaTypeOf(key),
        ...conditions,
      });
    return this.#requests.conditionally('writing to the bucket', condition, (conditions) =>
      this.#requests.within(PART_MS, (options) => this.#requests.client.send(command(conditions), options)),
    );
  }

  /** Absent is fine. @throws StorageFailed */
  async remove(key: string): Promise<void> {
    const command = new this.#requests.sdk.DeleteObjectCommand(this.#requests.at(key));
    await ifInBucket(
      'removing from the bucket',
      this.#requests.within(SMALL_MS, (options) => this.#requests.client.send(command, options)),
    );
  }

  /** @returns whether there was anything to copy. @throws StorageFailed */
  async copy(from: string, to: string): Promise<boolean> {
    const source = [this.#requests.bucket, ...(this.#requests.prefix + from).split('/')]
      .map(encodeURIComponent)
      .join('/');
    const command = new this.#requests.sdk.CopyObjectCommand({ ...this.#requests.at(to), CopySource: source });
    return (
      (await ifInBucket(
        'copying in the bucket',
        this.#requests.within(LONG_MS, (options) => this.#requests.client.send(command, options)),
      )) !== undefined
    );
  }

  /** Everything below a prefix, by key. @throws StorageFailed */
  async *list(prefix: string): AsyncGenerator<ListedObject> {
    for await (const { Contents = [] } of this.#pages(prefix)) {
      for (const one of Contents) {
        if (one.Key === undefined) continue;
        yield { key: this.#requests.withoutPrefix(one.Key), ...lookOf(one.Size, one) };
      }
    }
  }

  /** The names between a prefix, which ends in `/`, and the next `/`. @throws StorageFailed */
  async directories(prefix: string): Promise<string[]> {
    const names: string[] = [];
    for await (const { CommonPrefixes = [] } of this.#pages(prefix, '/')) {
      for (const one of CommonPrefixes)
        names.push((one.Prefix ?? '').slice(this.#requests.prefix.length + prefix.length, -1));
    }
    return names;
  }

  /** A URL by which anybody may GET the object for so long. Nothing is asked of the bucket. @throws StorageFailed */
  async link(key: string, { lifetimeMs, mediaType }: { lifetimeMs: number; mediaType: string }): Promise<string> {
    const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
    const command = new this.#requests.sdk.GetObjectCommand({
      ...this.#requests.at(key),
      ResponseContentType: mediaType,
    });
    return ofBucket(
      'making a link into the bucket',
      getSignedUrl(this.#requests.client, command, { expiresIn: Math.round(lifetimeMs / 1000) }),
    );
  }

  /** Whether it can be listed now. @throws StorageFailed */
  async check(): Promise<void> {
    const command = new this.#requests.sdk.ListObjectsV2Command({
      Bucket: this.#requests.bucket,
      Prefix: this.#requests.prefix,
      MaxKeys: 1,
    });
    await ofBucket(
      'looking into the bucket',
      this.#requests.within(SMALL_MS, (options) => this.#requests.client.send(command, options)),
    );
  }

  /** Connections that are in use are ended. */
  close(): void {
    this.#requests.close();
  }

  async *#pages(prefix: string, Delimiter?: string): AsyncGenerator<Sdk.ListObjectsV2CommandOutput> {
    let ContinuationToken: string | undefined;
    do {
      const command = new this.#requests.sdk.ListObjectsV2Command({
        Bucket: this.#requests.bucket,
        Prefix: this.#requests.prefix + prefix,
        ...(Delimiter !== undefined && { Delimiter }),
        ...(ContinuationToken !== undefined && { ContinuationToken }),
      });
      const page = await ofBucket(
        'listing the bucket',
        this.#requests.within(SMALL_MS, (options) => this.#requests.client.send(command, options)),
      );
      yield page;
      ContinuationToken = page.IsTruncated ? page.NextContinuationToken : undefined;
    } while (ContinuationToken !== undefined);
  }

  async #readSmall(command: Sdk.GetObjectCommand) {
    try {
      return await this.#requests.within(SMALL_MS, async (options) => {
        const { Body, ETag = '', ContentLength = 0 } = await this.#requests.client.send(command, options);
        if (ContentLength > MAX_SMALL_BYTES) {
          (Body as Readable).destroy();
          throw Object.assign(new Error(`it has ${ContentLength} bytes`), { code: 'EFBIG' });
        }
        return { content: Buffer.from((await Body?.transformToByteArray()) ?? []), etag: ETag };
      });
    } catch (error) {
      if (isUnchanged(error)) return 'unchanged';
      throw error;
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
