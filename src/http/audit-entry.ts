import type { AnswerNotes } from './respond.ts';

/** Takes down what became of requests. */
export interface AuditTrail {
  record(event: string, fields: Readonly<Record<string, unknown>>): void;
}

/** What is known of a request once its answer is over. */
export interface Exchange {
  readonly requestId: string;
  readonly remote: string | undefined;
  readonly method: string;
  /** As logs may show it. */
  readonly path: string;
  /** `undefined` when there was no answer. */
  readonly status: number | undefined;
  readonly bytes: number;
  readonly outcome: string | undefined;
}

/** Refusals that are told as "there is no such thing". */
const POLICY: ReadonlySet<string | undefined> = new Set(['HOST_NOT_ALLOWED', 'ADDRESS_EXCLUDED']);
const REFUSED: ReadonlySet<number | undefined> = new Set([401, 403, 429]);

/** Writes down who was given what, and who was refused. What is open to all (health, pages) is nobody's business. */
export function recordExchange(audit: AuditTrail, notes: AnswerNotes, exchange: Exchange): void {
  const { client, asked } = notes;
  if (!client && !asked) return;
  const isRefused = REFUSED.has(exchange.status) || POLICY.has(exchange.outcome);
  const isServed = exchange.status !== undefined && exchange.status < 400 && exchange.outcome !== 'aborted';
  const { version, platform, what } = asked ?? {};
  const { provider, module } = { provider: undefined, module: undefined, ...asked };
  audit.record(isRefused ? 'refused' : isServed ? 'served' : 'failed', {
    client: client?.name,
    remote: exchange.remote,
    what: what ?? (platform ? 'archive' : version ? 'packages' : asked ? 'versions' : undefined),
    provider: provider?.toString(),
    module: module?.toString(),
    version: version?.toString(),
    platform: platform?.toString(),
    method: exchange.method,
    path: exchange.path,
    status: exchange.status,
    outcome: exchange.outcome,
    reason: isServed ? undefined : notes.reason,
    bytes: exchange.bytes,
    requestId: exchange.requestId,
  });
}
