import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { IntegrityMismatch, UpstreamUnreachable } from '../../src/errors.ts';
import { CONTENT, readable, SHA256, STORED_AT, start, ZIP_PATH } from './harness.ts';

const described = { size: CONTENT.length, sha256: SHA256, storedAt: STORED_AT };

test('a stored archive is sent whole, with everything that lets caches keep it for good', async () => {
  const { ask } = await start({ openArchive: async () => readable() });
  const answer = await ask(`GET ${ZIP_PATH}`, 'Accept-Encoding: gzip');
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(answer.body.equals(CONTENT)).toBe(true);
  expect(answer.headers).toMatchObject({
    'content-type': 'application/zip',
    'content-length': '1000',
    'accept-ranges': 'bytes',
    'cache-control': 'public, max-age=31536000, immutable',
    etag: `"${SHA256}"`,
    'last-modified': 'Fri, 02 Jan 2026 03:04:05 GMT',
  });
  expect(answer.headers['content-encoding']).toBeUndefined();
  expect(answer.headers['transfer-encoding']).toBeUndefined();
});

test('an archive of unknown length comes in chunks and promises no ranges', async () => {
  const { ask } = await start({
    openArchive: async () => readable({ state: 'arriving', size: undefined, storedAt: undefined }),
  });
  const answer = await ask(`GET ${ZIP_PATH}`, 'Range: bytes=0-9');
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(answer.headers['transfer-encoding']).toBe('chunked');
  expect(answer.headers['content-length']).toBeUndefined();
  expect(answer.headers['accept-ranges']).toBeUndefined();
  expect(answer.headers['last-modified']).toBeUndefined();
  expect(answer.body.toString('latin1').endsWith('\r\n0\r\n\r\n')).toBe(true);
});

test('R16: HEAD tells the length of what GET would send, and opens nothing', async () => {
  const { ask, mirror } = await start({ describeArchive: async () => described, openArchive: async () => readable() });
  const head = await ask(`HEAD ${ZIP_PATH}`);
  expect(head.statusLine).toBe('HTTP/1.1 200 OK');
  expect(head.body.length).toBe(0);
  expect(mirror.asked).toEqual([expect.stringMatching(/^describe /)]);

  const got = await ask(`GET ${ZIP_PATH}`);
  for (const answer of [head, got]) for (const name of ['date', 'x-request-id']) delete (answer.headers as never)[name];
  expect(head.headers).toEqual(got.headers);
});

test.each([undefined, 0])('L13: HEAD of an archive of length %s says nothing of a length', async (size) => {
  const { ask } = await start({ describeArchive: async () => ({ size, sha256: undefined, storedAt: undefined }) });
  const head = await ask(`HEAD ${ZIP_PATH}`);
  expect(head.statusLine).toBe('HTTP/1.1 200 OK');
  for (const name of ['content-length', 'transfer-encoding', 'accept-ranges', 'etag', 'last-modified']) {
    expect(head.headers[name]).toBeUndefined();
  }
  expect(head.body.length).toBe(0);
});

test('HEAD without a length leaves the connection usable', async () => {
  const { port } = await start({
    describeArchive: async () => ({ size: undefined, sha256: undefined, storedAt: undefined }),
  });
  const socket = await connected(port);
  for (let round = 0; round < 2; round += 1) {
    socket.write(`HEAD ${ZIP_PATH} HTTP/1.1\r\nHost: larder.test\r\n\r\n`);
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    expect(chunk.toString()).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n\r\n$/);
  }
  socket.destroy();
});

test('a client that has the archive is told so, and nothing is opened', async () => {
  const { ask, mirror } = await start({ describeArchive: async () => described });
  for (const method of ['GET', 'HEAD']) {
    const answer = await ask(`${method} ${ZIP_PATH}`, `If-None-Match: "${SHA256}"`);
    expect(answer.statusLine).toBe('HTTP/1.1 304 Not Modified');
    expect(answer.headers['etag']).toBe(`"${SHA256}"`);
    expect(answer.headers['cache-control']).toBe('public, max-age=31536000, immutable');
    expect(answer.headers['content-length']).toBeUndefined();
    expect(answer.headers['transfer-encoding']).toBeUndefined();
    expect(answer.body.length).toBe(0);
  }
  expect(mirror.asked.some((question) => question.startsWith('open'))).toBe(false);
});

