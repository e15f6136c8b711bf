import type { Readable } from 'node:stream';
import type { Request, Response } from 'express';
import type { Sha256 } from '../address/hash.ts';
import type { ReadableArchive } from '../cache/readable-archive.ts';
import type { ArchiveDescription } from '../mirror/provider-mirror.ts';
import type { ArchiveBody } from '../store/archive-body.ts';
import type { ByteRange } from '../store/archive-store.ts';
import { parseRange } from './byte-range.ts';
import { RequestError } from './request-error.ts';
import { matchesEtag, notesOf } from './respond.ts';

/** Where the archive of a request comes from. */
export interface ArchiveDoor {
  /** `application/zip` unless told. */
  readonly mediaType?: string;
  /** Pulls nothing. */
  describe(): Promise<ArchiveDescription>;
  /** May begin a download. */
  open(): Promise<ReadableArchive>;
}

/**
 * Answers HEAD and GET for an archive (RFC 9110: conditions, ranges), never with a Content-Encoding: the clients
 * compare bytes. HEAD, and GET of what the client already has, pull nothing.
 */
export async function sendArchive(req: Request, res: Response, door: ArchiveDoor): Promise<void> {
  const condition = req.headers['if-none-match'];
  if (req.method === 'HEAD' || condition !== undefined) {
    const described = await door.describe();
    if (described.sha256 !== undefined && matchesEtag(condition, etagOf(described.sha256))) {
      return sendNotModified(res, door, described);
    }
    if (req.method === 'HEAD') return sendHead(res, door, described);
  }

  const archive = await door.open();
  if (matchesEtag(condition, etagOf(archive.sha256))) return sendNotModified(res, door, archive);
  const range = wantedRange(req, archive);
  if (range === 'unsatisfiable') {
    throw new RequestError(416, 'RANGE_NOT_SATISFIABLE', `the archive has ${archive.size} bytes`, {
      headers: { 'Content-Range': `bytes */${archive.size}` },
    });
  }
  // The client may have gone away while a download was beginning.
  if (res.destroyed) return;
  notesOf(res).outcome = archive.state;
  const link = await archive.link?.();
  if (link !== undefined) return sendElsewhere(res, link);
  const body = await (range === 'whole' ? archive.stream() : archive.stream(range));
  await sendBody(res, body, () => {
    setArchiveHeaders(res, door, archive);
    if (range === 'whole') {
      if (archive.size !== undefined) res.setHeader('Content-Length', archive.size);
      return archive.size;
    }
    const length = range.end - range.start + 1;
    res.status(206);
    res.setHeader('Content-Range', `bytes ${range.start}-${range.end}/${archive.size}`);
    res.setHeader('Content-Length', length);
    return length;
  });
}

/**
 * Only GET is sent on, for which the link was signed: some clients send HEAD first, and that is answered here. The link
 * is a capability, and expires: nobody may keep it.
 */
function sendElsewhere(res: Response, link: string): void {
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('Location', link);
  res.status(307).end();
}

/** The length when it is known and no length otherwise: a client told 0 keeps an empty file and never asks again. */
function sendHead(res: Response, door: ArchiveDoor, described: ArchiveDescription): void {
  setArchiveHeaders(res, door, described);
  if (described.size) res.setHeader('Content-Length', described.size);
  notesOf(res).outcome = described.storedAt ? 'stored' : 'absent';
  res.status(200).end();
}

function sendNotModified(res: Response, door: ArchiveDoor, described: ArchiveDescription): void {
  setArchiveHeaders(res, door, described);
  // They describe a body, and there is none.
  res.removeHeader('Content-Type');
  res.removeHeader('Accept-Ranges');
  notesOf(res).outcome = 'not-modified';
  res.status(304).end();
}

function setArchiveHeaders(
  res: Response,
  { mediaType = 'application/zip' }: ArchiveDoor,
  { size, sha256, storedAt }: ArchiveDescription,
): void {
  res.setHeader('Content-Type', mediaType);
  res.setHeader('Cache-Control', `${notesOf(res).isPersonal ? 'private' : 'public'}, max-age=31536000, immutable`);
  if (sha256 !== undefined) res.setHeader('ETag', etagOf(sha256));
  if (storedAt !== undefined) res.setHeader('Last-Modified', storedAt.toUTCString());
  if (size) res.setHeader('Accept-Ranges', 'bytes');
}

function etagOf(sha256: Sha256): string {
  return `"${sha256}"`;
}

/** Ranges are served of archives of known size only, and, with `If-Range`, only of the very one the client began with. */
function wantedRange(req: Request, { size, sha256, storedAt }: ReadableArchive): ByteRange | 'whole' | 'unsatisfiable' {
  const condition = req.get('if-range')?.trim();
  const same = condition === undefined || condition === etagOf(sha256) || condition === storedAt?.toUTCString();
  return size && same ? parseRange(req.headers.range, size) : 'whole';
}

/**
 * Sends a stream, beginning the answer only when its first bytes are there, so that a failure before them can still be
 * answered in words. After that a failure breaks the connection off: the answer must not look complete. The client's
 * going away destroys the stream, and nothing else.
 *
 * @param begin sets status and headers; returns how many bytes are to come, when that is known
 */
async function sendBody(res: Response, body: ArchiveBody, begin: () => number | undefined): Promise<void> {
  const abandon = () => body.destroy();
  res.once('close', abandon);
  // For as long as the stream lives: it may fail at a moment when nobody is waiting for it.
  body.on('error', () => {});
  try {
    if (res.destroyed) return;
    await firstBytes(body);
    if (res.destroyed) return;
    const expected = begin();
    const sent = await copy(body, res);
    if (res.destroyed) return;
    // Too few bytes would leave the client waiting for the rest on a connection that looks alive.
    if (expected !== undefined && sent !== expected) res.destroy();
    else res.end();
  } finally {
    res.off('close', abandon);
    body.destroy();
  }
}

/** Resolves when there is something to read or the stream is over. @throws what the stream failed with */
function firstBytes(body: Readable): Promise<void> {
  if (body.errored) return Promise.reject(body.errored);
  if (body.readableLength > 0 || body.readableEnded || body.closed) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const settle = () => {
      for (const event of SETTLING) body.off(event, settle);
      if (body.errored) reject(body.errored);
      else resolve();
    };
    for (const event of SETTLING) body.on(event, settle);
  });
}

/** `close` alone is a stream that was destroyed without an error: the client went away. */
const SETTLING = ['readable', 'end', 'close', 'error'] as const;

/**
 * Copies until the stream ends or the answer is closed; resolves to the number of bytes. Leaves ending to the caller.
 * @throws what the stream failed with
 */
function copy(body: ArchiveBody, res: Response): Promise<number> {
  return new Promise((resolve, reject) => {
    if (body.errored) return reject(body.errored);
    let sent = 0;
    body.on('data', (chunk: Buffer) => {
      sent += chunk.length;
    });
    body.once('error', reject);
    body.once('close', () => resolve(sent));
    body.once('end', () => resolve(sent));
    if (body.release) sendAndRelease(body, res);
    else body.pipe(res, { end: false });
  });
}

/** A chunk at a time, each given back once it is sent. */
function sendAndRelease(body: ArchiveBody, res: Response): void {
  body.on('data', (chunk: Buffer) => {
    body.pause();
    res.write(chunk, (error) => {
      // Of an answer that broke off nobody can say what still looks at the memory.
      if (error) return;
      body.release?.(chunk);
      body.resume();
    });
  });
}
