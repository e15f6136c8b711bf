import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { InvalidConfiguration } from '../../src/errors.ts';
import { silentLogger } from '../../src/logger.ts';
import { whenUsable } from '../../src/upstream/credentials.ts';
import type { HttpClient } from '../../src/upstream/http-client.ts';
import type { Upstream } from '../../src/upstream/upstream.ts';
import { CertificateAuthority } from '../support/certificates.ts';
import {
  clientFor,
  connectProxy,
  failureOf,
  patience,
  type ScriptedServer,
  serve,
  upstreamAt,
} from './scripted-server.ts';

function get(
  client: HttpClient,
  upstream: Upstream,
  url: string,
  options: Partial<Parameters<HttpClient['fetchBody']>[0]> = {},
) {
  return client.fetchBody({
    upstream,
    url: new URL(url),
    authenticate: false,
    maxBytes: 100_000,
    maxRedirects: 3,
    signal: patience(),
    ...options,
  });
}

/** One request against a server that answers like this. */
async function answered(handler: Parameters<typeof serve>[0], limits = {}) {
  const server = await serve(handler);
  const upstream = await upstreamAt(server.host);
  const client = clientFor({ limits });
  return { server, upstream, client, ask: () => get(client, upstream, `${server.origin}/thing?sig=SECRET`) };
}

describe('a small answer', () => {
  test('arrives whole, with plain headers, its final address and nothing but what was asked for on the way', async () => {
    const { server, ask } = await answered((_, response) => response.setHeader('X-One', ['a', 'b']).end('hello'));
    const { status, body, headers, url } = await ask();
    expect([status, body.toString(), headers['x-one'], url.href]).toEqual([
      200,
      'hello',
      'a, b',
      `${server.origin}/thing?sig=SECRET`,
    ]);
    expect(server.requests[0]?.headers).toMatchObject({ 'user-agent': 'Larder/test', 'accept-encoding': 'identity' });
    expect(server.requests[0]?.headers).not.toHaveProperty('authorization');
  });

  test('reuses connections for requests that follow each other, redirects and errors among them', async () => {
    const { server, client, upstream } = await answered((request, response) => {
      if (request.url === '/from') response.writeHead(302, { location: '/to' }).end('moved');
      else if (request.url === '/absent') response.writeHead(404).end('absent');
      else response.end('ok');
    });
    for (let i = 0; i < 3; i++) {
      await get(client, upstream, `${server.origin}/from`);
      await failureOf(get(client, upstream, `${server.origin}/absent`));
    }
    // Nobody waits for the rest of a refused answer, so that a second connection may be needed meanwhile.
    expect(server.connections()).toBeLessThanOrEqual(2);
  });

  test.each([
    ['declared', { 'content-length': '200000' }],
    ['streamed', {}],
  ])('larger than the limit is nonsense (%s)', async (_, headers) => {
    const { ask } = await answered((__, response) => response.writeHead(200, headers).end(Buffer.alloc(200_000)));
    expect(await failureOf(ask())).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringMatching(/100000/),
    });
  });

  test('is unpacked when it comes compressed unasked', async () => {
    const { ask } = await answered((_, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('hello')),
    );
    expect((await ask()).body.toString()).toBe('hello');
  });

  test('a compressed bomb is stopped at the limit', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000));
    const { ask } = await answered((_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb));
    expect(bomb.length).toBeLessThan(100_000);
    expect(await failureOf(ask())).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringMatching(/100000/),
    });
  });

  test('damaged or unknown encodings are nonsense', async () => {
    for (const encoding of ['gzip', 'zzz']) {
      const { ask } = await answered((_, response) =>
        response.writeHead(200, { 'content-encoding': encoding }).end('not packed'),
      );
      expect(await failureOf(ask())).toMatchObject({ code: 'UPSTREAM_INVALID' });
    }
  });
});

