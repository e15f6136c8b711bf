import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server, type ServerOptions } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { CertificateAuthority } from './certificates.ts';
import { type LoggedRequest, type Matcher, matches, RequestLog } from './request-log.ts';

/** A request, as handlers and faults see it. */
export interface Call {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Fires when the connection is gone: nothing may wait longer than that. */
  readonly gone: AbortSignal;
}

/** An answer before it is sent. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A body that throws makes the connection break at that point. */
  readonly body: AsyncIterable<Buffer> | Iterable<Buffer>;
  /** What Content-Length says; `undefined` sends chunks instead. */
  readonly length: number | undefined;
}

export type Handler = (call: Call) => Promise<Reply> | Reply;

/** Stands between a request and its answer: may change either, replace the answer, or break the connection by throwing. */
export type Fault = (call: Call, next: Handler) => Promise<Reply> | Reply;

export interface OriginOptions {
  /** Further names in its certificate. */
  readonly names?: readonly string[];
  /** Who signs its certificate; the process's shared throwaway authority unless given. */
  readonly authority?: CertificateAuthority;
  /** A certificate made elsewhere: expired, or for other names. */
  readonly certificate?: { readonly cert: string; readonly key: string };
  /** PEM of the authority whose certificates clients have to show; without one nobody gets past the handshake. */
  readonly clientAuthority?: string;
}

export interface ScriptedFault {
  /** How often it has been applied. */
  readonly applied: number;
  remove(): void;
}

/** Thrown to break the connection off. */
export class Hangup extends Error {
  /** Sent as it is before that, in the place of an answer. */
  readonly lastWords: string | undefined;

  constructor(lastWords?: string) {
    super('the connection is broken off');
    this.lastWords = lastWords;
  }
}

/**
 * An HTTPS server on loopback with a script: whatever `handler` answers can be delayed, cut, altered or refused.
 * Closing it destroys every connection, so that nothing is left open after a test.
 */
export class Origin {
  readonly requests = new RequestLog();
  /** PEM certificate that clients have to trust. */
  readonly ca: string;
  /** Awaited before every answer, milliseconds. */
  latencyMs = 0;
  readonly #tls: ServerOptions;
  readonly #handler: Handler;
  readonly #connections = new Set<Socket>();
  #faults: { matcher: Matcher; fault: Fault; left: number; applied: number }[] = [];
  #server: Server | undefined;
  #port = 0;
  #greetsNobody = false;

  private constructor(authority: string, tls: ServerOptions, handler: Handler) {
    this.ca = authority;
    this.#tls = tls;
    this.#handler = handler;
  }

  /** Listens on 127.0.0.1, on a port of the system's choice. */
  static async start(handler: Handler, options: OriginOptions = {}): Promise<Origin> {
    const authority = options.authority ?? (await CertificateAuthority.shared());
    const own = options.certificate ?? (await authority.issue(options.names));
    const { clientAuthority } = options;
    const origin = new Origin(
      authority.pem,
      { ...own, ...(clientAuthority === undefined ? {} : { ca: clientAuthority, requestCert: true }) },
      handler,
    );
    await origin.restart();
    return origin;
  }

  get port(): number {
    return this.#port;
  }

  /** `localhost:PORT`. */
  get hostname(): string {
    return `localhost:${this.#port}`;
  }

  /** `https://localhost:PORT`. */
  get url(): string {
    return `https://${this.hostname}`;
  }

  /**
   * Scripts behaviour for the requests that match, the first `times` of them or all. Rules nest: the one added last
   * stands nearest to the client.
   */
  on(matcher: Matcher, fault: Fault, options: { times?: number } = {}): ScriptedFault {
    const rule = { matcher, fault, left: options.times ?? Number.POSITIVE_INFINITY, applied: 0 };
    this.#faults.push(rule);
    return {
      get applied() {
        return rule.applied;
      },
      remove: () => {
        this.#faults = this.#faults.filter((other) => other !== rule);
      },
    };
  }

