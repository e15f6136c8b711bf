import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { setTimeout as passed } from 'node:timers/promises';

/** Descriptors of this process are looked at so often, in milliseconds. */
const LOOK_MS = 50;

/** Open descriptors of a process: of this one, unless told. Linux only. */
export async function descriptors(pid: number | 'self' = 'self'): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length;
}

/**
 * Waits until there are no more descriptors than that.
 * @returns how many there are, after `limitMs` at the latest
 */
export async function descriptorsDownTo(most: number, limitMs = 10_000): Promise<number> {
  const until = performance.now() + limitMs;
  let open = await descriptors();
  while (open > most && performance.now() < until) {
    await passed(LOOK_MS);
    open = await descriptors();
  }
  return open;
}

/** A client that does as it is told, and never minds what becomes of its connection. */
export interface Rude {
  readonly socket: Socket;
  /** What came so far, as Latin-1. */
  readonly text: () => string;
  readonly closed: Promise<void>;
}

export async function rude(port: number): Promise<Rude> {
  const socket = connect(port, '127.0.0.1');
  const chunks: Buffer[] = [];
  socket.on('error', () => {}).on('data', (chunk) => chunks.push(chunk));
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await once(socket, 'connect');
  return { socket, text: () => Buffer.concat(chunks).toString('latin1'), closed };
}

/** How many connections are made at a time: the system keeps a short queue of those not accepted yet. */
const AT_ONCE = 200;

/** Connections on which nothing is ever sent. */
export async function idleConnections(port: number, count: number): Promise<Rude[]> {
  const open: Rude[] = [];
  while (open.length < count) {
    const more = Math.min(AT_ONCE, count - open.length);
    open.push(...(await Promise.all(Array.from({ length: more }, () => rude(port)))));
  }
  return open;
}

/** One request on a connection of its own. @returns all of the answer */
export async function askOnce(port: number): Promise<string> {
  const { socket, closed, text } = await rude(port);
  socket.write('GET / HTTP/1.1\r\nHost: larder.test\r\nConnection: close\r\n\r\n');
  await closed;
  return text();
}