describe('statuses', () => {
  test('204 is an answer to those who take it for one, empty and told as what it is', async () => {
    const { client, upstream, server } = await answered((_, response) =>
      response.writeHead(204, { 'x-terraform-get': './x.tar.gz' }).end(),
    );
    const asked = get(client, upstream, server.origin, { statuses: [200, 204], headers: { 'x-one': '1' } });
    expect(await asked).toMatchObject({ status: 204, headers: { 'x-terraform-get': './x.tar.gz' } });
    expect((await asked).body).toHaveLength(0);
    expect(server.requests[0]?.headers).toMatchObject({ 'x-one': '1', 'user-agent': 'Larder/test' });
  });

  test.each([
    [404, 'NOT_FOUND'],
    [410, 'NOT_FOUND'],
    [401, 'UPSTREAM_REFUSED'],
    [403, 'UPSTREAM_REFUSED'],
    [204, 'UPSTREAM_INVALID'],
    [206, 'UPSTREAM_INVALID'],
    [304, 'UPSTREAM_INVALID'],
    [400, 'UPSTREAM_INVALID'],
    [418, 'UPSTREAM_INVALID'],
  ])('%i is %s, asked once, named without the query', async (status, code) => {
    const { server, ask } = await answered((_, response) => response.writeHead(status).end());
    const failure = await failureOf(ask());
    expect(failure).toMatchObject({ code, message: expect.stringContaining(server.host) });
    expect(failure.message).toContain('/thing');
    expect(JSON.stringify([failure.message, failure['hint']])).not.toContain('SECRET');
    expect(server.requests).toHaveLength(1);
  });

  test.each([500, 502, 503, 504])('%i is tried again twice and then said to be failing', async (status) => {
    const { server, ask } = await answered((_, response) => response.writeHead(status).end());
    expect(await failureOf(ask())).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'failing' });
    expect(server.requests).toHaveLength(3);
  });

  test('501 means the same each time: asked once', async () => {
    const { server, ask } = await answered((_, response) => response.writeHead(501).end());
    expect(await failureOf(ask())).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'failing' });
    expect(server.requests).toHaveLength(1);
  });

  test('a server that recovers within the attempts is no failure', async () => {
    let calls = 0;
    const { ask } = await answered((_, response) => response.writeHead(++calls < 3 ? 503 : 200).end('ok'));
    expect((await ask()).body.toString()).toBe('ok');
  });

  test('R46: 429 is waited for as long as Retry-After says', async () => {
    const times: number[] = [];
    const { ask } = await answered((_, response) => {
      times.push(performance.now());
      if (times.length === 1) response.writeHead(429, { 'retry-after': '1' }).end();
      else response.end('ok');
    });
    expect((await ask()).body.toString()).toBe('ok');
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(950);
  });

  test('R46: a Retry-After beyond our patience is handed on at once, and the host left alone that long', async () => {
    let now = Date.now();
    const server = await serve((_, response) => response.writeHead(429, { 'retry-after': '40' }).end());
    const client = clientFor({ now: () => now });
    const upstream = await upstreamAt(server.host);
    const ask = () => get(client, upstream, `${server.origin}/`);
    expect(await failureOf(ask())).toMatchObject({ reason: 'busy', retryAfterMs: 40_000 });
    now += 39_000;
    expect(await failureOf(ask())).toMatchObject({ reason: 'busy', retryAfterMs: 1_000 });
    expect(server.requests).toHaveLength(1);
    now += 1_001;
    await failureOf(ask());
    expect(server.requests).toHaveLength(2);
  });

  test('waiting for Retry-After ends with the deadline, and tells of the host rather than of the clock', async () => {
    const server = await serve((_, response) => response.writeHead(503, { 'retry-after': '4' }).end());
    const controller = new AbortController();
    // Said at the beginning of the wait.
    const logger = { ...silentLogger, debug: () => controller.abort() };
    const asked = get(clientFor({ logger }), await upstreamAt(server.host), `${server.origin}/`, {
      signal: controller.signal,
    });
    expect(await failureOf(asked)).toMatchObject({ reason: 'failing', retryAfterMs: 4_000 });
    expect(server.requests).toHaveLength(1);
  });
});