test('a client that has another archive gets this one', async () => {
  const { ask } = await start({ describeArchive: async () => described, openArchive: async () => readable() });
  const answer = await ask(`GET ${ZIP_PATH}`, 'If-None-Match: "something else"');
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(answer.body.equals(CONTENT)).toBe(true);
});

test.each([
  ['bytes=100-199', 100, 199],
  ['bytes=0-0', 0, 0],
  ['bytes=900-', 900, 999],
  ['bytes=-10', 990, 999],
  ['bytes=-5000', 0, 999],
  ['bytes=990-5000', 990, 999],
])('R21: %s is answered with exactly these bytes', async (header, first, last) => {
  const { ask } = await start({ openArchive: async () => readable() });
  const answer = await ask(`GET ${ZIP_PATH}`, `Range: ${header}`, 'Accept-Encoding: gzip');
  expect(answer.statusLine).toBe('HTTP/1.1 206 Partial Content');
  expect(answer.headers['content-range']).toBe(`bytes ${first}-${last}/1000`);
  expect(answer.headers['content-length']).toBe(String(last - first + 1));
  expect(answer.headers['etag']).toBe(`"${SHA256}"`);
  expect(answer.headers['content-encoding']).toBeUndefined();
  expect(answer.body.equals(CONTENT.subarray(first, last + 1))).toBe(true);
});

test.each(['bytes=1000-', 'bytes=5000-6000', 'bytes=-0'])('%s lies outside and is refused', async (header) => {
  const { ask } = await start({ openArchive: async () => readable() });
  const answer = await ask(`GET ${ZIP_PATH}`, `Range: ${header}`);
  expect(answer.statusLine).toBe('HTTP/1.1 416 Range Not Satisfiable');
  expect(answer.headers['content-range']).toBe('bytes */1000');
  expect(answer.headers['content-type']).toBe('application/json');
  expect(answer.json()['code']).toBe('RANGE_NOT_SATISFIABLE');
});

test.each(['bytes=0-1,5-6', 'bytes=9-3', 'items=0-5', 'bytes=a-b', 'bytes=-'])(
  '%s is answered with the whole archive',
  async (header) => {
    const { ask } = await start({ openArchive: async () => readable() });
    const answer = await ask(`GET ${ZIP_PATH}`, `Range: ${header}`);
    expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
    expect(answer.body.equals(CONTENT)).toBe(true);
  },
);

test.each([
  [`"${SHA256}"`, '206 Partial Content'],
  ['Fri, 02 Jan 2026 03:04:05 GMT', '206 Partial Content'],
  ['"another"', '200 OK'],
  [`W/"${SHA256}"`, '200 OK'],
  ['Thu, 01 Jan 2026 00:00:00 GMT', '200 OK'],
])('If-Range: %s is answered with %s', async (condition, status) => {
  const { ask } = await start({ openArchive: async () => readable() });
  const answer = await ask(`GET ${ZIP_PATH}`, 'Range: bytes=0-9', `If-Range: ${condition}`);
  expect(answer.statusLine).toBe(`HTTP/1.1 ${status}`);
});

test('a failure before the first byte is told in words', async () => {
  const { ask } = await start({
    openArchive: async () =>
      readable({
        state: 'arriving',
        body: () =>
          new Readable({
            read() {
              this.destroy(new UpstreamUnreachable('registry.example.com', 'connection', 'refused the connection'));
            },
          }),
      }),
  });
  const answer = await ask(`GET ${ZIP_PATH}`);
  expect(answer.statusLine).toBe('HTTP/1.1 502 Bad Gateway');
  expect(answer.json()).toMatchObject({ errors: ['registry.example.com refused the connection'] });
  expect(answer.headers['cache-control']).toBe('no-store');
  expect(answer.headers['etag']).toBeUndefined();
  expect(answer.headers['content-length']).toBe(String(answer.body.length));
});

