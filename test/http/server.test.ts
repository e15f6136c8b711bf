import { once } from 'node:events';
import http, { type RequestListener } from 'node:http';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import express from 'express';
import { expect, onTestFinished, test } from 'vitest';
import { messageClassesOf } from '../../src/http/express-messages.ts';
import { HttpServer } from '../../src/http/server.ts';

/** Answers when told to; `/headers` sends its headers at once. */
function held(): { handler: RequestListener; arrived: Promise<void>; release: () => void } {
  let release = () => {};
  let arrive = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const handler: RequestListener = async (req, res) => {
    if (req.url === '/now') return void res.end('now');
    if (req.url === '/headers') res.writeHead(200, { 'Content-Length': 4 }).flushHeaders();
    arrive();
    await released;
    res.end('done');
  };
  return { handler, arrived, release };
}

async function listening(handler: RequestListener): Promise<{ server: HttpServer; port: number }> {
  const server = new HttpServer({ handler });
  const port = await server.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => server.drain(0));
  return { server, port };
}

async function opened(port: number): Promise<{ socket: Socket; text: () => string; closed: Promise<unknown> }> {
  const socket = connect(port, '127.0.0.1');
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await once(socket, 'connect');
  return { socket, text: () => Buffer.concat(chunks).toString(), closed };
}

const GET = (path: string) => `GET ${path} HTTP/1.1\r\nHost: larder.test\r\n\r\n`;