describe('connections that fail', () => {
  test('refused: tried three times, and said so', async () => {
    const server = await serve(() => {});
    const upstream = await upstreamAt(server.host);
    await server.close();
    expect(await failureOf(get(clientFor(), upstream, `${server.origin}/`))).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      reason: 'connection',
      host: server.host,
      message: expect.stringMatching(/refused the connection \(ECONNREFUSED\)/),
    });
  });

  test('a name that DNS does not know', async () => {
    const upstream = await upstreamAt('registry.invalid', { privateNetwork: false });
    expect(await failureOf(get(clientFor(), upstream, 'https://registry.invalid/'))).toMatchObject({
      reason: 'connection',
      message: expect.stringMatching(/not known to DNS \(ENOTFOUND\)/),
    });
  });

  test('reset before an answer, then well: the retry succeeds', async () => {
    let calls = 0;
    const { ask } = await answered((request, response) => {
      if (++calls === 1) request.socket.destroy();
      else response.end('ok');
    });
    expect((await ask()).body.toString()).toBe('ok');
  });

  test.each([
    ['with a length', { 'content-length': '1000' }],
    ['chunked', {}],
  ])('R44: cut in the middle of the body, %s', async (_, headers) => {
    const { server, ask } = await answered((request, response) => {
      response.writeHead(200, headers).write('half', () => request.socket.destroy());
    });
    expect(await failureOf(ask())).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      reason: 'connection',
      message: expect.stringMatching(/cut the connection/),
    });
    expect(server.requests).toHaveLength(3);
  });

  test('R44: a shorter body than declared, ended cleanly, is cut as well', async () => {
    const { ask } = await answered((request, response) => {
      response
        .writeHead(200, { 'content-length': '1000', connection: 'close' })
        .write('half', () => request.socket.end());
    });
    expect(await failureOf(ask())).toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
  });

  test('something that is not HTTP is nonsense', async () => {
    const { ask } = await answered((request) => request.socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
    expect(await failureOf(ask())).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringMatching(/not HTTP/),
    });
  });

  test('no headers in time: a time-out, not tried again', async () => {
    const { server, ask } = await answered(() => {}, { headersMs: 50 });
    expect(await failureOf(ask())).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'timeout' });
    expect(server.requests).toHaveLength(1);
  });

  test('a body that stands still is a time-out', async () => {
    const { ask } = await answered((_, response) => response.writeHead(200).write('half'), { bodyIdleMs: 50 });
    expect(await failureOf(ask())).toMatchObject({
      reason: 'timeout',
      message: expect.stringMatching(/stopped sending/),
    });
  });

  test.each(['before the answer', 'in the body'])("the caller's deadline %s surfaces as a time-out", async (when) => {
    const server = await serve((_, response) => {
      if (when === 'in the body') response.writeHead(200).write('half');
    });
    const upstream = await upstreamAt(server.host);
    const client = clientFor({ now: () => 0 });
    const controller = new AbortController();
    const asked = failureOf(get(client, upstream, `${server.origin}/`, { signal: controller.signal }));
    setTimeout(() => controller.abort(new Error('enough')), 100);
    expect(await asked).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'timeout', host: server.host });
    expect(client.circuits()).toEqual([]);
  });

  test('a deadline that has passed already lets nothing out', async () => {
    const { server, client, upstream } = await answered((_, response) => response.end());
    const failure = await failureOf(get(client, upstream, `${server.origin}/`, { signal: AbortSignal.abort() }));
    expect(failure).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'timeout' });
    expect(server.requests).toHaveLength(0);
  });

  test('sealed: nothing leaves', async () => {
    let sealed = true;
    const server = await serve((_, response) => response.end('ok'));
    const upstream = await upstreamAt(server.host);
    const client = clientFor({ isSealed: () => sealed });
    expect(await failureOf(get(client, upstream, `${server.origin}/`))).toMatchObject({ reason: 'sealed' });
    expect(
      await failureOf(client.openBody({ upstream, url: new URL(server.origin), offset: 0, signal: patience() })),
    ).toMatchObject({ reason: 'sealed' });
    expect(await client.headLength({ upstream, url: new URL(server.origin), signal: patience() })).toBeUndefined();
    expect(server.connections()).toBe(0);
    sealed = false;
    expect((await get(client, upstream, `${server.origin}/`)).status).toBe(200);
  });

  test('close ends what is under way', async () => {
    const { server, client, upstream } = await answered(() => {});
    const asked = failureOf(get(client, upstream, `${server.origin}/`));
    while (server.requests.length === 0) await new Promise(setImmediate);
    await client.close();
    expect(await asked).toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
    await client.close();
  });
});

