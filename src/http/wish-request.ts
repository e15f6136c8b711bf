import type { Request, Response } from 'express';
import { z } from 'zod';
import { normalisePath } from '../configuration/configuration-files.ts';
import { jsonName } from '../configuration/file-kinds.ts';
import type { Wish } from '../mirror/wanted.ts';
import { parseJson } from './json-request.ts';
import { platformList, platformQuery } from './platform-query.ts';
import { RequestError } from './request-error.ts';
import { parseRequest } from './request-schema.ts';
import { readText } from './text-request.ts';

/** Bytes of a request with all files in it. Hundreds of directories of configuration have less. */
const MAX_BODY = 16 * 1024 * 1024;
/** Of one wish. */
const MAX_FILES = 10_000;
const MAX_PATH_LENGTH = 1_024;

const FORMS =
  'send {"files":[{"path":"main.tf","text":"…"}],"platforms":["linux_amd64"]}, a warm list ' +
  '({"providers":["hashicorp/random@~> 3.0"]}) or a configuration in JSON, or any one file with ?file=NAME';

const NAMED =
  'a file that is another thing, or is to be read as far as it can be, is sent with its name: ?file=main.tf';

const BODY = {
  limit: MAX_BODY,
  hint: FORMS,
  tooLongHint: 'send the directories of configuration one after another',
};

const client = z.enum(['opentofu', 'terraform']);
const path = z
  .string()
  .min(1)
  .max(MAX_PATH_LENGTH)
  .refine((text) => !text.includes('\0'), 'this is no path');

const query = z.object({
  file: path.optional(),
  platform: platformQuery,
  client: client.optional(),
});

const files = z.strictObject({
  files: z
    .array(z.strictObject({ path, text: z.string() }))
    .min(1)
    .max(MAX_FILES),
  platforms: platformList.optional(),
  client: client.optional(),
});

/**
 * The wish in a request, in any of its forms: files as JSON; one file as it is, with its name as `?file=`; the JSON of a
 * warm list or of a configuration itself. `?platform=` (repeated) and `?client=` go with each of them, and what the
 * JSON says of both goes before.
 * @param defaultClient where neither names one
 * @throws RequestError 413 when it is longer than 16 MiB, 415 when it is compressed, or neither JSON nor named; 400 when
 *   it has none of these forms
 */
export async function readWish(req: Request, res: Response, defaultClient: Wish['client'] = 'opentofu'): Promise<Wish> {
  const asked = parseRequest(query, req.query);
  const base = { platforms: asked.platform, client: asked.client ?? defaultClient };
  if (asked.file === undefined && !req.is('application/json')) {
    throw new RequestError(415, 'UNSUPPORTED_MEDIA_TYPE', 'the request must have a body of JSON, or name its file', {
      hint: 'send JSON with Content-Type: application/json, any other file with its name: ?file=.terraform.lock.hcl',
    });
  }
  const text = await readText(req, res, BODY);
  if (asked.file !== undefined) return { ...base, files: [{ path: asked.file, text }] };

  const document = parseJson(text, NAMED);
  if (isObject(document) && Object.hasOwn(document, 'files')) {
    const given = parseRequest(files, document);
    refuseTwice(given.files.map((file) => normalisePath(file.path)));
    return {
      files: given.files,
      platforms: given.platforms ?? base.platforms,
      client: given.client ?? base.client,
    };
  }
  return { ...base, files: [{ path: nameFor(document), text }] };
}

function nameFor(document: unknown): string {
  const name = jsonName(document);
  if (name !== undefined) return name;
  throw new RequestError(400, 'INVALID_REQUEST', 'the body says nothing of what is wanted', { hint: FORMS });
}

function refuseTwice(paths: readonly string[]): void {
  const seen = new Set<string>();
  for (const [index, one] of paths.entries()) {
    if (seen.has(one)) {
      throw new RequestError(400, 'INVALID_REQUEST', `files.${index}.path: there is a file of this path already`);
    }
    seen.add(one);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