test.each([
  ['of known length', CONTENT.length],
  ['in chunks', undefined],
])('a failure after the first byte breaks the connection off: %s', async (_name, size) => {
  const body = new PassThrough();
  const { port, log } = await start({
    openArchive: async () => readable({ state: 'arriving', size, body: () => body }),
  });
  const socket = await connected(port);
  const received: Buffer[] = [];
  socket.on('data', (chunk) => received.push(chunk));
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  // Without "Connection: close": it is the failure that must end it.
  socket.write(`GET ${ZIP_PATH} HTTP/1.1\r\nHost: larder.test\r\n\r\n`);
  body.write(CONTENT.subarray(0, 400));
  await expect.poll(() => Buffer.concat(received).includes(CONTENT.subarray(0, 400))).toBe(true);
  body.destroy(new IntegrityMismatch('the digest does not match'));
  await closed;

  expect(Buffer.concat(received).toString('latin1')).not.toMatch(/\r\n0\r\n\r\n$|digest/);
  expect((await log.entry('request')).fields['outcome']).toBe('aborted');
  expect((await log.entry('request failed')).fields['error']).toBeInstanceOf(IntegrityMismatch);
});

test('a stream that ends too early breaks the connection off, lest the client wait for the rest', async () => {
  const { exchange, log } = await start({
    openArchive: async () => readable({ body: () => Readable.from([CONTENT.subarray(0, 400)]) }),
  });
  const answer = await exchange(`GET ${ZIP_PATH} HTTP/1.1\nHost: larder.test\n\n`);
  expect(answer.headers['content-length']).toBe('1000');
  expect(answer.body.length).toBeLessThan(1000);
  expect((await log.entry('request')).fields['outcome']).toBe('aborted');
});

test('a client that hangs up destroys its own stream, and nobody else’s', async () => {
  const streams = [new PassThrough(), new PassThrough()];
  let opened = 0;
  const { port, log } = await start({
    openArchive: async () => readable({ state: 'arriving', body: () => streams[opened++] as PassThrough }),
  });
  const [first, second] = [await connected(port), await connected(port)];
  for (const [index, socket] of [first, second].entries()) {
    socket.write(`GET ${ZIP_PATH} HTTP/1.1\r\nHost: larder.test\r\n\r\n`);
    streams[index]?.write(CONTENT.subarray(0, 10));
    await once(socket, 'data');
  }
  first.destroy();
  await once(streams[0] as PassThrough, 'close');
  expect(streams[0]?.destroyed).toBe(true);
  expect(streams[1]?.destroyed).toBe(false);
  expect((await log.entry('request')).fields['outcome']).toBe('aborted');
  expect(log.entries.some(({ level }) => level === 'error' || level === 'warn')).toBe(false);
  second.destroy();
});

test('a client that hangs up while a download is beginning opens no stream', async () => {
  let proceed = () => {};
  const proceeding = new Promise<void>((resolve) => {
    proceed = resolve;
  });
  let streamed = false;
  const { port, log, mirror } = await start({
    openArchive: async () => {
      await proceeding;
      return readable({
        body: () => {
          streamed = true;
          return Readable.from([CONTENT]);
        },
      });
    },
  });
  const socket = await connected(port);
  socket.write(`GET ${ZIP_PATH} HTTP/1.1\r\nHost: larder.test\r\n\r\n`);
  await expect.poll(() => mirror.asked.length).toBe(1);
  socket.destroy();
  expect((await log.entry('request')).fields).toMatchObject({ outcome: 'aborted', status: undefined });
  proceed();
  await new Promise((resolve) => setImmediate(resolve));
  expect(streamed).toBe(false);
});

test('a slow client slows the stream down instead of filling memory', async () => {
  let produced = 0;
  const endless = new Readable({
    highWaterMark: 64 * 1024,
    read() {
      produced += 64 * 1024;
      this.push(Buffer.alloc(64 * 1024));
    },
  });
  const { port } = await start({ openArchive: async () => readable({ size: undefined, body: () => endless }) });
  const socket = await connected(port);
  socket.write(`GET ${ZIP_PATH} HTTP/1.1\r\nHost: larder.test\r\n\r\n`);
  await once(socket, 'data');
  socket.pause();
  // It stands still once the buffers on the way are full.
  let before = -1;
  await expect
    .poll(
      () => {
        const still = before === produced;
        before = produced;
        return still;
      },
      { interval: 100 },
    )
    .toBe(true);
  expect(produced).toBeLessThan(64 * 1024 * 1024);
  socket.destroy();
  await once(endless, 'close');
});

async function connected(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  return socket;
}
