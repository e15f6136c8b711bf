import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import { UpstreamInvalid } from '../errors.ts';
import { type Headers, transportFailure } from './failures.ts';

const decoders: Readonly<Record<string, (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>> = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
};

/** Encodings that leave the bytes as they are; the last one is a leftover of uploads to S3. */
const PLAIN_ENCODINGS: ReadonlySet<string> = new Set(['', 'identity', 'aws-chunked']);

/** Beyond this, a new connection is cheaper. */
const MAX_DRAINED_BYTES = 64 * 1024;

export function contentLength(headers: Headers): number | undefined {
  const text = headers['content-length'];
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

export function isPlain(headers: Headers): boolean {
  return PLAIN_ENCODINGS.has(encodingOf(headers));
}

/** A page for people, where a file was asked for: a captive portal, or words about an error. */
export function isPage(headers: Headers): boolean {
  return /^\s*text\/html\b/i.test(headers['content-type'] ?? '');
}

/**
 * Reads a small answer whole. Compressed ones (asked for or not) are unpacked, within the same limit.
 * @throws UpstreamInvalid beyond `maxBytes`, or when it cannot be unpacked; the stream's own errors otherwise
 */
export async function readWhole(body: Readable, headers: Headers, url: URL, maxBytes: number): Promise<Buffer> {
  const tooLarge = () => new UpstreamInvalid(url.host, `answered with more than ${maxBytes} bytes for ${url.pathname}`);
  if ((contentLength(headers) ?? 0) > maxBytes) {
    discard(body);
    throw tooLarge();
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) {
      discard(body);
      throw tooLarge();
    }
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  if (isPlain(headers)) return bytes;

  const encoding = encodingOf(headers);
  const decode = decoders[encoding];
  if (!decode) throw new UpstreamInvalid(url.host, `answered in the encoding ${encoding}, which it was not asked for`);
  try {
    return await decode(bytes, { maxOutputLength: maxBytes });
  } catch (cause) {
    if ((cause as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge();
    throw new UpstreamInvalid(url.host, `answered with damaged ${encoding} data for ${url.pathname}`, { cause });
  }
}

/** Throws a body away: nobody will look at it, or at how it ends. */
export function discard(body: Readable): void {
  body.on('error', () => {});
  body.destroy();
}

/** Reads the little that is left of an answer nobody wants, so that its connection can be used again. Not waited for. */
export function drain(body: { dump(options: { limit: number }): Promise<void> }): void {
  body.dump({ limit: MAX_DRAINED_BYTES }).catch(() => {});
}

/**
 * The same body, its failures told in the words of the domain. Changed in place: one more stream in between would
 * cost half the throughput.
 */
export function translated(body: Readable, url: URL, signal: AbortSignal): Readable {
  const destroy = body.destroy.bind(body);
  body.destroy = (error) => destroy(error ? transportFailure(url, error, signal) : undefined);
  // Until somebody listens, an error must not end the process; whoever reads afterwards still gets it.
  return body.on('error', () => {});
}

/** The same body; whoever counts is told of each piece that comes in. Changed in place, for the same reason. */
export function counted(body: Readable, tell: (bytes: number) => void): void {
  // The first of it may have come together with the headers.
  if (body.readableLength > 0) tell(body.readableLength);
  const push = body.push.bind(body);
  body.push = (chunk: Uint8Array | null, ...rest: []) => {
    if (chunk) tell(chunk.length);
    return push(chunk, ...rest);
  };
}

function encodingOf(headers: Headers): string {
  return (headers['content-encoding'] ?? '').trim().toLowerCase();
}
