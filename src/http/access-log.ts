import { randomUUID } from 'node:crypto';
import type { RequestHandler } from 'express';
import type { Logger } from '../logger.ts';
import { type AuditTrail, recordExchange } from './audit-entry.ts';
import { loggedPath } from './error-handler.ts';
import type { RequestMetrics } from './request-metrics.ts';
import { notesOf } from './respond.ts';

/** Asked every few seconds by machines: of interest to nobody unless something is wrong with them. */
const HEALTH_PATHS: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);

/** Longer paths are cut in the log. */
const MAX_LOGGED_PATH = 300;

/**
 * Gives every request an id (`X-Request-Id`, also in error bodies) and writes one line once its answer is over:
 * `bytes` is what went over the connection, headers included; the outcome `aborted` means that the answer did not
 * get to its end, whoever broke it off. Queries are not logged, nor what makes a download link good. What concerns the
 * audit log goes there as well, and every request is counted.
 */
export function accessLog({
  logger,
  audit,
  metrics,
}: {
  logger: Logger;
  audit?: AuditTrail | undefined;
  metrics?: { readonly requests: RequestMetrics } | undefined;
}): RequestHandler {
  return (req, res, next) => {
    const startedAt = performance.now();
    const { socket, method, originalUrl } = req;
    const writtenBefore = socket.bytesWritten;
    // Nobody knows any more once the connection is closed.
    const remote = socket.remoteAddress;
    const notes = notesOf(res);
    notes.requestId = randomUUID();
    res.setHeader('X-Request-Id', notes.requestId);
    res.once('close', () => {
      const path = loggedPath(originalUrl);
      const exchange = {
        requestId: notes.requestId,
        method,
        path: path.length > MAX_LOGGED_PATH ? `${path.slice(0, MAX_LOGGED_PATH)}…` : path,
        status: res.headersSent ? res.statusCode : undefined,
        bytes: socket.bytesWritten - writtenBefore,
        outcome: res.writableFinished ? notes.outcome : 'aborted',
      };
      const ms = performance.now() - startedAt;
      metrics?.requests.count({ ...exchange, path, seconds: ms / 1000 });
      logger[HEALTH_PATHS.has(path) ? 'debug' : 'info']('request', {
        ...exchange,
        client: notes.client?.isAnonymous === false ? notes.client.name : undefined,
        ms: Math.round(ms),
      });
      if (audit) recordExchange(audit, notes, { ...exchange, remote });
    });
    next();
  };
}
