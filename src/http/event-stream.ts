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
 * they have ended, or nobody reads any more, or may.
 * @param open begins them, and is told when nobody wants more
 * @param options.mayStill asked with each heartbeat. What it fails with says nothing
 */
export async function sendEvents(
  res: Response,
  open: (gone: AbortSignal) => AsyncGenerator<ServerSentEvent>,
  { closing, mayStill }: { closing?: AbortSignal; mayStill: () => Promise<boolean> },
): Promise<void> {
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  const ask = async () => {
    if (await mayStill().catch(() => true)) return;
    gone.abort();
    // Whoever takes nothing would not hear of its end either.
    if (res.writableNeedDrain) res.destroy();
  };
  const heartbeat = setInterval(() => {
    if (res.headersSent && !res.writableNeedDrain && !res.destroyed) res.write(':\n\n');
    void ask();
  }, HEARTBEAT_MS);
  const events = open(gone.signal);
  try {
    for await (const { type, id, data } of events) {
      if (res.destroyed) return;
      if (gone.signal.aborted) break;
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
