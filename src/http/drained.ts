import { once } from 'node:events';
import type { Response } from 'express';

/** Whoever takes nothing for so long has gone, in milliseconds. */
const PATIENCE_MS = 60_000;

/**
 * Resolves when an answer has room again, or nobody to go to: whoever takes nothing for a minute is hung up on.
 * @param closing aborts when Larder stops: then nobody is waited for
 */
export async function drained(
  res: Response,
  { closing, patienceMs = PATIENCE_MS }: { closing?: AbortSignal | undefined; patienceMs?: number } = {},
): Promise<void> {
  if (res.destroyed) return;
  const leave = () => void res.destroy();
  if (closing?.aborted) return leave();
  closing?.addEventListener('abort', leave, { once: true });
  const settled = new AbortController();
  const { signal } = settled;
  const patience = setTimeout(leave, patienceMs);
  try {
    await Promise.race([once(res, 'drain', { signal }), once(res, 'close', { signal })]);
  } finally {
    closing?.removeEventListener('abort', leave);
    clearTimeout(patience);
    settled.abort();
  }
}
