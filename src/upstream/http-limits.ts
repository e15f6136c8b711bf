import type { ConnectionLimits } from './connections.ts';

/** Deadlines and numbers of the client. Milliseconds. */
export interface HttpLimits extends ConnectionLimits {
  /** The first try included. */
  readonly attempts: number;
  /** Pause before the second attempt; doubles. */
  readonly backoffMs: number;
  /** A longer Retry-After is not waited for but handed to the caller. */
  readonly retryAfterMs: number;
  /** How long a host is left alone that could not be reached. */
  readonly circuitMs: number;
  /** Small requests under way at one host; forges throttle clients by address. */
  readonly concurrency: number;
  /** For asking an archive's length, which is a courtesy. */
  readonly lengthMs: number;
}

export const LIMITS: HttpLimits = {
  connectMs: 5_000,
  headersMs: 10_000,
  bodyIdleMs: 30_000,
  attempts: 3,
  backoffMs: 250,
  retryAfterMs: 5_000,
  circuitMs: 5_000,
  concurrency: 8,
  lengthMs: 2_000,
};
