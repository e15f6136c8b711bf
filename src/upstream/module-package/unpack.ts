import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { LarderError, StorageFailed, UpstreamInvalid, UpstreamUnreachable } from '../../errors.ts';
import { deadlineFailure } from '../failures.ts';
import { describe, formatOf, SIGNATURE_BYTES } from './archive-signature.ts';
import { decompress, type TarFormat } from './decompress.ts';
import type { FileTree } from './file-tree.ts';
import type { ArchiveFormat } from './module-location.ts';
import type { PackageLimits } from './package-limits.ts';
import { readTar } from './tar-reader.ts';
import { save } from './work-files.ts';
import { readZip } from './zip-reader.ts';

/**
 * In the work directory, for what has to be there whole: a zip says at its end what is in it; and xz is unpacked for one
 * at a time, who may not keep others waiting by sending slowly.
 */
const ARCHIVE_FILE = 'archive';

export interface UnpackOptions {
  /** For what is needed on the way. */
  readonly directory: string;
  readonly limits: PackageLimits;
  /** Whom the archive comes from, for messages. */
  readonly host: string;
  readonly signal: AbortSignal;
}

/**
 * Unpacks an archive (of whatever format, where none is given) into a tree while it arrives, no faster than it can be put away. On success all of the body was
 * read, on failure it is destroyed; errors of the body pass as they are.
 *
 * @throws UpstreamInvalid for what is no such archive, is damaged, cut short or empty, holds what no package can hold,
 * or is over a limit
 * @throws UpstreamUnreachable when `signal` is aborted or the body ends before it should
 * @throws StorageFailed
 */
export async function unpackArchive(
  body: Readable,
  format: ArchiveFormat | undefined,
  tree: FileTree,
  options: UnpackOptions,
): Promise<void> {
  const { host, signal } = options;
  const giveUp = () => body.destroy(deadlineFailure(host, signal.reason));
  // Whoever iterates hears of errors; a body that fails while nobody does must not take the process along.
  body.on('error', () => {});
  signal.addEventListener('abort', giveUp, { once: true });
  try {
    if (signal.aborted) throw deadlineFailure(host, signal.reason);
    await unpackBody(limited(body, options), format, tree, options);
    if (tree.isEmpty) throw new UpstreamInvalid(host, 'has an archive without any files in it');
  } catch (error) {
    throw signal.aborted && !(error instanceof LarderError) ? deadlineFailure(host, error) : error;
  } finally {
    signal.removeEventListener('abort', giveUp);
    body.destroy();
  }
}

async function unpackBody(
  chunks: AsyncGenerator<Buffer>,
  format: ArchiveFormat | undefined,
  tree: FileTree,
  options: UnpackOptions,
): Promise<void> {
  const { head, whole } = await withHead(chunks);
  const found = formatOf(head);
  if (!found || (format !== undefined && format !== found)) {
    const wanted = format === undefined ? 'an' : `a ${format}`;
    throw new UpstreamInvalid(options.host, `has ${describe(head)} where ${wanted} archive should be`);
  }
  const file = join(options.directory, ARCHIVE_FILE);
  switch (found) {
    case 'zip':
      await save(whole, file);
      await readZip(file, tree, options.signal);
      return;
    case 'tar.xz':
      await save(whole, file);
      await readTar(unpacked(saved(file), found, options), tree);
      return;
    default:
      await readTar(unpacked(whole, found, options), tree);
      // Checksums are of whole bodies, and what is unpacked may end before the body does.
      for await (const _ of whole);
  }
}

/** The body, in an iteration that outlives whoever stops reading from it. */
async function* limited(body: Readable, { host, limits }: UnpackOptions): AsyncGenerator<Buffer> {
  let bytes = 0;
  try {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > limits.download) {
        throw new UpstreamInvalid(host, `has an archive of more than ${limits.download} bytes`, {
          hint: 'If it is meant to be that large, raise modules.limits.download.',
        });
      }
      yield chunk;
    }
  } catch (error) {
    if (error instanceof LarderError) throw error;
    throw new UpstreamUnreachable(host, 'connection', 'cut the connection before the archive was complete', {
      cause: error,
    });
  }
}

/** Looks at the first bytes without taking them away. Reading `whole` goes on where reading it was left. */
async function withHead(chunks: AsyncGenerator<Buffer>): Promise<{ head: Buffer; whole: AsyncIterable<Uint8Array> }> {
  const first: Buffer[] = [];
  let bytes = 0;
  while (bytes < SIGNATURE_BYTES) {
    const { done, value } = await chunks.next();
    if (done) break;
    first.push(value);
    bytes += value.length;
  }
  const next = async (): Promise<IteratorResult<Uint8Array>> => {
    const chunk = first.shift();
    return chunk ? { done: false, value: chunk } : chunks.next();
  };
  const head = Buffer.concat(first).subarray(0, SIGNATURE_BYTES);
  return { head, whole: { [Symbol.asyncIterator]: () => ({ next }) } };
}

/** What is wrong with it is said in the words of the domain. */
async function* unpacked(
  source: AsyncIterable<Uint8Array>,
  format: TarFormat,
  { host, signal }: UnpackOptions,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of decompress(source, format, signal)) {
      signal.throwIfAborted();
      yield chunk;
    }
  } catch (error) {
    if (error instanceof LarderError || signal.aborted) throw error;
    throw new UpstreamInvalid(host, `has a ${format} archive that cannot be unpacked: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

async function* saved(file: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(file);
  } catch (error) {
    throw new StorageFailed('unpacking a module', error);
  }
}
