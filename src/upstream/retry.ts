import { setTimeout as sleep } from 'node:timers/promises';
import type { UpstreamUnreachable } from '../errors.ts';
import type { HttpLimits } from './http-limits.ts';

/** `Retry-After`, seconds or an HTTP date, as milliseconds from now. `undefined` when absent or nonsense. */
export function parseRetryAfter(value: string | undefined, now: number): number | undefined {
  const text = value?.trim();
  if (!text) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  // Date.parse takes almost anything (`-5` is a year): an HTTP date begins with the name of a day.
  const date = /^[A-Z][a-z]{2,8}, /.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/** Pause before attempt number `attempt + 1`: doubling, and spread out so that many waiters do not return together. */
export function backoffMs(attempt: number, baseMs: number): number {
  return baseMs * 2 ** (attempt - 1) * (0.5 + Math.random() / 2);
}

/** Resolves to `false` at once when the signal is aborted, during the pause or before. Never rejects. */
export async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ms, undefined, { signal });
    return true;
  } catch {
    return false;
  }
}

/** Milliseconds before the next attempt; `undefined` when the host asks for more patience than we have. */
export function waitBefore(
  attempt: number,
  { retryAfterMs }: UpstreamUnreachable,
  limits: Pick<HttpLimits, 'backoffMs' | 'retryAfterMs'>,
): number | undefined {
  if (retryAfterMs === undefined) return backoffMs(attempt, limits.backoffMs);
  return retryAfterMs <= limits.retryAfterMs ? retryAfterMs : undefined;
}
