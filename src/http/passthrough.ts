import { type Request, type RequestHandler, type Response, Router } from 'express';
import { Hostname } from '../address/hostname.ts';
import { ModuleAddress } from '../address/module.ts';
import { UpstreamInvalid } from '../errors.ts';
import type { Destination, Passthrough } from '../mirror/passthrough.ts';
import type { Client } from './authenticate.ts';
import { Forwarding } from './forwarding.ts';
import { headersForClient, headersForUpstream } from './passed-headers.ts';
import { ReadAccess, type ReadAccessDeps } from './read-access.ts';
import { RequestError } from './request-error.ts';
import { allowOnly, refuseAmbiguousPath } from './request-guards.ts';
import { notesOf } from './respond.ts';
import { tokenHint } from './token-hint.ts';

export type PassthroughSource = Pick<Passthrough, 'find' | 'open'>;

const READING: readonly string[] = ['GET', 'HEAD'];
/** Where the client's own token decides. Not TRACE, which would show it what was sent. */
const ALL: readonly string[] = [...READING, 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
/** Their length has to be told in advance: the library takes a body without one for none, and sends it all the same. */
const WITH_LENGTH: ReadonlySet<string> = new Set(['DELETE', 'OPTIONS']);

/** Whatever upstream's pages hold: shown by a browser, they do nothing in Larder's name. */
const TAMED = [
  'Content-Security-Policy',
  "default-src 'none'; style-src 'unsafe-inline'; sandbox",
  'X-Content-Type-Options',
  'nosniff',
];

/**
 * `/HOST/…`: what the registry HOST offers besides what is mirrored (search, documentation, details, other versions of
 * its APIs), as it is. Answers are streamed and not kept. Upstream's errors are passed on, except that it refuses
 * Larder's own credentials: that is told as trouble, like at all other doors.
 *
 * Comes after the doors that have paths of their own.
 */
export function passthrough(
  deps: ReadAccessDeps & {
    readonly passthrough: PassthroughSource;
  },
): Router {
  const { passthrough: source, isForwarded = () => false } = deps;
  const access = new ReadAccess({ ...deps, hint: tokenHint });
  const forwarding = new Forwarding();
  const readingOnly = allowOnly(...READING);
  const anything = allowOnly(...ALL);
  const router = Router({ caseSensitive: true, strict: true });

  const checkMethod: RequestHandler = (req, res, next) => {
    const { hostname } = targetOf(req);
    const mayChange = (notesOf(res).client as Client).bearer !== undefined && isForwarded(hostname);
    (mayChange ? anything : readingOnly)(req, res, next);
  };

  const answer: RequestHandler = async (req, res) => {
    const startedAt = performance.now();
    const { hostname, path, query } = targetOf(req);
    refuseAmbiguousPath(path);
    refuseOddBody(req);
    const client = notesOf(res).client as Client;
    const destination = await source.find(hostname, path, client);
    admit(access, res, hostname, destination);
    const relayed = await source.open(destination, startedAt, req.method);
    req.headers = {
      ...headersForUpstream(req.headers),
      ...relayed.headers,
      host: destination.url.host,
    };
    req.url = destination.path + query;
    await forwarding.forward(req, res, relayed, (response) => {
      const status = response.statusCode ?? 0;
      if (!destination.isForwarded && (status === 401 || status === 403)) throw relayed.refusal(status);
      const { location } = response.headers;
      if (location !== undefined && relayed.holdsToken(location)) {
        throw new UpstreamInvalid(
          destination.url.host,
          'redirects to an address that holds the token it was asked with',
        );
      }
      if (status < 400) notesOf(res).outcome = 'passed-on';
      const here = location === undefined ? undefined : destination.locationHere(location);
      return [
        ...headersForClient(response),
        ...(here === undefined ? [] : ['Location', here]),
        ...cachingOf(response.headers['cache-control'], notesOf(res).isPersonal === true),
        ...TAMED,
      ];
    });
  };

  router.use(access.authenticate, checkMethod, answer);
  return router;
}

/** What upstream says, unless others must not have what this client was told. */
function cachingOf(given: string | undefined, isPersonal: boolean): string[] {
  if (!isPersonal) return given === undefined ? [] : ['Cache-Control', given];
  return ['Cache-Control', /\bno-store\b/i.test(given ?? '') ? 'private, no-store' : 'private, no-cache'];
}

function admit(access: ReadAccess, res: Response, hostname: Hostname, { address }: Destination): void {
  const what = 'passthrough';
  if (!address) access.admitWhole(res, hostname);
  else access.admit(res, address instanceof ModuleAddress ? { module: address, what } : { provider: address, what });
}

interface Target {
  readonly hostname: Hostname;
  /** Below the host, as it was written. */
  readonly path: string;
  /** With its question mark; empty without. */
  readonly query: string;
}

/** @throws InvalidAddress */
function targetOf({ url }: Request): Target {
  const [, host = '', path = '', query = ''] = /^\/([^/?]*)\/?([^?]*)(\?.*)?$/s.exec(url) ?? [];
  return { hostname: Hostname.parse(decodeURIComponent(host)), path, query };
}

/** Bodies that would reach upstream without anything to tell where they end: it would take them for further requests. */
function refuseOddBody({ method, headers }: Request): void {
  const length = headers['content-length'];
  const isChunked = headers['transfer-encoding'] !== undefined;
  if (READING.includes(method) && (isChunked || (length !== undefined && Number(length) !== 0))) {
    throw new RequestError(400, 'BAD_REQUEST', `a ${method} request with a body is not passed on`);
  }
  if (WITH_LENGTH.has(method) && isChunked) {
    throw new RequestError(411, 'LENGTH_REQUIRED', `a ${method} request with a body must say how long that is`);
  }
}