test('draining lets an answer under way finish, closes its connection after it, and takes no new ones', async () => {
  const { handler, arrived, release } = held();
  const { server, port } = await listening(handler);
  const client = await opened(port);
  client.socket.write(GET('/'));
  await arrived;
  expect(server.isDraining).toBe(false);
  const drained = server.drain(10_000);
  expect(server.isDraining).toBe(true);
  await expect(opened(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  release();
  await Promise.all([drained, client.closed]);
  expect(client.text()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(client.text().toLowerCase()).toContain('connection: close');
  expect(client.text()).toContain('done');
});

test('draining closes a connection whose answer had promised to keep it, once that answer is out', async () => {
  const { handler, arrived, release } = held();
  const { server, port } = await listening(handler);
  const client = await opened(port);
  client.socket.write(GET('/headers'));
  await arrived;
  const drained = server.drain(10_000);
  release();
  await Promise.all([drained, client.closed]);
  expect(client.text()).toMatch(/\r\n\r\ndone$/);
});

test('draining closes idle connections at once, and lets new ones have the answer to a request on its way', async () => {
  const { handler } = held();
  const { server, port } = await listening(handler);
  const [used, unused, late] = [await opened(port), await opened(port), await opened(port)];
  used.socket.write(GET('/now'));
  await once(used.socket, 'data');
  const drained = server.drain(10_000);
  await used.closed;
  late.socket.write(GET('/now'));
  await late.closed;
  expect(late.text()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(late.text().toLowerCase()).toContain('connection: close');
  await Promise.all([drained, unused.closed]);
});

test('about to leave it serves everybody, and closes each connection after its answer', async () => {
  const { handler, arrived, release } = held();
  const { server, port } = await listening(handler);
  const [old, promised] = [await opened(port), await opened(port)];
  old.socket.write(GET('/now'));
  await once(old.socket, 'data');
  promised.socket.write(GET('/headers'));
  await arrived;
  server.leave();
  expect(server.isDraining).toBe(true);
  // Kept, as it was told, for one more request.
  release();
  await expect.poll(promised.text).toMatch(/done$/);
  for (const client of [old, promised, await opened(port)]) {
    client.socket.write(GET('/now'));
    await client.closed;
    expect(client.text()).toMatch(/connection: close\r\n/i);
  }
  await server.drain(10_000);
});

test('what is not over after the grace period is broken off', async () => {
  const { handler, arrived } = held();
  const { server, port } = await listening(handler);
  const client = await opened(port);
  client.socket.write(GET('/'));
  await arrived;
  await Promise.all([server.drain(20), client.closed]);
  expect(client.text()).toBe('');
});

test('draining twice is draining once', async () => {
  const { handler } = held();
  const { server } = await listening(handler);
  await Promise.all([server.drain(1_000), server.drain(1_000)]);
});

test('R86: a connection is kept longer than load balancers keep theirs, and headers are waited for even longer', async () => {
  const { port } = await listening((_req, res) => void res.end());
  const client = await opened(port);
  client.socket.write(GET('/'));
  await once(client.socket, 'data');
  expect(client.text()).toContain('Keep-Alive: timeout=75\r\n');
  client.socket.destroy();

  const created = await inspected();
  expect(created.keepAliveTimeout).toBeGreaterThan(60_000);
  expect(created.headersTimeout).toBeGreaterThan(created.keepAliveTimeout);
});

/** The server of node:http behind a request. */
async function inspected(): Promise<http.Server> {
  let found: http.Server | undefined;
  const { port } = await listening((req, res) => {
    found = (req.socket as Socket & { server: http.Server }).server;
    res.end();
  });
  const client = await opened(port);
  client.socket.write(GET('/'));
  await once(client.socket, 'data');
  client.socket.destroy();
  if (!found) throw new Error('the handler was not called');
  return found;
}

test('answers whose turn never came, because the client that pipelined them is gone, are over as well', async () => {
  const closed: string[] = [];
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const { port } = await listening((req, res) => {
    res.once('close', () => closed.push(req.url ?? ''));
    if (req.url === '/3') arrive();
  });
  const client = await opened(port);
  client.socket.write(GET('/1') + GET('/2') + GET('/3'));
  await arrived;
  client.socket.destroy();
  await expect.poll(() => closed.toSorted()).toEqual(['/1', '/2', '/3']);
});

test('messages have the application’s own prototypes from the beginning where Express would swap them', async () => {
  const application = express();
  let before: object | null | undefined;
  let after: object | null | undefined;
  const { port } = await listening(
    Object.assign(
      (req: http.IncomingMessage, res: http.ServerResponse) => {
        before = Object.getPrototypeOf(req) as object;
        application(req as never, res as never);
      },
      { messages: messageClassesOf(application) },
    ),
  );
  application.get('/', (req, res) => {
    after = Object.getPrototypeOf(req) as object;
    res.json({ ip: req.ip, agent: req.get('user-agent') ?? null });
  });
  const client = await opened(port);
  client.socket.write(GET('/'));
  await once(client.socket, 'data');
  expect(client.text()).toContain('{"ip":"127.0.0.1","agent":null}');
  client.socket.destroy();
  expect(before).not.toBe(http.IncomingMessage.prototype);
  expect(after).toBe(before);
});

test('a refused client that does not hang up is hung up on', async () => {
  const { port } = await listening(() => {});
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  socket.write('CONNECT registry.terraform.io:443 HTTP/1.1\r\nHost: registry.terraform.io\r\n\r\n');
  socket.resume();
  await once(socket, 'end');
  // Once the other side is gone, writing to it fails.
  const failed = once(socket, 'error').then(
    () => {},
    () => {},
  );
  const writing = setInterval(() => socket.write('x'), 50);
  await failed.finally(() => clearInterval(writing));
  expect(socket.destroyed).toBe(true);
});

test('an address that is taken is an error, not a crash', async () => {
  const { port } = await listening(() => {});
  const second = new HttpServer({ handler: () => {} });
  await expect(second.listen({ host: '127.0.0.1', port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
});

test('a handshake that fails harms nobody', async () => {
  const { loadTls } = await import('../../src/http/tls.ts');
  const { mkdtemp, rm } = await import('node:fs/promises');
  const { tmpdir } = await import('node:os');
  const { join } = await import('node:path');
  const directory = await mkdtemp(join(tmpdir(), 'larder-server-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const tls = await loadTls({ mode: 'selfsigned', directory, names: ['localhost'] });
  const server = new HttpServer({ handler: (_req, res) => void res.end('secure'), tls });
  const port = await server.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => server.drain(0));

  const plain = await opened(port);
  plain.socket.write(GET('/'));
  await plain.closed;

  const ca = tls?.authority?.certificate;
  if (!ca) throw new Error('there is no authority');
  const ask = async () => {
    const socket = connectTls({ port, host: '127.0.0.1', servername: 'localhost', ca });
    await once(socket, 'secureConnect');
    const serial = socket.getPeerCertificate().serialNumber;
    socket.write(GET('/'));
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    expect(chunk.toString()).toContain('secure');
    return { socket, serial };
  };
  const before = await ask();

  // A new certificate, as after a renewal, is for new connections.
  await rm(join(directory, 'cert.pem'));
  const renewed = await loadTls({ mode: 'selfsigned', directory, names: ['localhost'] });
  if (!renewed) throw new Error('there is no certificate');
  server.replaceCertificate(renewed);
  const after = await ask();
  expect(after.serial).not.toBe(before.serial);

  // One in the middle of its handshake does not hold up the end beyond the grace period.
  const hesitant = await opened(port);
  await Promise.all([server.drain(50), once(before.socket, 'close'), once(after.socket, 'close'), hesitant.closed]);
});
