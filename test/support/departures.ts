import dns from 'node:dns';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, Socket } from 'node:net';
import { vi } from 'vitest';
import { afterTest } from './after-test.ts';

/** What this process connects to and looks up, from now until the end of the test: every socket goes through here. */
export function watchDepartures(): { since(): string[]; clear(): void } {
  const seen: string[] = [];
  const connect = vi.spyOn(Socket.prototype, 'connect');
  const lookup = vi.spyOn(dns, 'lookup');
  afterTest(async () => {
    connect.mockRestore();
    lookup.mockRestore();
  });
  const gather = () => {
    for (const args of connect.mock.calls as unknown[][]) {
      const [given] = Array.isArray(args[0]) ? (args[0] as unknown[]) : args;
      const { host, port, path } = (typeof given === 'object' && given !== null ? given : { port: given }) as {
        host?: string;
        port?: number | string;
        path?: string;
      };
      // Pipes of child processes and threads lead nowhere.
      if (port !== undefined && path === undefined) seen.push(`connect ${host ?? 'localhost'}:${port}`);
    }
    for (const [name] of lookup.mock.calls as unknown[][]) seen.push(`look up ${String(name)}`);
    connect.mockClear();
    lookup.mockClear();
  };
  return {
    since: () => {
      gather();
      return [...seen];
    },
    clear: () => {
      gather();
      seen.length = 0;
    },
  };
}

/** Listens, counts who comes, and never says a word: a host that hangs. */
export class SilentHost {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  /** Connections so far. */
  connections = 0;

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket: Socket) => {
      this.connections += 1;
      this.#open.add(socket);
      socket.on('error', () => {}).once('close', () => this.#open.delete(socket));
      socket.resume();
    });
  }

  static async start(): Promise<SilentHost> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const host = new SilentHost(server);
    afterTest(async () => {
      for (const socket of host.#open) socket.destroy();
      server.close();
    });
    return host;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Those that are still there. */
  get open(): number {
    return this.#open.size;
  }
}