describe('TLS', () => {
  test('R85: an unknown authority is a clear failure that names the remedy, asked once', async () => {
    const server = await serve((_, response) => response.end());
    const upstream = await upstreamAt(server.host, { ca: undefined });
    expect(await failureOf(get(clientFor(), upstream, `${server.origin}/`))).toMatchObject({
      reason: 'connection',
      message: expect.stringMatching(/certificate that is not trusted/),
      hint: expect.stringMatching(/\bca\b/),
    });
    expect(server.connections()).toBe(1);
  });

  test('R85: several certificates in one ca are all trusted', async () => {
    const server = await serve((_, response) => response.end('ok'));
    const other = await CertificateAuthority.generate('Another authority');
    const upstream = await upstreamAt(server.host, {
      ca: `${other.pem}\n${(await CertificateAuthority.shared()).pem}`,
    });
    expect((await get(clientFor(), upstream, `${server.origin}/`)).status).toBe(200);
  });

  test('R85: authorities trusted by the whole process stay trusted beside the one of an upstream', async () => {
    const server = await serve((_, response) => response.end('ok'));
    const other = await CertificateAuthority.generate('Another authority');
    const upstream = await upstreamAt(server.host, { ca: other.pem });
    const extraCa = (await CertificateAuthority.shared()).pem;
    expect((await get(clientFor({ extraCa }), upstream, `${server.origin}/`)).status).toBe(200);
    expect(await failureOf(get(clientFor(), upstream, `${server.origin}/`))).toMatchObject({ reason: 'connection' });
  });

  test('upstreams with different trust do not share connections', async () => {
    const server = await serve((_, response) => response.end('ok'));
    const trusting = await upstreamAt(server.host);
    const client = clientFor({ limits: { circuitMs: 0 } });
    expect((await get(client, trusting, `${server.origin}/`)).status).toBe(200);
    expect(await failureOf(get(client, { ...trusting, ca: undefined }, `${server.origin}/`))).toMatchObject({
      reason: 'connection',
    });
  });

  test('a client certificate is presented', async () => {
    const authority = await CertificateAuthority.shared();
    const server = await serve((_, response) => response.end('ok'), { clientCa: authority.pem });
    const clientCertificate = await authority.issue(['larder']);
    const upstream = await upstreamAt(server.host, { clientCertificate });
    expect((await get(clientFor(), upstream, `${server.origin}/`)).status).toBe(200);
    expect(
      await failureOf(get(clientFor(), { ...upstream, clientCertificate: undefined }, `${server.origin}/`)),
    ).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'connection' });
  });

  test('a client certificate that cannot be used is a matter of configuration', async () => {
    const upstream = await upstreamAt('localhost:1', { clientCertificate: { cert: 'nonsense', key: 'nonsense' } });
    expect(await failureOf(get(clientFor(), upstream, 'https://localhost:1/'))).toMatchObject({
      code: 'INVALID_CONFIGURATION',
    });
  });
});

describe('the circuit', () => {
  test('a host that could not be reached is left alone, then asked by one request only', async () => {
    let now = 1_000_000;
    let calls = 0;
    let release = () => {};
    const server = await serve(async (request, response) => {
      if (++calls <= 3) return request.socket.destroy();
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      response.end('ok');
    });
    const upstream = await upstreamAt(server.host);
    const client = clientFor({ now: () => now });
    const ask = () => get(client, upstream, `${server.origin}/`);
    expect(await failureOf(ask())).toMatchObject({ reason: 'connection' });
    expect(client.circuits()).toMatchObject([{ origin: server.origin, state: 'open', retryAfterMs: 5_000 }]);

    now += 2_000;
    expect(await failureOf(ask())).toMatchObject({ reason: 'connection', retryAfterMs: 3_000 });
    expect(calls).toBe(3);

    now += 3_001;
    const probe = ask();
    while (calls === 3) await new Promise(setImmediate);
    expect(client.circuits()).toMatchObject([{ state: 'half-open' }]);
    expect(await failureOf(ask())).toMatchObject({ reason: 'connection' });
    release();
    expect((await probe).status).toBe(200);
    expect(client.circuits()).toEqual([]);
  });

  test('one failing page does not take the host down; three failed requests in a row do', async () => {
    const { server, client, upstream, ask } = await answered((request, response) =>
      response.writeHead(request.url === '/well' ? 200 : 500).end(),
    );
    await failureOf(ask());
    await failureOf(ask());
    expect(client.circuits()).toMatchObject([{ state: 'closed', failures: 2 }]);
    await get(client, upstream, `${server.origin}/well`);
    for (let i = 0; i < 3; i++) expect(await failureOf(ask())).toMatchObject({ message: expect.stringMatching(/500/) });
    const seen = server.requests.length;
    expect(await failureOf(ask())).toMatchObject({ reason: 'failing', message: expect.stringMatching(/left alone/) });
    expect(server.requests).toHaveLength(seen);
  });

  test('a host that was not asked because its token file was away is asked as soon as that is back', async () => {
    const server = await serve((_, response) => response.end('ok'));
    let isAway = true;
    const token = whenUsable(server.host, async () => {
      if (isAway) throw new InvalidConfiguration('the token file cannot be read');
      return 'token';
    });
    const upstream = await upstreamAt(server.host, { token });
    const client = clientFor();
    const ask = () => get(client, upstream, `${server.origin}/`, { authenticate: true });
    expect(await failureOf(ask())).toMatchObject({ message: expect.stringMatching(/is not asked: the token file/) });
    expect(client.circuits()).toEqual([]);
    isAway = false;
    expect((await ask()).status).toBe(200);
    expect(server.requests).toHaveLength(1);
  });

  test('another host is not concerned', async () => {
    const { ask, client } = await answered((request) => request.socket.destroy());
    const well = await serve((_, response) => response.end('ok'));
    await failureOf(ask());
    expect((await get(client, await upstreamAt(well.host), `${well.origin}/`)).status).toBe(200);
  });
});

