import type { Response } from 'express';

/** An answer for operators: never kept by anybody on the way. */
export function sendDocument(res: Response, document: unknown, status = 200): void {
  const body = Buffer.from(JSON.stringify(document));
  res
    .writeHead(status, {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'Cache-Control': 'no-store',
    })
    .end(body);
}
