import { once } from 'node:events';
import { Readable } from 'node:stream';
import { setTimeout as passed } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { NotFound } from '../../src/errors.ts';
import { CONTENT, readable, SHA256, STORED_AT, start, ZIP_PATH } from './harness.ts';
import { descriptors, descriptorsDownTo, idleConnections, type Rude, rude } from './hostile-scene.ts';

const GET = (path: string, ...headers: string[]) =>
  `${[`GET ${path} HTTP/1.1`, 'Host: larder.test', ...headers].join('\r\n')}\r\n\r\n`;

const MIB = 1024 * 1024;
const PIECE = Buffer.alloc(64 * 1024, 'x');
/** What the buffers of the system and of both ends hold together, generously. */
const BUFFERED_BYTES = 24 * MIB;

/** Archives of that size, made while they are read. */
function large(bytes: number) {
  const streams: Readable[] = [];
  let made = 0;
  const body = () => {
    const stream = Readable.from(
      (function* () {
        for (let sent = 0; sent < bytes; sent += PIECE.length) {
          made += PIECE.length;
          yield PIECE;
        }
      })(),
      { objectMode: false },
    );
    streams.push(stream);
    return stream;
  };
  return { archive: readable({ body, size: bytes }), streams, made: () => made };
}

function leaving(client: Rude): Rude {
  onTestFinished(() => void client.socket.destroy());
  return client;
}

test('a client that stops reading holds no more than buffers do, and is dropped in the end', async () => {
  const { archive, streams, made } = large(256 * MIB);
  const { port } = await start({ openArchive: async () => archive }, { limits: { stallMs: 500 } });
  const client = leaving(await rude(port));
  client.socket.write(GET(ZIP_PATH));
  await once(client.socket, 'data');
  client.socket.pause();
  await expect.poll(() => streams[0]?.destroyed, { timeout: 20_000 }).toBe(true);
  expect(made()).toBeLessThan(BUFFERED_BYTES);
  // What was on its way is read, then the connection turns out to be gone.
  client.socket.resume();
  await client.closed;
  expect(client.text().length).toBeLessThan(256 * MIB);
});

test('a client that reads slowly, but reads, is sent everything', async () => {
  const size = 24 * MIB;
  const { archive } = large(size);
  const { port } = await start({ openArchive: async () => archive }, { limits: { stallMs: 1_000 } });
  const client = leaving(await rude(port));
  const began = performance.now();
  let received = 0;
  client.socket.on('data', (chunk: Buffer) => {
    received += chunk.length;
    client.socket.pause();
    setTimeout(() => client.socket.resume(), 4);
  });
  client.socket.write(GET(ZIP_PATH, 'Connection: close'));
  await client.closed;
  expect(received).toBeGreaterThan(size);
  // Longer than anybody may stand still.
  expect(performance.now() - began).toBeGreaterThan(1_000);
});

test('an answer that takes long to begin is no stalled client', async () => {
  const { port } = await start(
    {
      openArchive: async () => {
        await passed(900);
        return readable();
      },
    },
    { limits: { stallMs: 150 } },
  );
  const client = leaving(await rude(port));
  client.socket.write(GET(ZIP_PATH, 'Connection: close'));
  await client.closed;
  expect(client.text()).toContain('HTTP/1.1 200 OK');
});

test('clients that send headers byte by byte are told that it took too long, and leave nothing behind', async () => {
  const { port, ask } = await start({}, { limits: { headersMs: 600 } });
  await ask('GET /healthz');
  const before = await descriptors();
  const clients = await Promise.all(Array.from({ length: 100 }, () => rude(port)));
  const dripping = setInterval(() => {
    for (const { socket } of clients) if (socket.writable) socket.write('G');
  }, 50);
  onTestFinished(() => clearInterval(dripping));
  await Promise.all(clients.map(({ closed }) => closed));
  expect(clients.filter(({ text }) => /^HTTP\/1\.1 (?:408|400) /.test(text())).length).toBe(100);
  expect(await descriptorsDownTo(before)).toBeLessThanOrEqual(before);
});

test('clients that send bodies byte by byte are told that it took too long', async () => {
  const { port, ask } = await start({}, { limits: { bodyMs: 600, silenceMs: 600 } });
  await ask('GET /healthz');
  const before = await descriptors();
  const clients = await Promise.all(Array.from({ length: 50 }, () => rude(port)));
  for (const { socket } of clients) {
    socket.write('POST /providers HTTP/1.1\r\nHost: larder.test\r\nContent-Length: 100000\r\n\r\n');
  }
  const dripping = setInterval(() => {
    for (const { socket } of clients) if (socket.writable) socket.write('x');
  }, 50);
  onTestFinished(() => clearInterval(dripping));
  await Promise.all(clients.map(({ closed }) => closed));
  expect(await descriptorsDownTo(before)).toBeLessThanOrEqual(before);
});