test('R90: no more than eight small requests are under way at one host', async () => {
  let most = 0;
  const held: (() => void)[] = [];
  const { client, upstream, server } = await answered((_, response) => {
    held.push(() => response.end());
    most = Math.max(most, held.length);
    // Time enough for a ninth to come, if one were on its way.
    if (held.length === 8) setTimeout(() => held.splice(0).forEach((answer) => void answer()), 50);
  });
  await Promise.all(Array.from({ length: 32 }, (_, i) => get(client, upstream, `${server.origin}/${i}`)));
  expect(most).toBe(8);
});

test('whoever waits for a turn still has a deadline', async () => {
  const { client, upstream, server } = await answered(() => {}, { concurrency: 1 });
  const first = failureOf(get(client, upstream, `${server.origin}/`));
  const second = failureOf(get(client, upstream, `${server.origin}/`, { signal: AbortSignal.timeout(50) }));
  expect(await second).toMatchObject({ reason: 'timeout' });
  expect(server.requests.length).toBeLessThanOrEqual(1);
  await client.close();
  await first;
});

describe('redirects', () => {
  async function redirecting(code: number, location: (server: ScriptedServer) => string | undefined) {
    let server!: ScriptedServer;
    server = await serve((request, response) => {
      if (request.url !== '/a/start') return response.end(`at ${request.url}`);
      const target = location(server);
      response.writeHead(code, target === undefined ? {} : { location: target }).end('moved');
    });
    const upstream = await upstreamAt(server.host, { token: async () => 'TOKEN' });
    return {
      server,
      upstream,
      ask: (options = {}) => get(clientFor(), upstream, `${server.origin}/a/start`, { authenticate: true, ...options }),
    };
  }

  test.each([301, 302, 303, 307, 308])('R72: %i is followed, and the final address told', async (code) => {
    const { server, ask } = await redirecting(code, () => '../b/end');
    const { body, url } = await ask();
    expect([body.toString(), url.href]).toEqual(['at /b/end', `${server.origin}/b/end`]);
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer TOKEN', 'Bearer TOKEN']);
  });

  test.each([
    ['without Location', undefined],
    ['to nowhere', ''],
    ['to something that is no URL', 'https://'],
    ['in a circle', '/a/start'],
    ['to another protocol', 'ftp://localhost/x'],
    ['with a password in the URL', 'https://user:pw@localhost/x'],
  ])('R72: a redirect %s is nonsense', async (_, location) => {
    const { ask } = await redirecting(302, () => location);
    const failure = await failureOf(ask());
    expect(failure).toMatchObject({ code: 'UPSTREAM_INVALID' });
    expect(failure.message).not.toContain('pw');
  });

  test('R72: as many redirects as allowed, and not one more', async () => {
    const { server, client, upstream } = await answered((request, response) => {
      const left = Number(request.url?.slice(1));
      if (left === 0) response.end('there');
      else response.writeHead(302, { location: `/${left - 1}` }).end();
    });
    expect((await get(client, upstream, `${server.origin}/3`)).body.toString()).toBe('there');
    expect(await failureOf(get(client, upstream, `${server.origin}/4`))).toMatchObject({ code: 'UPSTREAM_INVALID' });
  });

  test('R27: the token stays behind when the port or the name changes', async () => {
    const elsewhere = await serve((_, response) => response.end('elsewhere'));
    for (const target of [elsewhere.origin, elsewhere.origin.replace('localhost', '127.0.0.1')]) {
      const { server, ask } = await redirecting(302, () => `${target}/x?X-Amz-Signature=s`);
      expect((await ask()).body.toString()).toBe('elsewhere');
      expect(server.requests[0]?.headers.authorization).toBe('Bearer TOKEN');
    }
    for (const { headers } of elsewhere.requests) expect(headers).not.toHaveProperty('authorization');
    expect(elsewhere.requests).toHaveLength(2);
  });

  test('R27: from https to http is refused, on private networks too', async () => {
    const plain = await serve((_, response) => response.end(), { plain: true });
    const { ask } = await redirecting(302, () => `${plain.origin}/`);
    expect(await failureOf(ask())).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringMatching(/plain http/),
    });
    expect(plain.connections()).toBe(0);
  });

  test('R28: no token travels in the clear, wherever discovery leads', async () => {
    const upstream = await upstreamAt('registry.example', { token: async () => 'TOKEN' });
    const failure = await failureOf(get(clientFor(), upstream, 'http://127.0.0.1:9/', { authenticate: true }));
    expect(failure).toMatchObject({ code: 'UPSTREAM_INVALID', message: expect.stringContaining('in the clear') });
  });

  test('R27: other credentials go where the token would, and instead of it', async () => {
    const elsewhere = await serve((_, response) => response.end('elsewhere'));
    const authorization = 'Basic bWU6aXQ=';
    const { server, ask } = await redirecting(302, () => `${elsewhere.origin}/x`);
    await ask({ authenticate: false, authorization });
    await ask({ authenticate: true, authorization });
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([authorization, authorization]);
    expect(elsewhere.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined]);
    const upstream = await upstreamAt('registry.example');
    expect(await failureOf(get(clientFor(), upstream, 'http://127.0.0.1:9/', { authorization }))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringContaining('in the clear'),
    });
  });

  test('the token is sent only when asked for', async () => {
    const { server, ask } = await redirecting(302, () => '/b');
    await ask({ authenticate: false });
    for (const { headers } of server.requests) expect(headers).not.toHaveProperty('authorization');
  });
});

