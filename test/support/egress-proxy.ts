import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/**
 * A company's only way out, on loopback: a CONNECT proxy that knows a few names of the internet, and where a test has
 * put them. Whatever else is asked for is refused, as such proxies do.
 */
export class EgressProxy {
  readonly #server: Server;
  readonly #routes: ReadonlyMap<string, number>;
  readonly #sockets = new Set<Duplex>();
  /** `HOST:PORT` of each tunnel that was asked for, in order. */
  readonly tunnels: string[] = [];
  /** For HTTPS_PROXY. */
  readonly url: string;

  private constructor(server: Server, routes: ReadonlyMap<string, number>) {
    this.#routes = routes;
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('connect', (request, socket, head) => this.#tunnel(request, socket, head));
  }

  /** @param routes from `HOST:PORT` to ports on loopback. */
  static async start(routes: Readonly<Record<string, number>>): Promise<EgressProxy> {
    const server = createServer((_request, response) => response.writeHead(405).end());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new EgressProxy(server, new Map(Object.entries(routes)));
  }

  /** Breaks every tunnel. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #tunnel({ url = '' }: IncomingMessage, client: Duplex, head: Buffer): void {
    this.tunnels.push(url);
    this.#keep(client);
    const port = this.#routes.get(url);
    if (port === undefined) {
      client.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      return;
    }
    const upstream: Socket = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      upstream.write(head);
      upstream.pipe(client);
      client.pipe(upstream);
    });
    this.#keep(upstream);
    let isOpen = false;
    upstream.once('connect', () => {
      isOpen = true;
    });
    upstream.once('close', () => {
      if (isOpen) client.destroy();
      else client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    });
    client.once('close', () => upstream.destroy());
  }

  #keep(socket: Duplex): void {
    this.#sockets.add(socket);
    // Either side may break off at any time: that is what the tests are about.
    socket.on('error', () => {});
    socket.once('close', () => this.#sockets.delete(socket));
  }
}
