import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import type { Logger } from '../logger.ts';
import type { Span, Tracer } from '../tracer.ts';
import { type AuditTrail, type Exchange as Finished, recordExchange } from './audit-entry.ts';
import { loggedPath } from './error-handler.ts';
import { requestIdOf } from './request-id.ts';
import type { RequestMetrics } from './request-metrics.ts';
import { type AnswerNotes, notesOf } from './respond.ts';

/** Asked every few seconds by machines: of interest to nobody unless something is wrong with them. */
const HEALTH_PATHS: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);

/** Longer paths are cut in the log. */
const MAX_LOGGED_PATH = 300;

/** Where it is told what became of requests. */
export interface RequestLogDeps {
  readonly logger: Logger;
  readonly audit?: AuditTrail | undefined;
  readonly metrics?: { readonly requests: RequestMetrics } | undefined;
  /** Absent where nothing is traced. */
  readonly tracer?: Tracer | undefined;
}

/**
 * Gives every request an id (`X-Request-Id`: its own, if it brings one; also in error bodies) and writes one line once
 * its answer is over: `bytes` is what went over the connection, headers included; the outcome `aborted` means that the
 * answer did not get to its end, whoever broke it off. Queries are not logged, nor what makes a download link good. What
 * concerns the audit log goes there as well, every request is counted, and traced where that is wanted.
 */
export function accessLog(deps: RequestLogDeps): RequestHandler {
  return (req, res, next) => {
    const notes = notesOf(res);
    notes.requestId = requestIdOf(req.headers);
    res.setHeader('X-Request-Id', notes.requestId);
    logWhenOver(deps, req, res, notes, pathForLogs(req.originalUrl));
    next();
  };
}

/** The path of a request target, as it may stand in logs. */
export interface LoggedPath {
  readonly whole: string;
  /** No longer than a line can bear. */
  readonly cut: string;
}

export function pathForLogs(target: string): LoggedPath {
  const whole = loggedPath(target);
  return { whole, cut: whole.length > MAX_LOGGED_PATH ? `${whole.slice(0, MAX_LOGGED_PATH)}…` : whole };
}

/** @param path that of the request */
export function logWhenOver(
  { logger, audit, metrics, tracer }: RequestLogDeps,
  { socket, headers, method = '' }: IncomingMessage,
  res: ServerResponse,
  notes: AnswerNotes,
  path: LoggedPath,
): void {
  const startedAt = performance.now();
  const writtenBefore = socket.bytesWritten;
  // Nobody knows any more once the connection is closed.
  const remote = audit && socket.remoteAddress;
  if (tracer && !HEALTH_PATHS.has(path.whole)) notes.span = beginSpan(tracer, headers, method, path);
  res.once('close', () => {
    const ms = performance.now() - startedAt;
    const { requestId } = notes;
    const status = res.headersSent ? res.statusCode : undefined;
    const bytes = socket.bytesWritten - writtenBefore;
    const outcome = res.writableFinished ? notes.outcome : 'aborted';
    // Each written out: with spreads, what a request leaves behind is collected with the old only, which costs a tenth of the throughput.
    metrics?.requests.count({ path: path.whole, status, outcome, bytes, seconds: ms / 1000 });
    const client = notes.client?.isAnonymous === false ? notes.client.name : undefined;
    const fields = { requestId, method, path: path.cut, status, bytes, outcome, client, ms: Math.round(ms) };
    if (HEALTH_PATHS.has(path.whole)) logger.debug('request', fields);
    else if (logger.request) logger.request(fields);
    else logger.info('request', fields);
    if (audit) {
      recordExchange(audit, notes, { requestId, method, path: path.cut, status, bytes, outcome, remote });
    }
    notes.span?.end(spanOutcome({ requestId, status, outcome }));
  });
}

function beginSpan(tracer: Tracer, headers: IncomingMessage['headers'], method: string, path: LoggedPath): Span {
  return tracer.begin('request', {
    parent: tracer.contextIn(headers),
    attributes: { 'http.request.method': method, 'url.path': path.cut },
  });
}

function spanOutcome({ requestId, status, outcome }: Pick<Finished, 'requestId' | 'status' | 'outcome'>) {
  const attributes = {
    'http.response.status_code': status,
    'larder.request_id': requestId,
    'larder.outcome': outcome,
  };
  return status === undefined || status >= 500 ? { error: outcome, attributes } : { attributes };
}