describe('internal addresses', () => {
  test.each([
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0x7f.1/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::127.0.0.1]/',
    'https://169.254.169.254/latest/meta-data',
    'https://10.1.2.3/',
    'https://192.168.0.1/',
    'https://172.16.9.9/',
    'https://100.64.0.1/',
    'https://0.0.0.0/',
    'https://[fe80::1]/',
    'https://[fd00::1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://localhost/',
    'https://a.localhost./',
  ])('R33: %s is refused before anything is sent', async (url) => {
    const upstream = await upstreamAt('registry.example', { privateNetwork: false });
    // Behind a proxy no name is looked up here: the address itself has to be enough.
    for (const client of [clientFor(), clientFor({ proxy: { https: 'http://127.0.0.1:9' } })]) {
      expect(await failureOf(get(client, upstream, url))).toMatchObject({
        code: 'UPSTREAM_INVALID',
        hint: expect.stringMatching(/privateNetwork: true/),
      });
    }
  });

  test('R33: redirects obey the same rule', async () => {
    const proxy = await connectProxy();
    const server = await serve(
      (_, response) => response.writeHead(302, { location: 'https://169.254.169.254/x' }).end(),
      { names: ['public.example'] },
    );
    // Public as far as can be told: only the proxy knows that it is on loopback.
    const upstream = await upstreamAt(`public.example:${server.port}`, { privateNetwork: false });
    const client = clientFor({ proxy: { https: proxy.url } });
    expect(await failureOf(get(client, upstream, `${upstream.hostname.origin}/`))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringMatching(/^169\.254\.169\.254 is on a loopback/),
    });
    expect(proxy.asked).toEqual([String(upstream.hostname)]);
  });

  test('plain http is refused outside private networks', async () => {
    const server = await serve((_, response) => response.end('ok'), { plain: true });
    const upstream = await upstreamAt(server.host);
    expect((await get(clientFor(), upstream, `${server.origin}/`)).body.toString()).toBe('ok');
    expect(
      await failureOf(get(clientFor(), { ...upstream, privateNetwork: false }, `${server.origin}/`)),
    ).toMatchObject({
      code: 'UPSTREAM_INVALID',
    });
  });
});

