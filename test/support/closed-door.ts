import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterTest } from './after-test.ts';

/**
 * A way to a port of loopback that takes connections and lets nothing through until it is opened: whoever is behind it
 * is slow, however fast it really is. Gone after the test that makes it.
 */
export class ClosedDoor {
  readonly port: number;
  /** Settles when somebody stands before it. */
  readonly reached: Promise<void>;
  open = (): void => {};
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, to: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    const opened = new Promise<void>((resolve) => {
      this.open = resolve;
    });
    this.reached = new Promise((resolve) => server.once('connection', () => resolve()));
    server.on('connection', (client) => {
      this.#keep(client);
      void opened.then(() => {
        const behind = this.#keep(connect(to, '127.0.0.1'));
        client.pipe(behind).pipe(client);
        client.once('close', () => behind.destroy());
        behind.once('close', () => client.destroy());
      });
    });
  }

  static async before(port: number): Promise<ClosedDoor> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const door = new ClosedDoor(server, port);
    afterTest(() => door.remove());
    return door;
  }

  /** `localhost:PORT`. */
  get hostname(): string {
    return `localhost:${this.port}`;
  }

  /** Breaks all connections. */
  async remove(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    // Either side may break off at any time.
    return socket.on('error', () => {}).once('close', () => this.#sockets.delete(socket));
  }
}