test('a hundred requests in one piece on one connection are answered in their order', async () => {
  const { port } = await start({
    openArchive: async ({ version }) => {
      // The later, the faster.
      await passed(version.toString() === '1.0.0' ? 5 : 0);
      if (version.toString() !== '1.0.0') throw new NotFound('not here');
      return readable();
    },
    describeArchive: async () => ({ size: CONTENT.length, sha256: SHA256, storedAt: STORED_AT }),
  });
  const client = leaving(await rude(port));
  const kinds = [ZIP_PATH, ZIP_PATH.replace('1.0.0', '2.0.0'), '/healthz', '/providers/%zz'];
  const last = { length: 100 };
  const requests = Array.from(last, (_, nth) =>
    GET(
      kinds[nth % kinds.length] ?? '',
      `X-Request-Id: nth-${nth}`,
      ...(nth % 8 === 0 ? ['Range: bytes=10-19'] : []),
      ...(nth === 99 ? ['Connection: close'] : []),
    ),
  );
  client.socket.write(requests.join(''));
  await client.closed;
  const answers = [...client.text().matchAll(/HTTP\/1\.1 (\d{3}) [\s\S]*?x-request-id: ([\w-]+)/gi)];
  expect(answers.map(([, , id]) => id)).toEqual(Array.from(last, (_, nth) => `nth-${nth}`));
  const expected = ['200', '404', '200', '400'];
  expect(answers.map(([, status]) => status)).toEqual(
    Array.from(last, (_, nth) => (nth % 8 === 0 ? '206' : expected[nth % expected.length])),
  );
});

test('two thousand idle connections keep nobody from being served, and their descriptors come back', async () => {
  const { port, ask } = await start({}, { limits: { headersMs: 20_000 } });
  await ask('GET /healthz');
  const before = await descriptors();
  const idle = await idleConnections(port, 2_000);
  onTestFinished(() => {
    for (const { socket } of idle) socket.destroy();
  });
  // Both ends are in this process.
  await expect.poll(() => descriptors(), { timeout: 20_000 }).toBeGreaterThanOrEqual(before + 4_000);
  expect((await ask('GET /healthz')).statusLine).toContain('200');
  for (const { socket } of idle) socket.resetAndDestroy();
  await Promise.all(idle.map(({ closed }) => closed));
  expect(await descriptorsDownTo(before)).toBeLessThanOrEqual(before);
});

test('connections on which nothing is ever asked are closed', async () => {
  const { port, ask } = await start({}, { limits: { headersMs: 400 } });
  await ask('GET /healthz');
  const before = await descriptors();
  const idle = await idleConnections(port, 50);
  await Promise.all(idle.map(({ closed }) => closed));
  expect(await descriptorsDownTo(before)).toBeLessThanOrEqual(before);
});

test.each([
  ['one header without an end', () => `X-Bomb: ${'a'.repeat(60_000)}`],
  ['more headers than anybody has', () => 'X-Bomb: a\r\n'.repeat(6_000)],
  ['a target without an end', () => ''],
])('%s is refused with 431, however many send it', async (_, bomb) => {
  const { port, ask } = await start();
  await ask('GET /healthz');
  const before = await descriptors();
  const clients = await Promise.all(Array.from({ length: 30 }, () => rude(port)));
  const headers = bomb();
  const target = headers === '' ? `/${'a'.repeat(60_000)}` : '/healthz';
  for (const { socket } of clients) socket.write(`GET ${target} HTTP/1.1\r\nHost: larder.test\r\n${headers}`);
  await Promise.all(clients.map(({ closed }) => closed));
  for (const { text } of clients) {
    expect(text()).toMatch(/^HTTP\/1\.1 431 /);
    expect(text()).toContain('HEADERS_TOO_LARGE');
  }
  expect((await ask('GET /healthz')).statusLine).toContain('200');
  expect(await descriptorsDownTo(before)).toBeLessThanOrEqual(before);
});

test('clients that go away at any moment leave no stream, no descriptor and no defect behind', async () => {
  const opened: Readable[] = [];
  const body = () => {
    const stream = new Readable({ read: () => {} });
    opened.push(stream);
    void (async () => {
      for (let at = 0; at < 10 && !stream.destroyed; at += 1) {
        await passed(3);
        if (!stream.destroyed) stream.push(PIECE);
      }
      if (!stream.destroyed) stream.push(null);
    })();
    return stream;
  };
  const { port, log, ask } = await start({
    openArchive: async () => {
      await passed(5);
      return readable({ body, size: 10 * PIECE.length });
    },
    describeArchive: async () => ({ size: 10 * PIECE.length, sha256: SHA256, storedAt: STORED_AT }),
  });
  await ask('GET /healthz');
  const before = await descriptors();
  const request = GET(ZIP_PATH, 'Range: bytes=1-');

  const leaveAfter = async (sent: number, waitMs: number, received: number) => {
    const client = await rude(port);
    client.socket.write(request.slice(0, sent));
    if (received > 0) {
      let bytes = 0;
      await new Promise<void>((resolve) => {
        client.socket.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes >= received) resolve();
        });
        client.socket.once('close', () => resolve());
      });
    } else {
      await passed(waitMs);
    }
    if (sent % 2 === 0) client.socket.resetAndDestroy();
    else client.socket.destroy();
    await client.closed;
  };
  // In the middle of the request; while an answer is being looked for; before, in and at the end of its body.
  const whole = request.length;
  await Promise.all([
    ...Array.from({ length: whole }, (_, sent) => leaveAfter(sent, sent % 5, 0)),
    ...Array.from({ length: 40 }, (_, nth) => leaveAfter(whole, nth, 0)),
    ...Array.from({ length: 40 }, (_, nth) => leaveAfter(whole + (nth % 2), 0, 1 + nth * 16_500)),
  ]);
  expect(await descriptorsDownTo(before)).toBeLessThanOrEqual(before);
  expect(opened.length).toBeGreaterThan(0);
  await expect.poll(() => opened.filter(({ destroyed }) => !destroyed).length).toBe(0);
  expect(log.entries.filter(({ level }) => level === 'error' || level === 'warn')).toEqual([]);
  expect((await ask(`HEAD ${ZIP_PATH}`)).statusLine).toContain('200');
});
