import type { Agent, ClientRequest, IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Request, Response } from 'express';
import { createProxyMiddleware } from 'http-proxy-middleware';
import type { Passthrough } from '../mirror/passthrough.ts';

export type RelayedRequest = Awaited<ReturnType<Passthrough['open']>>;

/**
 * Looks at an answer before it is passed on. Throws an error of the domain when it is not to be.
 * @returns its headers, names and values in turn
 */
export type Inspection = (response: IncomingMessage) => readonly string[];

/** One request while it is under way. */
interface Exchange {
  readonly relayed: RelayedRequest;
  readonly inspect: Inspection;
  request?: ClientRequest;
  /** The first outcome counts. */
  settle(error?: Error): void;
  isSettled: boolean;
  hasAnswer: boolean;
}

type Middleware = ReturnType<typeof createProxyMiddleware<Request, Response>>;

/** Sends requests on and brings their answers back, streaming both ways. */
export class Forwarding {
  readonly #exchanges = new WeakMap<IncomingMessage, Exchange>();
  /** The library takes one way out for all requests of a middleware. */
  readonly #middlewares = new WeakMap<Agent, Middleware>();

  /**
   * Sends the request as it now is, `url` and `headers` included. Resolves when the answer is over, whole or broken off,
   * or the client gone. A client never gets a cut answer that looks complete.
   * @throws an error of the domain while nothing has been answered yet
   */
  forward(req: Request, res: Response, relayed: RelayedRequest, inspect: Inspection): Promise<void> {
    return new Promise((resolve, reject) => {
      const exchange: Exchange = {
        relayed,
        inspect,
        isSettled: false,
        hasAnswer: false,
        settle: (error) => {
          if (exchange.isSettled) return;
          exchange.isSettled = true;
          exchange.request?.destroy();
          relayed.release();
          if (error) reject(error);
          else resolve();
        },
      };
      // Gone while upstream was being asked, or answered to the end.
      res.once('close', () => exchange.settle());
      if (res.destroyed) return exchange.settle();
      this.#exchanges.set(req, exchange);
      void this.#middlewareFor(relayed.agent, req.socket)(req, res, (error) => this.#fail(req, error));
    });
  }

  #middlewareFor(agent: Agent, socket: Socket): Middleware {
    let middleware = this.#middlewares.get(agent);
    if (!middleware) {
      middleware = createProxyMiddleware<Request, Response>({
        agent,
        router: (req) => this.#targetOf(req),
        // The path is whole already, and none of the library's rewriting shall touch it.
        toProxy: true,
        prependPath: false,
        selfHandleResponse: true,
        on: {
          proxyReq: (request, req) => this.#watch(request, req),
          proxyRes: (response, req, res) => this.#answer(response, req, res),
          error: (error, req) => this.#fail(req, error),
        },
      });
      this.#middlewares.set(agent, middleware);
      expectOneMoreListener(socket);
    }
    return middleware;
  }

  #targetOf(req: IncomingMessage): { protocol: string; host: string; hostname: string; port: string } | undefined {
    const url = this.#exchanges.get(req)?.relayed.url;
    if (!url) return undefined;
    const hostname = url.hostname.replace(/^\[|\]$/g, '');
    return { protocol: url.protocol, host: hostname, hostname, port: url.port };
  }

  #watch(request: ClientRequest, req: IncomingMessage): void {
    const exchange = this.#exchanges.get(req);
    // Whoever asked went away while a connection was being made.
    if (!exchange || exchange.isSettled) return void request.destroy();
    exchange.request = request;
    exchange.relayed.watch(request);
  }

  #answer(response: IncomingMessage, req: IncomingMessage, res: Response): void {
    const exchange = this.#exchanges.get(req);
    if (!exchange || exchange.isSettled) return void response.destroy();
    exchange.hasAnswer = true;
    exchange.relayed.receive(response);
    try {
      const headers = exchange.inspect(response);
      res.writeHead(response.statusCode ?? 502, [...headers]);
    } catch (error) {
      response.on('error', () => {}).destroy();
      exchange.settle(error as Error);
      return;
    }
    let reason: unknown;
    response.on('error', (error) => {
      reason = error;
    });
    // A pipe does not care how its source ends: only a broken connection tells the client that the rest is missing.
    response.once('close', () => {
      if (response.complete || exchange.isSettled) return;
      exchange.relayed.brokeOff(reason);
      res.destroy();
    });
    response.pipe(res);
  }

  #fail(req: IncomingMessage, error: unknown): void {
    const exchange = this.#exchanges.get(req);
    // Once there is an answer, its own stream tells how it ends.
    if (!exchange || exchange.isSettled || exchange.hasAnswer) return;
    exchange.settle(exchange.relayed.failed(error));
  }
}

/**
 * Each middleware listens once for the end of the server that it is first used with. There are as many as ways out,
 * which the configuration limits: that is no leak, and Node shall not take it for one and warn. It goes on watching for
 * whatever else adds up.
 */
function expectOneMoreListener({ server }: Socket & { readonly server?: Server }): void {
  const limit = server?.getMaxListeners() ?? 0;
  // Zero means that nobody is watching.
  if (limit > 0) server?.setMaxListeners(limit + 1);
}
