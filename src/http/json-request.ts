import type { Request, Response } from 'express';
import { RequestError } from './request-error.ts';
import { readText } from './text-request.ts';

/** Bytes. What operators send is small; lists of what to fetch are the longest of it. */
const MAX_BODY = 1024 * 1024;

/**
 * The JSON in the body of a request.
 * @throws RequestError 415 when it says to be something else or is compressed, 413 when it is longer than 1 MiB, 400 when
 *   it is no JSON
 */
export async function readJson(req: Request, res: Response): Promise<unknown> {
  if (!req.is('application/json')) {
    throw new RequestError(415, 'UNSUPPORTED_MEDIA_TYPE', 'the request must have a body of JSON', {
      hint: 'send it with Content-Type: application/json',
    });
  }
  return parseJson(await readText(req, res, { limit: MAX_BODY, hint: 'send JSON' }));
}

/** @throws RequestError 400; the message does not quote what was sent */
export function parseJson(text: string, hint?: string): unknown {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch {
    throw new RequestError(400, 'INVALID_JSON', 'the body is not valid JSON', { hint });
  }
}
