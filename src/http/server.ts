import http, { type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { HttpApplication } from './application.ts';
import { BodyGuard, type BodyLimits } from './body-guard.ts';
import { Connections } from './connections.ts';
import { PROXY_HINT } from './request-guards.ts';

/** Load balancers keep idle connections for 60 s, and must be the ones to close them: else they send into a closed one. */
const KEEP_ALIVE_MS = 75_000;
/** For a request's headers, counted from the last answer on a kept connection: longer than that may idle. */
const HEADERS_TIMEOUT_MS = KEEP_ALIVE_MS + 5_000;
/** So often is looked for headers that are late. */
const CHECK_MS = 30_000;
/** For a TLS handshake. */
const HANDSHAKE_TIMEOUT_MS = 20_000;
/** Bytes of request line and headers. */
const MAX_HEADER_SIZE = 16 * 1024;
/** A client that takes nothing for so long while there is something for it is taken for dead, in milliseconds. */
const STALL_MS = 300_000;
/** After so long without traffic the system probes whether the peer is still there. */
const TCP_KEEP_ALIVE_MS = 60_000;

/** How long clients are waited for, in milliseconds. */
export interface ServerLimits extends BodyLimits {
  readonly headersMs: number;
  /** For a client to take the next bytes of an answer. */
  readonly stallMs: number;
}

/** Certificate and key, PEM. */
export interface ServerCertificate {
  readonly cert: string;
  readonly key: string;
}

/**
 * The listening side: HTTP/1.1 over TLS, or plain when there is no certificate (behind a proxy).
 *
 * It knows which answers are under way, so that it can be drained: `drain` is for SIGTERM. It waits neither for headers
 * nor for bodies of requests that do not arrive; answers may take as long as they make progress.
 */
export class HttpServer {
  readonly #server: http.Server | https.Server;
  readonly #isSecure: boolean;
  readonly #connections: Connections;
  /** All sockets, also those still shaking hands. */
  readonly #sockets = new Set<Socket>();
  #isLeaving = false;
  #draining: Promise<void> | undefined;

  constructor({
    handler,
    tls,
    limits = {},
  }: {
    handler: RequestListener;
    tls?: ServerCertificate | undefined;
    limits?: Partial<ServerLimits> | undefined;
  }) {
    const { headersMs = HEADERS_TIMEOUT_MS, stallMs = STALL_MS } = limits;
    const connections = new Connections({ stallMs });
    const bodies = new BodyGuard({ limits, onLate: refuseLateBody });
    const options = {
      keepAliveTimeout: KEEP_ALIVE_MS,
      headersTimeout: headersMs,
      connectionsCheckingInterval: Math.min(CHECK_MS, headersMs),
      // It would count the bytes of an upload and the patience for them as one.
      requestTimeout: 0,
      maxHeaderSize: MAX_HEADER_SIZE,
      keepAlive: true,
      keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
      noDelay: true,
      ...(handler as Partial<HttpApplication>).messages,
    };
    this.#connections = connections;
    this.#isSecure = tls !== undefined;
    this.#server = tls
      ? https.createServer({ ...options, ...tls, handshakeTimeout: HANDSHAKE_TIMEOUT_MS })
      : http.createServer(options);
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    this.#server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => connections.add(socket));
    // Before the handler, so that an answer is known of whatever the handler does.
    this.#server.on('request', (req, res) => {
      connections.track(req, res);
      bodies.watch(req, res);
    });
    this.#server.on('request', handler);
    this.#server.on('timeout', (socket: Socket) => connections.dropIfStalled(socket));
    this.#server.once('close', () => connections.close());
    this.#server.on('clientError', refuseBrokenRequest);
    this.#server.on('connect', refuseTunnel);
    // A connection that could not be accepted (no descriptors left) must not end the process. `listen` tells its own failures.
    this.#server.on('error', () => {});
  }

  /** It will not be here for long. */
  get isDraining(): boolean {
    return this.#isLeaving || this.#draining !== undefined;
  }

  /** Resolves to the port, which matters when 0 was asked for. Rejects when the address cannot be had. */
  listen({ host, port }: { host: string; port: number }): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject);
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  /** New connections get the new certificate; those that exist keep theirs. Only for a server that began with one. */
  replaceCertificate({ cert, key }: ServerCertificate): void {
    if (this.#isSecure) (this.#server as https.Server).setSecureContext({ cert, key });
  }

  /**
   * Everything is still served, and each answer closes its connection: whoever was told elsewhere that this server is
   * about to go comes back to another one. What is idle until `drain` is closed by it.
   */
  leave(): void {
    this.#isLeaving = true;
    this.#connections.leave();
  }

  /**
   * Stops accepting connections, closes the idle ones (those without any request yet a second later), lets the answers
   * under way finish (their connections are closed after them), and breaks off what is left after `graceMs`. Resolves when
   * no connection is left.
   */
  drain(graceMs: number): Promise<void> {
    this.#draining ??= this.#drain(graceMs);
    return this.#draining;
  }

  async #drain(graceMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    this.#connections.drain();
    const grace = setTimeout(() => {
      this.#connections.destroy();
      for (const socket of this.#sockets) socket.destroy();
    }, graceMs);
    await closed;
    clearTimeout(grace);
  }
}

