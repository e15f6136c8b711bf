import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { parseSha256, type Sha256 } from '../../address/hash.ts';
import { hasCode, StorageFailed } from '../../errors.ts';
import { answeredWithin } from '../../time-limit.ts';
import type { ByteRange } from '../archive-store.ts';
import type { Bucket, ObjectLook } from './bucket.ts';
import { bucketFailure } from './bucket-errors.ts';

/** While somebody waits for bytes, and none come. */
const STALL_MS = 20_000;
/** Interruptions in a row, without a byte in between, that one reader survives. */
const MAX_RESUMES = 3;
const RESUME_DELAY_MS = 200;
const READ_AHEAD_BYTES = 256 * 1024;

/**
 * The bytes of an object, which has been opened when this resolves. A connection that breaks off is replaced by another
 * one that goes on there, as long as it is the same object. `undefined` when it is not there, or has another size.
 * @throws StorageFailed
 */
export async function openObject(
  bucket: Bucket,
  key: string,
  size: number,
  range?: ByteRange,
): Promise<Readable | undefined> {
  const opened = await bucket.read(key, range);
  if (!opened) return undefined;
  if (opened.look.size !== size) {
    opened.body.destroy();
    return undefined;
  }
  const current = { body: opened.body, isLeft: () => false };
  const bytes = chunks(bucket, key, opened.look, current, range ?? { start: 0, end: size - 1 });
  const stream = Readable.from(bytes, { objectMode: false, highWaterMark: READ_AHEAD_BYTES });
  current.isLeft = () => stream.destroyed;
  // Also when nobody has read anything of it.
  stream.once('close', () => current.body.destroy());
  return stream;
}

async function* chunks(
  bucket: Bucket,
  key: string,
  look: ObjectLook,
  current: { body: Readable; readonly isLeft: () => boolean },
  { start, end }: ByteRange,
): AsyncGenerator<Uint8Array> {
  let position = start;
  for (let resumes = 0; position <= end; resumes += 1) {
    try {
      if (resumes > 0) {
        await delay(RESUME_DELAY_MS * 2 ** (resumes - 1));
        current.body = await reopened(bucket, key, look, { start: position, end });
      }
      const iterator = (current.body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
      for (;;) {
        const next = await answeredWithin(iterator.next(), STALL_MS);
        if (next.done) break;
        yield next.value;
        position += next.value.length;
        resumes = 0;
      }
      if (position <= end) throw Object.assign(new Error('it ended too early'), { code: 'ECONNRESET' });
    } catch (error) {
      current.body.destroy();
      // Nobody reads any more.
      if (current.isLeft()) return;
      if (resumes >= MAX_RESUMES || (error as { gone?: unknown }).gone === true) {
        throw bucketFailure('reading from the bucket', error);
      }
    }
  }
}

async function reopened(bucket: Bucket, key: string, look: ObjectLook, range: ByteRange): Promise<Readable> {
  const opened = await bucket.read(key, range);
  if (opened?.look.etag === look.etag) return opened.body;
  opened?.body.destroy();
  // What follows would be of something else.
  const gone = Object.assign(new Error('it was replaced while it was read'), { code: 'ENOENT' });
  throw new StorageFailed('reading from the bucket', gone);
}

/** Of a whole object; `undefined` when it is not there, or not of this size. @throws StorageFailed */
export async function digestOfObject(bucket: Bucket, key: string, size: number): Promise<Sha256 | undefined> {
  const digest = createHash('sha256');
  try {
    const body = await openObject(bucket, key, size);
    if (!body) return undefined;
    await pipeline(body, digest);
  } catch (error) {
    // Changed, or removed, under our eyes.
    if (hasCode(error, 'STORAGE_FAILED') && (error as StorageFailed).gone) return undefined;
    throw error;
  }
  return parseSha256(digest.digest('hex'));
}
