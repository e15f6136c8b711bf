import express, { type Request, type Response } from 'express';
import { RequestError } from './request-error.ts';

/** Bytes. What operators send is small; lists of what to fetch are the longest of it. */
const MAX_BODY = 1024 * 1024;

const parseBody = express.json({ limit: MAX_BODY, inflate: false, strict: false });

/**
 * The JSON in the body of a request.
 * @throws RequestError 415 when it says to be something else, 413 when it is longer than 1 MiB, 400 when it is no JSON
 */
export async function readJson(req: Request, res: Response): Promise<unknown> {
  if (!req.is('application/json')) {
    throw new RequestError(415, 'UNSUPPORTED_MEDIA_TYPE', 'the request must have a body of JSON', {
      hint: 'send it with Content-Type: application/json',
    });
  }
  await new Promise<void>((resolve, reject) => {
    parseBody(req, res, (error?: unknown) => (error === undefined ? resolve() : reject(inOurWords(error))));
  });
  return req.body as unknown;
}

/** The parser's errors carry a status; their messages may quote what was sent. */
function inOurWords(error: unknown): RequestError {
  const { status } = error as { status?: unknown };
  if (status === 413) return new RequestError(413, 'BODY_TOO_LARGE', 'the body is longer than 1 MiB');
  if (status === 415) {
    return new RequestError(415, 'UNSUPPORTED_MEDIA_TYPE', 'the body must be plain UTF-8 JSON, not compressed');
  }
  return new RequestError(400, 'INVALID_JSON', 'the body is not valid JSON');
}