describe('proxies', () => {
  test('https goes through CONNECT, with the proxy password and the CA of the upstream', async () => {
    const proxy = await connectProxy();
    const server = await serve((_, response) => response.end('ok'));
    const upstream = await upstreamAt(server.host);
    const client = clientFor({ proxy: { https: proxy.url.replace('http://', 'http://user:pass@') } });
    expect((await get(client, upstream, `${server.origin}/`)).body.toString()).toBe('ok');
    expect(proxy.asked).toEqual([server.host]);
    expect(proxy.authorizations).toEqual([`Basic ${Buffer.from('user:pass').toString('base64')}`]);
  });

  test('hosts named in the exceptions are reached directly', async () => {
    const proxy = await connectProxy();
    const server = await serve((_, response) => response.end('ok'));
    const client = clientFor({ proxy: { https: proxy.url, no: 'other.example,localhost' } });
    expect((await get(client, await upstreamAt(server.host), `${server.origin}/`)).status).toBe(200);
    expect(proxy.asked).toEqual([]);
  });

  test('a proxy that refuses, or is not there, is named', async () => {
    const proxy = await connectProxy({ refuseWith: 403 });
    const upstream = await upstreamAt('registry.example');
    expect(
      await failureOf(get(clientFor({ proxy: { https: proxy.url } }), upstream, 'https://registry.example/')),
    ).toMatchObject({
      reason: 'connection',
      message: expect.stringMatching(/the proxy answered 403/),
    });
    const gone = clientFor({ proxy: { https: 'http://127.0.0.1:9' } });
    expect(await failureOf(get(gone, upstream, 'https://registry.example/'))).toMatchObject({ reason: 'connection' });
  });

  test('a proxy without a scheme is understood, nonsense is not, and its password is not told', async () => {
    const proxy = await connectProxy();
    const server = await serve((_, response) => response.end('ok'));
    const client = clientFor({ proxy: { https: proxy.url.replace('http://', '') } });
    expect((await get(client, await upstreamAt(server.host), `${server.origin}/`)).status).toBe(200);
    expect(() => clientFor({ proxy: { https: 'gopher://user:hunter2@proxy' } })).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIGURATION', message: expect.not.stringMatching(/hunter2/) }),
    );
  });
});