const LATE = ['REQUEST_TIMEOUT', 'the request did not arrive in time'] as const;

/** Whoever still waits for an answer is told; then the connection is over, for what may come next is the rest of the body. */
function refuseLateBody(req: IncomingMessage, res: ServerResponse): void {
  const { socket } = req;
  // Once it is answered, node:http tells whoever still reads the request nothing more: that it is over, neither.
  socket.once('close', () => req.destroy());
  if (res.headersSent) {
    socket.destroy();
    return;
  }
  closeAfterRefusal(socket);
  const body = refusal(...LATE);
  res
    .writeHead(408, {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
      'Cache-Control': 'no-store',
      Connection: 'close',
    })
    .end(body);
}

/** What the parser could not read never becomes a request: answered here, and the connection is over. */
function refuseBrokenRequest(error: Error & { code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  if (error.code === 'HPE_HEADER_OVERFLOW') {
    refuse(socket, '431 Request Header Fields Too Large', 'HEADERS_TOO_LARGE', 'the request headers are too large');
  } else if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    refuse(socket, '408 Request Timeout', ...LATE);
  } else {
    refuse(socket, '400 Bad Request', 'BAD_REQUEST', 'this is not an HTTP request that Larder can read');
  }
}

/** CONNECT is what clients send to their HTTPS_PROXY. */
function refuseTunnel(_req: IncomingMessage, socket: Duplex): void {
  refuse(socket, '405 Method Not Allowed', 'NOT_A_PROXY', 'Larder is a mirror, not a forward proxy', PROXY_HINT);
}

/** How long a refused client may take to read why, in milliseconds. */
const REFUSAL_LINGER_MS = 2_000;

function refuse(socket: Duplex, status: string, code: string, message: string, hint?: string): void {
  closeAfterRefusal(socket);
  const body = refusal(code, message, hint);
  socket.end(
    `HTTP/1.1 ${status}\r\n${status.startsWith('405') ? 'Allow: GET, HEAD\r\n' : ''}Content-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n${body}`,
  );
}

function refusal(code: string, message: string, hint?: string): string {
  return JSON.stringify({ errors: [message], code, ...(hint === undefined ? {} : { hint }) });
}

/** Destroyed at once, with bytes of the client still unread, it would be a reset, and the refusal lost. */
function closeAfterRefusal(socket: Duplex): void {
  const linger = setTimeout(() => socket.destroy(), REFUSAL_LINGER_MS);
  socket.on('error', () => socket.destroy());
  socket.once('close', () => clearTimeout(linger));
}
