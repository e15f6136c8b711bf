import type { Response } from 'express';

/** An answer for operators: never kept by anybody on the way. */
export function sendDocument(res: Response, document: unknown): void {
  const body = Buffer.from(JSON.stringify(document));
  res
    .writeHead(200, {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'Cache-Control': 'no-store',
    })
    .end(body);
}
