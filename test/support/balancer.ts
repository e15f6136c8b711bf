import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterTest } from './after-test.ts';
import { HttpClient } from './http.ts';

/** How often each server is asked whether it is ready, in milliseconds. */
const PROBE_MS = 100;

/** A load balancer: hands new connections to the servers that say that they are ready, in turn, and looks into none. */
export interface Balancer {
  readonly port: number;
  /** `https://localhost:PORT`. */
  readonly url: string;
  /** New connections go there as soon as it says that it is ready, for as long as it does. */
  add(server: { readonly port: number }): void;
  /** Servers that were ready when they were last asked. */
  readonly ready: number;
}

/** Stops at the end of the test. @param options.ca PEM certificate of the servers */
export async function startBalancer({ ca }: { ca: string }): Promise<Balancer> {
  const probes = new HttpClient({ ca });
  const ports: number[] = [];
  const ready = new Set<number>();
  const sockets = new Set<Socket>();
  const stopped = new AbortController();
  let turn = 0;

  const probe = async (port: number) => {
    while (!stopped.signal.aborted) {
      const status = await probes.get(`https://localhost:${port}/readyz`).then(
        (answer) => answer.status,
        () => 0,
      );
      if (status === 200) ready.add(port);
      else ready.delete(port);
      await delay(PROBE_MS, undefined, { signal: stopped.signal }).catch(() => {});
    }
  };
  const server = createServer((client) => {
    const able = ports.filter((port) => ready.has(port));
    const port = able[turn++ % able.length];
    if (port === undefined) {
      client.destroy();
      return;
    }
    const upstream = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.once('close', () => {
        sockets.delete(from);
        to.destroySoon();
      });
      from.on('error', () => to.destroy());
      from.pipe(to);
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterTest(async () => {
    stopped.abort();
    for (const socket of sockets) socket.destroy();
    server.close();
    await probes.close();
  });

  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `https://localhost:${port}`,
    get ready() {
      return ready.size;
    },
    add: (other) => {
      ports.push(other.port);
      void probe(other.port);
    },
  };
}
