import express, { type Request, type Response } from 'express';
import { RequestError } from './request-error.ts';

const MIB = 1024 * 1024;

/** What there is to say of one kind of body. */
export interface TextBody {
  /** Bytes, in whole MiB. */
  readonly limit: number;
  /** What to send instead of nothing. */
  readonly hint: string;
  /** What to do with one that is too long. */
  readonly tooLongHint?: string;
}

/**
 * The body of a request as text, whatever media type it names. A byte order mark stays.
 * @throws RequestError 413 when it is longer than that, 415 when it is compressed, 400 when there is none or it is not UTF-8
 */
export async function readText(req: Request, res: Response, wanted: TextBody): Promise<string> {
  const parse = express.raw({ limit: wanted.limit, inflate: false, type: () => true });
  await new Promise<void>((resolve, reject) => {
    parse(req, res, (error?: unknown) => (error === undefined ? resolve() : reject(inOurWords(error, wanted))));
  });
  const body = req.body as unknown;
  if (!Buffer.isBuffer(body) || body.length === 0) {
    throw new RequestError(400, 'INVALID_REQUEST', 'the request has no body', { hint: wanted.hint });
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    throw new RequestError(400, 'INVALID_REQUEST', 'the body is not UTF-8');
  }
}

/** The parser's errors carry a status; their messages may quote what was sent. */
function inOurWords(error: unknown, { limit, tooLongHint }: TextBody): RequestError {
  const { status } = error as { status?: unknown };
  if (status === 413) {
    return new RequestError(413, 'BODY_TOO_LARGE', `the body is longer than ${limit / MIB} MiB`, { hint: tooLongHint });
  }
  if (status === 415) {
    return new RequestError(415, 'UNSUPPORTED_MEDIA_TYPE', 'the body must be sent as it is, not compressed');
  }
  return new RequestError(400, 'INVALID_REQUEST', 'the body broke off, or could not be read');
}
