import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';

/** A request as it comes out of the parser. */
export interface InsideRequest {
  readonly method: string;
  readonly target: string;
  readonly headers?: readonly (readonly [name: string, value: string])[];
  readonly body?: Buffer;
}

export interface InsideAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  /** With its framing, where it has any. */
  readonly body: Buffer;
  /** The connection was broken off. */
  readonly isBroken: boolean;
}

/** A connection that leads nowhere, and keeps what is sent. */
class Nowhere extends Duplex {
  readonly sent: Buffer[] = [];
  readonly remoteAddress = '127.0.0.1';
  readonly remotePort = 4_321;
  readonly bytesRead = 0;
  bytesWritten = 0;

  override _read(): void {}
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.sent.push(chunk);
    this.bytesWritten += chunk.length;
    done();
  }
  setTimeout(): this {
    return this;
  }
  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
}

/** Hands a request to a handler without any network, and resolves once its answer is over. */
export function askInside(handler: RequestListener, request: InsideRequest): Promise<InsideAnswer> {
  const socket = new Nowhere();
  const req = new IncomingMessage(socket as never);
  const lines = ([['Host', 'larder.test']] as [string, string][]).concat(
    request.headers?.map(([n, v]) => [n, v]) ?? [],
  );
  if (request.body) lines.push(['Content-Length', String(request.body.length)]);
  Object.assign(req, { method: request.method, url: request.target, httpVersion: '1.1' });
  Object.assign(req, { httpVersionMajor: 1, httpVersionMinor: 1, rawHeaders: lines.flat() });
  // What the parser does: repeated headers are joined or dropped, as each of them has it.
  (req as unknown as { _addHeaderLines(lines: string[], count: number): void })._addHeaderLines(
    lines.flat(),
    lines.length * 2,
  );
  const res = new ServerResponse(req);
  res.assignSocket(socket as never);
  if (request.body) req.push(request.body);
  req.push(null);
  req.complete = true;

  return new Promise((resolve) => {
    const over = (isBroken: boolean) => {
      const sent = Buffer.concat(socket.sent);
      const end = sent.indexOf('\r\n\r\n');
      resolve({
        status: res.statusCode,
        headers: res.getHeaders(),
        body: end < 0 ? sent : sent.subarray(end + 4),
        isBroken,
      });
    };
    res.once('finish', () => {
      over(false);
      socket.destroy();
    });
    socket.once('close', () => over(true));
    handler(req, res);
  });
}
