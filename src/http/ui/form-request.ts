import express, { type Request, type Response } from 'express';
import { RequestError } from '../request-error.ts';

/** Bytes of a form with all its files. Hundreds of directories of configuration have less. */
const MAX_FORM = 16 * 1024 * 1024;
const MAX_SMALL_FORM = 64 * 1024;

const parseSmall = express.raw({ limit: MAX_SMALL_FORM, inflate: false, type: () => true });
const parseLarge = express.raw({ limit: MAX_FORM, inflate: false, type: () => true });

export interface FormFile {
  /** As the browser says it: a name, or with a directory also the way there. */
  readonly path: string;
  readonly bytes: Buffer;
}

export interface Form {
  /** The first value of this name; empty when there is none. */
  text(name: string): string;
  readonly files: readonly FormFile[];
}

/**
 * What was filled into a form, in either of the two encodings of browsers.
 * @throws RequestError 413 when it is too long, 415 for what is no form, 400 for one that is broken
 */
export async function readForm(req: Request, res: Response, options: { withFiles?: boolean } = {}): Promise<Form> {
  const contentType = req.headers['content-type'] ?? '';
  if (!/^(application\/x-www-form-urlencoded|multipart\/form-data)\b/i.test(contentType)) {
    throw new RequestError(415, 'UNSUPPORTED_MEDIA_TYPE', 'this takes what a form sends');
  }
  const parse = options.withFiles ? parseLarge : parseSmall;
  await new Promise<void>((resolve, reject) => {
    parse(req, res, (error?: unknown) => (error === undefined ? resolve() : reject(inOurWords(error, options))));
  });
  const body = req.body as unknown;
  const entries = await parsed(Buffer.isBuffer(body) ? body : Buffer.alloc(0), contentType);
  const texts = new Map<string, string>();
  const files: FormFile[] = [];
  for (const [name, value] of entries) {
    if (typeof value === 'string') {
      if (!texts.has(name)) texts.set(name, value);
    } else if (value.name !== '' || value.size > 0) {
      files.push({ path: value.name, bytes: Buffer.from(await value.arrayBuffer()) });
    }
  }
  return { text: (name) => texts.get(name) ?? '', files };
}

async function parsed(body: Buffer, contentType: string) {
  try {
    const answer = new globalThis.Response(body, { headers: { 'content-type': contentType } });
    return [...(await answer.formData())];
  } catch {
    throw new RequestError(400, 'INVALID_REQUEST', 'the form broke off, or could not be read');
  }
}

function inOurWords(error: unknown, { withFiles }: { withFiles?: boolean }): RequestError {
  const { status } = error as { status?: unknown };
  if (status === 413) {
    if (!withFiles) return new RequestError(413, 'BODY_TOO_LARGE', 'what was sent is longer than 64 KiB');
    return new RequestError(413, 'BODY_TOO_LARGE', 'what was sent is longer than 16 MiB', {
      hint: 'send the directories of configuration one after another',
    });
  }
  if (status === 415) {
    return new RequestError(415, 'UNSUPPORTED_MEDIA_TYPE', 'a form must be sent as it is, not compressed');
  }
  return new RequestError(400, 'INVALID_REQUEST', 'the form broke off, or could not be read');
}
