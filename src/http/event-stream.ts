import type { Response } from 'express';
import { drained } from './drained.ts';

/** Proxies close connections on which nothing comes; some after a minute. */
const HEARTBEAT_MS = 15_000;

export interface ServerSentEvent {
  readonly type: string;
  /** Sent back by whoever comes again, as `Last-Event-ID`. */
  readonly id: number;
  readonly data: unknown;
}

/**
 * Answers with server-sent events. They are made at the pace of whoever reads: at most one waits in memory. Resolves when
 * they have ended, or nobody reads any more.
 */
export async function sendEvents(
  res: Response,
  events: AsyncGenerator<ServerSentEvent>,
  closing?: AbortSignal,
): Promise<void> {
  const heartbeat = setInterval(() => {
    if (res.headersSent && !res.writableNeedDrain && !res.destroyed) res.write(':\n\n');
  }, HEARTBEAT_MS);
  try {
    for await (const { type, id, data } of events) {
      if (res.destroyed) return;
      if (!res.headersSent) {
        res.writeHead(200, {
          'Content-Type': 'text/event-stream',
          'Cache-Control': 'no-store',
          // nginx gathers answers otherwise.
          'X-Accel-Buffering': 'no',
        });
      }
      if (!res.write(`id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`)) await drained(res, { closing });
    }
    res.end();
  } finally {
    clearInterval(heartbeat);
    await events.return(undefined);
  }
}
