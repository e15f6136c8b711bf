import type { IncomingMessage } from 'node:http';
import type { ErrorRequestHandler, Request, Response } from 'express';
import {
  hasCode,
  type LarderError,
  type StorageFailed,
  type UnreachableReason,
  type UpstreamUnreachable,
} from '../errors.ts';
import type { Logger } from '../logger.ts';
import { RequestError } from './request-error.ts';
import { notesOf } from './respond.ts';

/** How an error is told to a client. */
export interface ErrorAnswer {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly hint?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Clients wait as long as `Retry-After` says, however long: they must never be sent away for minutes. */
const MIN_RETRY_AFTER_S = 1;
const MAX_RETRY_AFTER_S = 5;

const UNREACHABLE_STATUS: Readonly<Record<UnreachableReason, number>> = {
  connection: 502,
  failing: 502,
  timeout: 504,
  busy: 503,
  sealed: 503,
};

/**
 * From error codes to statuses: the only place that knows both.
 *
 * 404 is reserved for what does not exist, because clients then go on to their next source. An upstream that refuses
 * *our* credentials is a 502: told 401 or 403, the client would blame the credentials it has for Larder.
 */
const STATUS: Readonly<Record<string, (error: never) => number>> = {
  INVALID_ADDRESS: () => 400,
  NOT_FOUND: () => 404,
  HOST_NOT_ALLOWED: () => 404,
  // Not 403: the clients would blame their credentials for this mirror.
  ADDRESS_EXCLUDED: () => 404,
  // The clients show the reason of this status, and do not ask again.
  NOT_MIRRORED: () => 501,
  UPSTREAM_UNREACHABLE: (error: UpstreamUnreachable) => UNREACHABLE_STATUS[error.reason] ?? 502,
  UPSTREAM_REFUSED: () => 502,
  UPSTREAM_INVALID: () => 502,
  INTEGRITY_MISMATCH: () => 502,
  STORAGE_FAILED: (error: StorageFailed) => (error.full ? 507 : error.busy ? 503 : 500),
  UNAUTHENTICATED: () => 401,
  TOO_MANY_ATTEMPTS: () => 429,
  FORBIDDEN: () => 403,
  LINK_EXPIRED: () => 403,
  LINK_NOT_VALID: () => 403,
};

const REDIS_HINT =
  'jobs under way go on, and cannot be looked at; what is stored is served all the same; /readyz says under "metadata" when it is back';

/** Archives never depend on Redis; what does is in its hands, and is over when Redis is back. */
function isOfRedis(error: unknown): error is StorageFailed {
  return hasCode(error, 'STORAGE_FAILED') && (error as Partial<StorageFailed>).store === 'redis';
}

/** Looks an error up in the table. What is not in it is our own fault, and its details are nobody's business. */
export function answerFor(error: unknown): ErrorAnswer {
  if (error instanceof RequestError) return error;
  if (isOfRedis(error)) {
    const message = `Redis does not answer as it should (${error.message}); no job can be begun until it does`;
    return { status: 503, code: 'REDIS_UNAVAILABLE', message, hint: REDIS_HINT };
  }
  const named = String((error as { code?: unknown } | null)?.code);
  const status = Object.hasOwn(STATUS, named) ? STATUS[named] : undefined;
  if (status) {
    const { code, message, hint } = error as LarderError;
    return { status: status(error as never), code, message, hint, headers: headersFor(error as LarderError) };
  }
  // Express and its router speak in `status`; the only ones they raise here are about undecodable paths.
  if (error instanceof URIError || (error as { status?: unknown } | null)?.status === 400) {
    return { status: 400, code: 'BAD_REQUEST', message: 'the path is not valid percent-encoding' };
  }
  return { status: 500, code: 'INTERNAL', message: 'something went wrong inside Larder; its log says what' };
}

/** Answers with JSON. Whatever headers a handler had prepared for the answer that failed are taken back. */
export function sendError(req: IncomingMessage, res: Response, answer: ErrorAnswer): void {
  const notes = notesOf(res);
  notes.outcome = answer.code;
  for (const name of res.getHeaderNames()) {
    if (name !== 'x-request-id' && name !== 'connection') res.removeHeader(name);
  }
  const body = Buffer.from(
    JSON.stringify({
      errors: [answer.message],
      code: answer.code,
      ...(answer.hint === undefined ? {} : { hint: answer.hint }),
      requestId: notes.requestId,
    }),
  );
  res.writeHead(answer.status, {
    ...answer.headers,
    'Content-Type': 'application/json',
    'Content-Length': body.length,
    'Cache-Control': 'no-store',
  });
  res.end(req.method === 'HEAD' ? undefined : body);
}

/** The last handler of the application: every error thrown or rejected on the way ends here. */
export function errorHandler({ logger }: { logger: Logger }): ErrorRequestHandler {
  return (error: unknown, req, res, _next) => {
    const answer = takeDown(error, req, res, logger);
    if (res.destroyed) return;
    // Half an answer is out: only a broken connection tells the client that the rest is missing.
    if (res.headersSent) res.destroy();
    else sendError(req, res, answer);
  };
}

/** Logs an error and notes it for the audit log. @returns how it is to be told */
export function takeDown(error: unknown, req: Request, res: Response, logger: Logger): ErrorAnswer {
  const answer = answerFor(error);
  notesOf(res).reason = reasonOf(error, answer);
  const fields = {
    requestId: notesOf(res).requestId,
    method: req.method,
    path: loggedPath(req.originalUrl),
    error,
    // Clients hide it behind a status: whoever can do something about it may see nothing but the log.
    ...(answer.hint !== undefined && { hint: answer.hint }),
  };
  if (answer.code === 'INTERNAL') {
    // The stack at every level: this one is a defect, and it may not come again.
    logger.error('request failed unexpectedly', {
      ...fields,
      stack: error instanceof Error ? error.stack : undefined,
    });
  } else if (answer.status >= 500) {
    logger.warn('request failed', fields);
  } else {
    logger.debug('request refused', fields);
  }
  return answer;
}

/** What is not told to the client is in the cause. */
function reasonOf(error: unknown, answer: ErrorAnswer): string {
  const cause = answer.status === 403 ? (error as Error).cause : undefined;
  return cause instanceof Error ? `${answer.message}: ${cause.message}` : answer.message;
}

/** The path of a request target, without the query, which may hold secrets. */
export function pathOf(target: string): string {
  const end = target.indexOf('?');
  return end === -1 ? target : target.slice(0, end);
}

/** What a capability ends in: its signature. */
const SIGNED = /(?:\.|%2e)[\w-]{43}(?![\w-])/i;

/**
 * A request target as logs may show it: without the query, and without what makes a download link good, which is as
 * good as ever when the link was only put together wrongly (`/mirror/get/…`, `/get//…`).
 */
export function loggedPath(target: string): string {
  const path = pathOf(target).replace(/^\/get\/[^/]*/, '/get/…');
  return path
    .split('/')
    .map((segment) => (SIGNED.test(segment) ? '…' : segment))
    .join('/');
}

function headersFor(error: LarderError): Record<string, string> {
  if (error.code === 'UNAUTHENTICATED') return { 'WWW-Authenticate': 'Bearer realm="larder", Basic realm="larder"' };
  if (error.code === 'TOO_MANY_ATTEMPTS') return { 'Retry-After': String(MAX_RETRY_AFTER_S) };
  const { reason, retryAfterMs, busy } = error as { reason?: string; retryAfterMs?: number; busy?: boolean };
  if (reason !== 'busy' && !busy) return {};
  const seconds = Math.ceil((retryAfterMs ?? 0) / 1000);
  return { 'Retry-After': String(Math.min(MAX_RETRY_AFTER_S, Math.max(MIN_RETRY_AFTER_S, seconds || 0))) };
}
