import type { Request, RequestHandler } from 'express';
import { pathOf } from './error-handler.ts';
import { publicAddress } from './public-address.ts';
import { RequestError } from './request-error.ts';

/** What comes first in the path of a mirror request: a hostname, never a plain word. */
const LIKE_A_HOSTNAME = /^[^/]*[.:][^/]*$/;

/** What a mirror request ends in. */
const LIKE_A_MIRROR_FILE = /\.(?:json|zip)$/;

/** The end of the road for paths that nobody serves. Says what was probably meant, in JSON. */
export function notFound({ publicUrl }: { publicUrl?: string | undefined }): RequestHandler {
  return (req) => {
    throw new RequestError(404, 'NOT_FOUND', 'nothing is served under this path', { hint: hintFor(req, publicUrl) });
  };
}

function hintFor(req: Request, publicUrl: string | undefined): string {
  const origin = publicAddress(req, publicUrl) ?? '';
  const base = `the base URL of the mirror is ${origin}/providers/ (with the slash at its end)`;
  const [first = '', ...rest] = pathOf(req.originalUrl).slice(1).split('/').map(decodeURIComponent);

  if (first === 'providers') {
    const parts = rest.filter((part) => part !== '');
    const [namespace, type, file] = parts;
    if (parts.length === 3 && namespace && type && file && LIKE_A_MIRROR_FILE.test(file)) {
      return `the hostname of the registry is missing: ask for /providers/HOSTNAME/NAMESPACE/TYPE/FILE; ${base}`;
    }
    return `${base}; below it are HOSTNAME/NAMESPACE/TYPE/index.json, VERSION.json and the archives`;
  }
  if (LIKE_A_HOSTNAME.test(first) && LIKE_A_MIRROR_FILE.test(rest.at(-1) ?? '')) {
    return `${base}: without that slash the clients drop the last part of it`;
  }
  return `${base}; ${origin}/ shows how to point a CLI at it`;
}
