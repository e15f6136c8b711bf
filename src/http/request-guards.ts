import type { RequestHandler } from 'express';
import { pathOf } from './error-handler.ts';
import { RequestError } from './request-error.ts';

/** Characters of a request target, query included. The longest legitimate one is a few hundred. */
const MAX_TARGET_LENGTH = 8 * 1024;

/** Letters, digits and what addresses are made of, no segment empty or beginning with a dot: nothing to look into. */
const PLAIN_PATH = /^(?:\/[\w+:~-][\w.+:~-]*)*\/?$/;

/**
 * Refuses, before any route sees them, targets that are no plain path: proxy requests, empty and dot segments in any
 * encoding, encoded separators and control characters, broken percent-encoding, absurd lengths.
 */
export const refuseUnsafeTargets: RequestHandler = (req, _res, next) => {
  const target = req.originalUrl;
  if (target.length > MAX_TARGET_LENGTH) {
    throw new RequestError(414, 'URI_TOO_LONG', `the request target is longer than ${MAX_TARGET_LENGTH} characters`);
  }
  if (!target.startsWith('/')) {
    throw new RequestError(400, 'NOT_A_PROXY', 'Larder is a mirror, not a forward proxy', {
      hint: PROXY_HINT,
    });
  }
  const path = pathOf(target);
  if (!PLAIN_PATH.test(path)) checkSegments(path);
  next();
};

/** What those need to hear who made Larder their HTTPS_PROXY. */
export const PROXY_HINT =
  'take Larder out of HTTP_PROXY and HTTPS_PROXY and name it in host blocks of the CLI configuration instead';

/** Lets only these methods through; others are told which there are. */
export function allowOnly(...methods: readonly string[]): RequestHandler {
  const allow = methods.join(', ');
  return (req, _res, next) => {
    if (methods.includes(req.method)) return next();
    throw new RequestError(405, 'METHOD_NOT_ALLOWED', `only ${methods.join(' and ')} are served here`, {
      headers: { Allow: allow },
    });
  };
}

/** As often as anybody on the way may take percent-encoding off. */
const MAX_DECODINGS = 4;

/**
 * Refuses a path that some server might read as another one, for paths that are passed on as they are: what looks like
 * dots or separators after decoding more than once, or to those who take `;` for the end of a segment.
 */
export function refuseAmbiguousPath(path: string): void {
  for (const segment of path.split('/')) {
    let text = segment;
    for (let round = 0; ; round++) {
      const name = text.split(';', 1)[0];
      if (
        name === '.' ||
        name === '..' ||
        /[/\\\p{Cc}]/u.test(text) ||
        /^https?:$/i.test(text) ||
        round > MAX_DECODINGS
      ) {
        throw new RequestError(400, 'INVALID_PATH', 'the path can be read in more than one way');
      }
      const decoded = onceDecoded(text);
      if (decoded === text) break;
      text = decoded;
    }
  }
}

/** Byte by byte: what is no percent-encoding stands for itself, whatever stands beside it. */
function onceDecoded(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function checkSegments(path: string): void {
  const invalid = (why: string) => new RequestError(400, 'INVALID_PATH', `the path ${why}`);
  if (!/^[\x21-\x7e]*$/.test(path)) throw invalid('holds characters that must be percent-encoded');
  const segments = path.slice(1).split('/');
  for (const [index, segment] of segments.entries()) {
    let decoded: string;
    try {
      decoded = decodeURIComponent(segment);
    } catch {
      throw invalid('is not valid percent-encoding');
    }
    if (decoded === '' && index < segments.length - 1) throw invalid('has an empty segment ("//")');
    if (decoded === '.' || decoded === '..') throw invalid('has a "." or ".." segment');
    if (/[/\\#\p{Cc}]/u.test(decoded)) throw invalid('holds a separator or control character inside a segment');
  }
}
