import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as passed } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { generate } from 'selfsigned';
import { expect, onTestFinished, test } from 'vitest';
import { letBodyTakeLong } from '../../src/http/body-guard.ts';
import { HttpServer, type ServerCertificate, type ServerLimits } from '../../src/http/server.ts';

const NEVER_MS = 60_000;
const SOON_MS = 60;

/** A server that answers with the length of what it got, and a client that has sent the beginning of a request to it. */
async function sending(
  head: string,
  limits: Partial<ServerLimits>,
  { handler = counting(), tls }: { handler?: RequestListener; tls?: ServerCertificate } = {},
) {
  const server = new HttpServer({ handler, limits, tls });
  onTestFinished(() => server.drain(0));
  const port = await server.listen({ host: '127.0.0.1', port: 0 });
  const to = { port, host: '127.0.0.1' };
  const socket: Socket = tls ? connectTls({ ...to, rejectUnauthorized: false }) : connect(to);
  onTestFinished(() => void socket.destroy());
  let text = '';
  socket
    .on('error', () => {})
    .on('data', (chunk) => {
      text += chunk;
    });
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await once(socket, tls ? 'secureConnect' : 'connect');
  socket.write(head);
  return { socket, text: () => text, closed };
}

/** @param each called with every piece of a body */
function counting({ mayTakeLong = false, each = () => {} } = {}): RequestListener {
  return (req, res) => {
    if (mayTakeLong) letBodyTakeLong(req);
    let length = 0;
    req.on('data', (chunk: Buffer) => {
      length += chunk.length;
      each();
    });
    req.on('end', () => void res.end(`got ${length}`));
    req.on('error', () => {});
  };
}

const put = (length: number) => `PUT / HTTP/1.1\r\nHost: larder.test\r\nContent-Length: ${length}\r\n\r\n`;

/** Sends byte by byte, each once the one before is there, until so much time has passed. @returns how many */
async function drip(socket: Socket, ms: number): Promise<number> {
  const until = performance.now() + ms;
  let sent = 0;
  for (; performance.now() < until && !socket.destroyed; sent += 1) {
    socket.write('x');
    await passed(5);
  }
  return sent;
}

test.each(['http', 'https'])(
  'over %s, an upload that makes progress is waited for as long as it takes',
  async (how) => {
    const pair = how === 'https' ? await generate([{ name: 'commonName', value: 'larder.test' }]) : undefined;
    const tls = pair && { cert: pair.cert, key: pair.private };
    const chunked = 'PUT / HTTP/1.1\r\nHost: larder.test\r\nTransfer-Encoding: chunked\r\n\r\n';
    const limits = { bodyMs: SOON_MS, silenceMs: 2_000 };
    const client = await sending(chunked, limits, {
      handler: counting({ mayTakeLong: true }),
      ...(tls && { tls }),
    });
    // Far longer than a whole body has, and than one may be silent.
    const until = performance.now() + 2_500;
    let sent = 0;
    for (; performance.now() < until; sent += 1) {
      client.socket.write('1\r\nx\r\n');
      await passed(20);
    }
    client.socket.write('0\r\n\r\n');
    await once(client.socket, 'data');
    expect(client.text()).toMatch(new RegExp(`^HTTP/1.1 200 OK\r\n[\\s\\S]*got ${sent}`));
  },
);

test('an upload of which nothing comes any more is told so, and hung up on', async () => {
  let whoeverReads: Promise<unknown> | undefined;
  const handler: RequestListener = (req, res) => {
    whoeverReads = new Promise((resolve) => req.once('close', () => resolve(req.complete)));
    counting({ mayTakeLong: true })(req, res);
  };
  const client = await sending(`${put(1_000)}abc`, { bodyMs: NEVER_MS, silenceMs: SOON_MS }, { handler });
  await client.closed;
  expect(await whoeverReads).toBe(false);
  expect(client.text()).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
  expect(client.text()).toContain('{"errors":["the request did not arrive in time"],"code":"REQUEST_TIMEOUT"}');
});

test('what comes byte by byte to hold a connection is hung up on, unless its door wants uploads', async () => {
  const client = await sending(put(1_000_000), { bodyMs: SOON_MS, silenceMs: NEVER_MS });
  const sent = await drip(client.socket, NEVER_MS);
  await client.closed;
  expect(sent).toBeGreaterThan(1);
  expect(client.text()).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
});

test('headers that come byte by byte are not waited for either', async () => {
  const client = await sending('GET / HTTP/1.1\r\nHost: larder.test\r\nX-Slow: ', { headersMs: SOON_MS });
  await drip(client.socket, NEVER_MS);
  await client.closed;
  expect(client.text()).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
});

test('nobody is hung up on for what Larder itself has not read yet', async () => {
  let take = () => {};
  const handler: RequestListener = (req, res) => {
    letBodyTakeLong(req);
    take = () => counting({ mayTakeLong: true })(req, res);
  };
  const length = 4_000_000;
  const client = await sending(put(length), { bodyMs: NEVER_MS, silenceMs: SOON_MS }, { handler });
  client.socket.write(Buffer.alloc(length));
  await passed(SOON_MS * 6);
  expect(client.text()).toBe('');
  take();
  await once(client.socket, 'data');
  expect(client.text()).toContain(`got ${length}`);
});

test('what is still sent after the answer has as long as any small body', async () => {
  const handler: RequestListener = (req, res) => {
    letBodyTakeLong(req);
    res.end('refused');
  };
  const client = await sending(put(1_000_000), { bodyMs: SOON_MS, silenceMs: NEVER_MS }, { handler });
  await drip(client.socket, NEVER_MS);
  await client.closed;
  expect(client.text()).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*refused$/);
});

test('answers take as long as they take, and so does whoever asks for the next', async () => {
  const handler: RequestListener = (req, res) => {
    req.resume();
    setTimeout(() => res.end('at last'), SOON_MS * 5);
  };
  const limits = { bodyMs: SOON_MS, silenceMs: SOON_MS };
  const client = await sending('GET / HTTP/1.1\r\nHost: larder.test\r\n\r\n', limits, { handler });
  await once(client.socket, 'data');
  await passed(SOON_MS * 3);
  client.socket.write(`${put(3)}abc`);
  await once(client.socket, 'data');
  expect(client.text()).toMatch(/at last[\s\S]*at last$/);
});