describe('an archive', () => {
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => i % 251));

  async function archiveAt(handler: Parameters<typeof serve>[0], limits = {}) {
    const server = await serve(handler);
    const upstream = await upstreamAt(server.host, { token: async () => 'TOKEN' });
    const client = clientFor({ limits });
    const url = (query = '') => new URL(`${server.origin}/w.zip${query}`);
    const open = (offset: number, query = '') =>
      client.openBody({ upstream, url: url(query), offset, signal: patience() });
    return { server, upstream, client, url, open };
  }

  test('flows with its size, without credentials and uncompressed', async () => {
    const { server, open } = await archiveAt((_, response) =>
      response.writeHead(200, { 'content-length': bytes.length }).end(bytes),
    );
    const { body, offset, size } = await open(0);
    expect([offset, size]).toEqual([0, bytes.length]);
    expect((await buffer(body)).equals(bytes)).toBe(true);
    expect(server.requests[0]?.headers).not.toHaveProperty('authorization');
    expect(server.requests[0]?.headers).not.toHaveProperty('range');
    expect(server.requests[0]?.headers['accept-encoding']).toBe('identity');
  });

  test('R11: is fetched with the token when the caller says so, which stays behind when it redirects elsewhere', async () => {
    const elsewhere = await serve((_, response) => response.end(bytes));
    const { server, upstream, client, url } = await archiveAt((_, response) =>
      response.writeHead(302, { location: `${elsewhere.origin}/w.zip?sig=1` }).end(),
    );
    const open = (authenticate: boolean) =>
      client.openBody({ upstream, url: url(), offset: 0, authenticate, signal: patience() });
    expect((await buffer((await open(true)).body)).equals(bytes)).toBe(true);
    (await open(false)).body.destroy();
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer TOKEN', undefined]);
    expect(elsewhere.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined]);
  });

  test('is resumed where it stopped, if it still is the same file: signed links differ', async () => {
    const { server, open } = await archiveAt((request, response) => {
      const start = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
      const headers = { etag: '"v1"', 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` };
      response.writeHead(start ? 206 : 200, headers).end(bytes.subarray(start));
    });
    (await open(0, '?sig=1')).body.destroy();
    const { body, offset, size } = await open(100_000, '?sig=2');
    expect([offset, size]).toEqual([100_000, bytes.length]);
    expect((await buffer(body)).equals(bytes.subarray(100_000))).toBe(true);
    expect(server.requests[1]?.headers).toMatchObject({ range: 'bytes=100000-', 'if-range': '"v1"' });
  });

  test('begins anew where the host does not resume', async () => {
    const { open } = await archiveAt((_, response) => response.end(bytes));
    const { body, offset } = await open(100_000);
    expect(offset).toBe(0);
    expect((await buffer(body)).length).toBe(bytes.length);
  });

  test('begins anew when it has become shorter', async () => {
    const { open } = await archiveAt((request, response) => {
      if (request.headers.range) response.writeHead(416, { 'content-range': 'bytes */5' }).end();
      else response.end('short');
    });
    const { body, offset } = await open(100_000);
    expect([offset, (await buffer(body)).toString()]).toEqual([0, 'short']);
  });

  test.each([
    ['another part', 'bytes 5-9/10', 100],
    ['no part named', undefined, 100],
    ['a part that nobody asked for', 'bytes 0-9/10', 0],
  ])('%s is nonsense', async (_, contentRange, offset) => {
    const { open } = await archiveAt((__, response) =>
      response.writeHead(206, contentRange ? { 'content-range': contentRange } : {}).end('0123456789'),
    );
    expect(await failureOf(open(offset))).toMatchObject({ code: 'UPSTREAM_INVALID' });
  });

  test('sent compressed is nonsense: its bytes would not be the ones that were signed', async () => {
    const { open } = await archiveAt((_, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(bytes)),
    );
    expect(await failureOf(open(0))).toMatchObject({ code: 'UPSTREAM_INVALID' });
  });

  test.each([
    ['with a length', { 'content-length': '300000' }],
    ['chunked', {}],
  ])('R44: cut on the way ends its stream as unreachable, %s', async (_, headers) => {
    const { open } = await archiveAt((request, response) => {
      response.writeHead(200, headers).write(bytes.subarray(0, 1000), () => request.socket.destroy());
    });
    const { body } = await open(0);
    expect(await failureOf(buffer(body))).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'connection' });
  });

  test('that stands still ends its stream as a time-out', async () => {
    const { open } = await archiveAt((_, response) => response.writeHead(200).write('half'), { bodyIdleMs: 50 });
    expect(await failureOf(buffer((await open(0)).body))).toMatchObject({ reason: 'timeout' });
  });

  test('read slowly is not taken for one that stands still', async () => {
    const large = Buffer.alloc(4_000_000);
    const { open } = await archiveAt((_, response) => response.end(large), { bodyIdleMs: 100 });
    const { body } = await open(0);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect((await buffer(body)).length).toBe(large.length);
  });

  test('ends with the signal, also while nobody reads', async () => {
    const { client, upstream, url } = await archiveAt((_, response) => response.writeHead(200).write('half'));
    const controller = new AbortController();
    const { body } = await client.openBody({ upstream, url: url(), offset: 0, signal: controller.signal });
    controller.abort(new Error('enough'));
    if (!body.closed) await once(body, 'close').catch(() => {});
    expect(await failureOf(buffer(body))).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'timeout' });
  });

  test('given up ends the request upstream', async () => {
    let resolve = () => {};
    const gone = new Promise<void>((done) => {
      resolve = done;
    });
    const { open } = await archiveAt((_, response) => {
      response.on('close', resolve);
      response.writeHead(200).write('half');
    });
    (await open(0)).body.destroy();
    await gone;
  });

  test('a page in its place is not taken for its length', async () => {
    const { open } = await archiveAt((_, response) =>
      response.writeHead(200, { 'content-type': 'text/html', 'content-length': '3' }).end('<p>'),
    );
    const { body, size } = await open(0);
    expect(size).toBeUndefined();
    expect((await buffer(body)).toString()).toBe('<p>');
  });

  test('R16: its length is what HEAD says, and unknown for every other answer', async () => {
    const cases: [number, Record<string, string>, number | undefined][] = [
      [200, { 'content-length': '12345' }, 12_345],
      [200, { 'content-length': '0' }, undefined],
      [200, { 'content-length': '12', 'content-encoding': 'gzip' }, undefined],
      // A captive portal.
      [200, { 'content-length': '75', 'content-type': 'text/html; charset=utf-8' }, undefined],
      [200, { 'content-length': '12345', 'content-type': 'Application/Octet-Stream' }, 12_345],
      [403, { 'content-length': '12' }, undefined],
      [405, {}, undefined],
      [500, {}, undefined],
    ];
    for (const [status, headers, expected] of cases) {
      const { server, client, upstream, url } = await archiveAt((_, response) =>
        response.writeHead(status, headers).end(),
      );
      expect(await client.headLength({ upstream, url: url(), signal: patience() })).toBe(expected);
      expect(server.requests.map(({ method }) => method)).toEqual(['HEAD']);
      expect(client.circuits()).toEqual([]);
    }
  });

  test('its length is not waited for', async () => {
    const { client, upstream, url } = await archiveAt(() => {}, { lengthMs: 50 });
    expect(await client.headLength({ upstream, url: url(), signal: patience() })).toBeUndefined();
    expect(client.circuits()).toEqual([]);
  });
});
