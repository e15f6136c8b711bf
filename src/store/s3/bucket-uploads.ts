import type * as Sdk from '@aws-sdk/client-s3';
import { mediaTypeOf } from './bucket-client.ts';
import { ifInBucket, ofBucket } from './bucket-errors.ts';
import type { BucketRequests, Condition, Written } from './bucket-requests.ts';

/** For a request that moves no bytes. */
const SMALL_MS = 5_000;
/** For one part: 8 MiB on a slow line, three times. */
const PART_MS = 120_000;
/** Listing what may be many, and putting many parts together, takes the server a while. */
const LIST_MS = 10_000;
const LONG_MS = 120_000;

/** Uploads in parts. Nothing of them is under their key before they are completed. */
export class BucketUploads {
  readonly #requests: BucketRequests;

  constructor(requests: BucketRequests) {
    this.#requests = requests;
  }

  /** Begins one. @returns its id. @throws StorageFailed */
  async begin(key: string): Promise<string> {
    const command = new this.#requests.sdk.CreateMultipartUploadCommand({
      ...this.#requests.at(key),
      ContentType: mediaTypeOf(key),
    });
    const { UploadId } = await ofBucket(
      'writing to the bucket',
      this.#requests.within(SMALL_MS, (options) => this.#requests.client.send(command, options)),
    );
    return UploadId ?? '';
  }

  /** @param part from 1 on. @returns the ETag of the part. @throws StorageFailed */
  async send(key: string, upload: string, part: number, content: Buffer): Promise<string> {
    const command = new this.#requests.sdk.UploadPartCommand({
      ...this.#requests.at(key),
      UploadId: upload,
      PartNumber: part,
      Body: content,
      ContentLength: content.length,
    });
    const { ETag } = await ofBucket(
      'writing to the bucket',
      this.#requests.within(PART_MS, (options) => this.#requests.client.send(command, options)),
    );
    return ETag ?? '';
  }

  /** @param etags of all parts, in their order. @throws StorageFailed */
  complete(key: string, upload: string, etags: readonly string[], condition?: Condition): Promise<Written> {
    const Parts = etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 }));
    return this.#requests.conditionally('writing to the bucket', condition, (conditions) => {
      const at = { ...this.#requests.at(key), UploadId: upload, MultipartUpload: { Parts }, ...conditions };
      const command = new this.#requests.sdk.CompleteMultipartUploadCommand(at);
      return this.#requests.within(LONG_MS, (options) => this.#requests.client.send(command, options));
    });
  }

  /** Gone already is fine. @throws StorageFailed */
  async abort(key: string, upload: string): Promise<void> {
    const command = new this.#requests.sdk.AbortMultipartUploadCommand({ ...this.#requests.at(key), UploadId: upload });
    await ifInBucket(
      'removing an upload from the bucket',
      this.#requests.within(SMALL_MS, (options) => this.#requests.client.send(command, options)),
    );
  }

  /** Uploads to keys below a prefix that are neither completed nor aborted. @throws StorageFailed */
  async *list(prefix: string): AsyncGenerator<{ readonly key: string; readonly id: string; readonly begunAt: Date }> {
    let next: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } | undefined = {};
    while (next) {
      const command: Sdk.ListMultipartUploadsCommand = new this.#requests.sdk.ListMultipartUploadsCommand({
        Bucket: this.#requests.bucket,
        Prefix: this.#requests.prefix + prefix,
        ...(next.KeyMarker !== undefined && { KeyMarker: next.KeyMarker }),
        ...(next.UploadIdMarker !== undefined && { UploadIdMarker: next.UploadIdMarker }),
      });
      const page: Sdk.ListMultipartUploadsCommandOutput = await ofBucket(
        'listing uploads in the bucket',
        this.#requests.within(LIST_MS, (options) => this.#requests.client.send(command, options)),
      );
      for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
        if (Key === undefined || UploadId === undefined || Initiated === undefined) continue;
        yield { key: this.#requests.withoutPrefix(Key), id: UploadId, begunAt: Initiated };
      }
      // A server that does not tell where to go on would tell the same again.
      const hasMore = page.IsTruncated === true && page.NextKeyMarker !== undefined;
      next = hasMore ? { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker } : undefined;
    }
  }
}
