import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { afterTest } from './after-test.ts';

/** Stands before a server on loopback, and makes what it answers late or short. */
export interface TcpProxy {
  readonly port: number;
  /** Each piece of an answer is passed on so much later, in milliseconds. */
  delayMs: number;
  /** So many more answers of 150 bytes and more are cut in their middle, and the connection with them. */
  cuts: number;
}

const LONG_BYTES = 150;

/** Inside a test it is stopped when the test ends. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const proxy = { port: 0, delayMs: 0, cuts: 0 };
  const server = createServer((client) => {
    const behind = connect(target, '127.0.0.1');
    for (const [socket, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    client.pipe(behind);
    behind.on('data', (piece) => {
      if (proxy.cuts > 0 && piece.length >= LONG_BYTES) {
        proxy.cuts -= 1;
        client.end(piece.subarray(0, piece.length / 2), () => client.destroy());
      } else if (proxy.delayMs > 0) {
        setTimeout(() => client.writable && client.write(piece), proxy.delayMs);
      } else client.write(piece);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy.port = (server.address() as { port: number }).port;
  afterTest(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return proxy;
}
