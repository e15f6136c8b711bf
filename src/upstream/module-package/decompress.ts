import { pipeline, Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import { setImmediate as turn } from 'node:timers/promises';
import { createGunzip } from 'node:zlib';
import xz from 'xz-decompress';
import { ByteReader } from './byte-reader.ts';
import { unpackBzip2 } from './bzip2.ts';
import type { ArchiveFormat } from './module-location.ts';

export type TarFormat = Exclude<ArchiveFormat, 'zip'>;

/** Bytes. */
const CHUNK_BYTES = 64 * 1024;
/** What is unpacked on this very thread lets others have a turn after so many bytes: some milliseconds. */
const BYTES_PER_TURN = 1024 * 1024;

const XZ_ERRORS: Readonly<Record<string, string>> = {
  4: 'it needs too much memory',
  6: 'it uses a filter or a checksum that is not supported',
  7: 'it is damaged',
  8: 'it is cut short, or something follows it',
};

/**
 * Unpacks a stream, as far and as fast as what comes out is taken. What is wrong with it is an Error in plain words;
 * errors of `source` pass as they are, and so does the reason of `signal`.
 */
export function decompress(
  source: AsyncIterable<Uint8Array>,
  format: TarFormat,
  signal: AbortSignal,
): AsyncIterable<Uint8Array> {
  switch (format) {
    case 'tar.gz':
      return gunzipped(source);
    case 'tar.xz':
      return politely(unpackXz(source, signal));
    case 'tar.bz2':
      return politely(unpackBzip2(new ByteReader(source)));
  }
}

/** All members of it; the checksums are compared. Zeros after the last one, as tapes have them, are let be. */
async function* gunzipped(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  // Errors of the source come out of the iteration below: there is nothing to do about them here.
  pipeline(Readable.from(source, { objectMode: false }), gunzip, () => {});
  yield* gunzip;
}

/**
 * The package unpacks one stream at a time in the whole process and unlocks itself at the end of each: a stream that
 * is given up has to be cancelled, and not before its turn has come.
 */
async function* unpackXz(source: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const reader = new xz.XzReadableStream(webStream(source)).getReader();
  let giveUp = () => {};
  const impatience = new Promise<never>((_, reject) => {
    giveUp = () => reject(signal.reason);
  });
  impatience.catch(() => {});
  signal.addEventListener('abort', giveUp, { once: true });
  let reading: Promise<unknown> = Promise.resolve();
  try {
    for (;;) {
      const read = reader.read();
      reading = read;
      const { done, value } = await Promise.race([read, impatience]);
      if (done) return;
      yield value;
    }
  } catch (error) {
    throw inWords(error);
  } finally {
    signal.removeEventListener('abort', giveUp);
    void reading.then(() => reader.cancel()).catch(() => {});
  }
}

/** The package passes the numbers of xz-embedded on, and stumbles over a stream without any bytes. */
function inWords(error: unknown): unknown {
  if (error instanceof TypeError) return new Error('it is cut short', { cause: error });
  const number = /^get_next_output failed with error code (\d+)$/.exec(
    error instanceof Error ? error.message : '',
  )?.[1];
  if (number === undefined) return error;
  return new Error(XZ_ERRORS[number] ?? `it is damaged (${number})`, { cause: error });
}

/** Unlike `Readable.toWeb` it reads nothing ahead, and passes errors as they are. */
function webStream(source: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const chunks = source[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
    },
    { highWaterMark: 0 },
  );
}

async function* politely(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.length;
    if (bytes >= BYTES_PER_TURN) {
      bytes = 0;
      await turn();
    }
    yield chunk;
  }
}