  /** Removes every scripted fault. */
  heal(): void {
    this.#faults = [];
    this.latencyMs = 0;
    this.#greetsNobody = false;
  }

  /** Breaks open connections off, and each new one before a word is said on it, until `heal()`. */
  hangUpOnEverybody(): void {
    this.#greetsNobody = true;
    this.breakConnections();
  }

  /** Breaks open connections off. New ones are welcome. */
  breakConnections(): void {
    for (const socket of this.#connections) socket.destroy();
  }

  /** Connections are refused from now on; those that are open live on. */
  async stopAccepting(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.close();
    server.closeIdleConnections();
    if (server.listening) await once(server, 'close');
  }

  /** Connections are refused from now on, open ones broken. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return this.breakConnections();
    const closed = once(server, 'close');
    server.close();
    this.breakConnections();
    await closed;
  }

  /** Listens again, on the same port as before. */
  async restart(): Promise<void> {
    await this.stop();
    const server = createServer(this.#tls, (request, response) => void this.#serve(request, response));
    server.on('connection', (socket: Socket) => {
      if (this.#greetsNobody) return void socket.destroy();
      this.#connections.add(socket);
      socket.once('close', () => this.#connections.delete(socket));
    });
    // A client that does not trust the certificate, or breaks off in the handshake: its affair, not a crash.
    server.on('tlsClientError', (_error, socket) => socket.destroy());
    server.listen(this.#port, '127.0.0.1');
    await once(server, 'listening');
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    let settle = () => {};
    const logged: LoggedRequest = {
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      status: 0,
      bytesSent: 0,
      aborted: false,
      finished: new Promise((resolve) => {
        settle = resolve;
      }),
    };
    response.once('close', () => {
      logged.aborted = !response.writableFinished;
      gone.abort();
      settle();
    });
    // Nothing here reads request bodies; they must not hold up the connection.
    request.resume();
    this.requests.add(logged);
    try {
      if (this.latencyMs > 0) await wait(this.latencyMs, undefined, { signal: gone.signal });
      const call = { method: logged.method, path: logged.path, headers: logged.headers, gone: gone.signal };
      await send(await this.#answer(call), response, logged, gone.signal);
    } catch (error) {
      if (!(error instanceof Hangup) && !gone.signal.aborted) reportMistake(logged, error);
      if (error instanceof Hangup && error.lastWords !== undefined) {
        await new Promise<void>((resolve) => request.socket.write(error.lastWords ?? '', () => resolve()));
      }
      response.destroy();
      request.socket.destroy();
    }
  }

  async #answer(call: Call): Promise<Reply> {
    let handler = this.#handler;
    for (const rule of this.#faults) {
      if (rule.left <= 0 || !matches(rule.matcher, call)) continue;
      rule.left -= 1;
      rule.applied += 1;
      const next = handler;
      handler = (inner) => rule.fault(inner, next);
    }
    return handler(call);
  }
}

async function send(reply: Reply, response: ServerResponse, logged: LoggedRequest, gone: AbortSignal): Promise<void> {
  logged.status = reply.status;
  response.writeHead(reply.status, {
    ...reply.headers,
    ...(reply.length === undefined ? {} : { 'content-length': String(reply.length) }),
  });
  if (logged.method === 'HEAD') {
    response.end();
    return;
  }
  response.flushHeaders();
  for await (const chunk of reply.body) {
    if (gone.aborted) return;
    logged.bytesSent += chunk.length;
    if (!response.write(chunk)) await once(response, 'drain', { signal: gone });
  }
  response.end();
}

/** A mistake in a test's own handler should be seen, not taken for a fault on purpose. */
function reportMistake(request: LoggedRequest, error: unknown): void {
  console.error(`The scripted origin failed on ${request.method} ${request.path}:`, error);
}
