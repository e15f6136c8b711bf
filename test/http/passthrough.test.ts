import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { pipeline, Readable } from 'node:stream';
import { brotliCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { connectProxy } from '../upstream/scripted-server.ts';
import { OWN, passing } from './passing.ts';

const THEIRS = 'upstream-token-5ad0';
const bearer = (token: string) => `Authorization: Bearer ${token}`;

/** Tells what it was asked. */
const echo: Parameters<typeof passing>[0] = (req, res) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => {
    res.setHeader('Content-Type', 'application/json');
    res.end(JSON.stringify({ method: req.method, url: req.url, body: Buffer.concat(chunks).toString() }));
  });
};

describe('where a request is passed on to', () => {
  it.each([
    ['v1/providers/acme/widget', '/api/reg/v1/providers/acme/widget'],
    ['v1/modules/acme/network/aws?x=1&x=2', '/api/reg/v1/modules/acme/network/aws?x=1&x=2'],
    ['v1/modules/search?q=a%20b&limit=2&u=https://x//y', '/api/reg/v1/modules/search?q=a%20b&limit=2&u=https://x//y'],
    [
      'v2/providers/acme/widget?include=provider-versions',
      '/api/reg/v2/providers/acme/widget?include=provider-versions',
    ],
    ['v2/provider-docs/7?', '/api/reg/v2/provider-docs/7?'],
    ['api/reg/v1/modules/Acme/Net%77ork/aws', '/api/reg/v1/modules/Acme/Net%77ork/aws'],
    ['api/other/thing/', '/api/other/thing/'],
  ])('%s → %s', async (path, target) => {
    const { ask, base } = await passing(echo, {
      services: {
        'modules.v1': '/api/reg/v1/modules/',
        'providers.v1': '/api/reg/v1/providers/',
        'other.v3': '/api/other/',
      },
    });
    const answer = await ask(`GET ${base}/${path}`);
    expect(answer.statusLine, answer.body.toString()).toBe('HTTP/1.1 200 OK');
    expect(answer.json()['url']).toBe(target);
  });

  it('what no service has: 404, with what there is', async () => {
    const { ask, base, upstream } = await passing(echo);
    for (const path of ['v3', 'v1/other', 'api/v2/state', 'v1', '']) {
      const answer = await ask(`GET ${base}/${path}`);
      expect([path, answer.statusLine]).toEqual([path, 'HTTP/1.1 404 Not Found']);
      expect(answer.json()['hint']).toContain(`modules.v1 below ${base}/v1/modules/`);
    }
    expect(upstream.requests).toEqual([]);
    const unknown = await ask('GET /registry/other.example.com/v1/modules/search');
    expect(unknown.json()['code']).toBe('HOST_NOT_ALLOWED');
  });

  it.each([
    'v1/providers/%2e%2e%2fsecret',
    'v1/providers/..%2Fsecret/x',
    'v1/providers/%2e%2e/secret',
    'v1/providers/../secret',
    'v1/providers/..;/secret',
    'v1/providers/..;a=b/secret',
    'v1/providers/%2e%2e;/secret',
    'v1/providers/%252e%252e/secret',
    'v1/providers/%252e%252e%252fsecret',
    'v1/providers/a%2Fb/c',
    'v1/providers/a%252Fb/c',
    'v1/providers/a%5cb/c',
    'v1/providers/a%255Cb/c',
    'v1/providers//acme/widget',
    'v1/providers/acme%00/widget',
    'v1/providers/acme%0d%0aX/widget',
    'v1/providers/%c0%ae%c0%ae/secret',
    'v1/providers/http:/evil',
  ])('nothing leads out of a service: %s', async (path) => {
    const { ask, base, upstream } = await passing(echo);
    const answer = await ask(`GET ${base}/${path}`);
    expect(answer.statusLine).toBe('HTTP/1.1 400 Bad Request');
    expect(upstream.requests).toEqual([]);
  });
});

describe('what travels', () => {
  it('to upstream: nothing that was said to Larder, and the id of the request', async () => {
    const { ask, base, upstream } = await passing(echo, { upstream: { token: async () => THEIRS } });
    const answer = await ask(
      `GET ${base}/v1/modules/search?q=x`,
      bearer(OWN.ci),
      'Cookie: a=b',
      'Forwarded: for=10.0.0.1',
      'Via: 1.1 proxy',
      'X-Forwarded-For: 10.0.0.1',
      'X-Forwarded-Host: larder.corp',
      'X-Real-IP: 10.0.0.1',
      'Proxy-Authorization: Basic eDp5',
      'Referer: https://larder.corp/',
      'X-Hop: one',
      'Connection: X-Hop',
      'TE: trailers',
      'Upgrade: h2c',
      'X-HTTP-Method-Override: DELETE',
      'X-HTTP-Method: DELETE',
      'X-Method-Override: DELETE',
      'X-Original-URL: /admin',
      'X-Rewrite-URL: /admin',
      'Accept: application/json',
      'Accept-Encoding: br',
      'User-Agent: renovate/40',
      'If-None-Match: "abc"',
    );
    const [seen] = upstream.requests;
    expect(seen?.headers).toEqual({
      accept: 'application/json',
      'accept-encoding': 'br',
      authorization: `Bearer ${THEIRS}`,
      connection: 'close',
      host: upstream.host,
      'if-none-match': '"abc"',
      'user-agent': 'renovate/40',
      'x-request-id': answer.headers['x-request-id'],
    });
    expect(JSON.stringify(seen)).not.toContain(OWN.ci);
  });

  it('the upstream’s token goes to what is about providers and modules, and to no other service', async () => {
    const { ask, base, upstream } = await passing(echo, {
      upstream: { token: async () => THEIRS },
      services: { 'providers.v1': '/v1/providers/', 'state.v2': '/api/v2/' },
    });
    for (const path of ['v2/provider-docs/1', 'v2/providers/a/b', 'v2/categories', 'api/v2/state-versions/1']) {
      await ask(`GET ${base}/${path}`);
    }
    const withToken = upstream.requests.filter(({ headers }) => headers.authorization).map(({ path }) => path);
    expect(withToken).toEqual(['/v2/provider-docs/1', '/v2/providers/a/b']);
  });

  it('a token never goes over plain http', async () => {
    const { ask, base, upstream } = await passing(echo, {
      server: { plain: true },
      upstream: { token: async () => THEIRS },
    });
    expect((await ask(`GET ${base}/v1/modules/search`)).statusLine).toBe('HTTP/1.1 502 Bad Gateway');
    expect(upstream.requests).toEqual([]);
  });

  it('to the client: upstream’s bytes and headers, without what would be taken for said of Larder', async () => {
    const bytes = brotliCompressSync(JSON.stringify({ text: 'x'.repeat(10_000) }));
    const { ask, base } = await passing((_req, res) => {
      res.writeHead(200, {
        'Content-Type': 'application/json; charset=utf-8',
        'Content-Encoding': 'br',
        'Content-Length': bytes.length,
        'Cache-Control': 'public, max-age=60',
        ETag: '"v1"',
        Vary: 'Accept-Encoding',
        'X-RateLimit-Remaining': '7',
        'Set-Cookie': ['a=1', 'b=2'],
        'Strict-Transport-Security': 'max-age=1',
        'Alt-Svc': 'h3=":443"',
        'Access-Control-Allow-Origin': '*',
        'X-Hop': 'one',
        Connection: 'X-Hop, close',
      });
      res.end(bytes);
    });
    const answer = await ask(`GET ${base}/v2/providers/acme/widget`);
    expect(answer.body).toEqual(bytes);
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'content-encoding': 'br',
      'content-length': String(bytes.length),
      'cache-control': 'public, max-age=60',
      etag: '"v1"',
      vary: 'Accept-Encoding',
      'x-ratelimit-remaining': '7',
      'x-content-type-options': 'nosniff',
      'content-security-policy': expect.stringContaining('sandbox'),
      'x-request-id': expect.any(String),
    });
    for (const name of ['set-cookie', 'strict-transport-security', 'alt-svc', 'access-control-allow-origin', 'x-hop']) {
      expect(answer.headers).not.toHaveProperty(name);
    }
    const head = await ask(`HEAD ${base}/v2/providers/acme/widget`);
    expect([head.headers['content-length'], head.body.length]).toEqual([String(bytes.length), 0]);
  });

  it.each([404, 304, 429, 500, 503, 400])('upstream’s %i as it is', async (status) => {
    const { ask, base } = await passing((_req, res) => res.writeHead(status, { 'Retry-After': '17' }).end());
    const answer = await ask(`GET ${base}/v2/providers/acme/widget`);
    expect(answer.statusLine).toContain(` ${status} `);
    expect(answer.headers['retry-after']).toBe('17');
  });

  it.each([401, 403])('%i to Larder’s own credentials is told as trouble with upstream', async (status) => {
    const { ask, base, failures } = await passing((_req, res) => res.writeHead(status).end('secret words'), {
      upstream: { token: async () => THEIRS },
    });
    const answer = await ask(`GET ${base}/v2/providers/acme/widget?token=abc`);
    expect([answer.statusLine, answer.json()['code']]).toEqual(['HTTP/1.1 502 Bad Gateway', 'UPSTREAM_REFUSED']);
    expect(answer.body.toString()).not.toMatch(/secret|abc|upstream-token/);
    expect(failures).toHaveLength(1);
  });

  it.each([
    ['/v1/modules/acme/network/aws/1.0.0/download', '../../../../v1/modules/acme/network/aws/1.0.0/download'],
    ['2.0.0/download?x=%2F', '../../../../v1/modules/acme/network/2.0.0/download?x=%2F'],
    ['/login', 'UPSTREAM/login'],
    ['https://elsewhere.example.com/x?y', 'https://elsewhere.example.com/x?y'],
  ])('Location %s becomes %s', async (location, expected) => {
    const { ask, base, upstream } = await passing((_req, res) => res.writeHead(302, { Location: location }).end());
    const answer = await ask(`GET ${base}/v1/modules/acme/network/aws`);
    expect(answer.statusLine).toBe('HTTP/1.1 302 Found');
    expect(answer.headers['location']).toBe(expected.replace('UPSTREAM', upstream.origin));
    if (expected.startsWith('..')) {
      const here = new URL(expected, `https://larder.test${base}/v1/modules/acme/network/aws`);
      expect(here.pathname).toMatch(new RegExp(`^${base}/v1/modules/acme/network/`));
    }
  });

  it('a Location that gives the upstream’s token away is not passed on', async () => {
    const { ask, base } = await passing(
      (_req, res) => res.writeHead(302, { Location: `https://x.example/?t=${THEIRS}` }).end(),
      { upstream: { token: async () => THEIRS } },
    );
    const answer = await ask(`GET ${base}/v1/modules/acme/network/aws/download`);
    expect(answer.statusLine).toBe('HTTP/1.1 502 Bad Gateway');
    expect(answer.body.toString() + JSON.stringify(answer.headers)).not.toContain(THEIRS);
  });
});

describe('who may', () => {
  it('an anonymous Larder reads; nothing else is passed on', async () => {
    const { ask, base, upstream } = await passing(echo);
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE']) {
      const answer = await ask(`${method} ${base}/v2/providers/acme/widget`, 'Content-Length: 0');
      expect([answer.statusLine, answer.headers['allow']]).toEqual(['HTTP/1.1 405 Method Not Allowed', 'GET, HEAD']);
    }
    expect(upstream.requests).toEqual([]);
  });

  it('where a token is needed, it is needed here; what is said then is the client’s alone', async () => {
    const { ask, base, upstream } = await passing(echo, { anonymous: 'none' });
    const refused = await ask(`GET ${base}/v2/providers/acme/widget`);
    expect(refused.statusLine).toBe('HTTP/1.1 401 Unauthorized');
    expect(upstream.requests).toEqual([]);
    const answer = await ask(`GET ${base}/v2/providers/acme/widget`, bearer(OWN.ci));
    expect([answer.statusLine, answer.headers['cache-control']]).toEqual(['HTTP/1.1 200 OK', 'private, no-cache']);
  });

  it('a token for some addresses opens these, and nothing that is about none', async () => {
    const { ask, base } = await passing(echo, { anonymous: 'none', services: { 'modules.v1': '/m/v1/modules/' } });
    const status = async (path: string) => (await ask(`GET ${base}/${path}`, bearer(OWN.acme))).statusLine.slice(9, 12);
    expect(await status('v1/modules/acme/network/aws')).toBe('200');
    expect(await status('v1/modules/acme/network/aws/1.0.0')).toBe('200');
    expect(await status('v2/modules/acme/network/aws')).toBe('200');
    expect(await status('m/v1/modules/acme/network/aws')).toBe('200');
    expect(await status('v1/modules/other/network/aws')).toBe('403');
    expect(await status('v1/modules/%6fther/network/aws')).toBe('403');
    expect(await status('m/v1/modules/other/network/aws')).toBe('403');
    const nameless = await ask(`GET ${base}/v1/modules/search?q=acme`, bearer(OWN.acme));
    expect(nameless.statusLine).toBe('HTTP/1.1 403 Forbidden');
    expect(nameless.json()['hint']).toContain('access.tokens');
  });

  it('what the operator excludes is refused, by whichever path', async () => {
    const { ask, base, upstream } = await passing(echo, { rule: { exclude: ['acme/secret'] } });
    for (const path of ['v1/providers/acme/secret', 'v1/modules/acme/secret/aws/1.0.0', 'v2/providers/acme/SECRET']) {
      const answer = await ask(`GET ${base}/${path}`);
      expect([path, answer.statusLine]).toEqual([path, 'HTTP/1.1 403 Forbidden']);
      expect(answer.json()['hint']).toContain('exclude');
    }
    expect(upstream.requests).toEqual([]);
    expect((await ask(`GET ${base}/v1/providers/acme/widget`)).statusLine).toBe('HTTP/1.1 200 OK');
  });
});

describe('an upstream that is asked with clients’ tokens', () => {
  const options = { rule: { forward: true }, anonymous: 'none' } as const;

  it('gets the client’s own, other methods and bodies included', async () => {
    const { ask, base, upstream, exchange } = await passing(echo, options);
    const answer = await exchange(
      `POST ${base}/v2/modules HTTP/1.1\nHost: larder.test\nConnection: close\n${bearer(THEIRS)}\n` +
        'Transfer-Encoding: chunked\n\n5\nhello\n0\n\n',
    );
    expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
    expect(answer.json()).toEqual({ method: 'POST', url: '/v2/modules', body: 'hello' });
    expect(upstream.requests[0]?.headers.authorization).toBe(`Bearer ${THEIRS}`);
    expect(answer.headers['cache-control']).toBe('private, no-cache');
    const put = await ask(`PUT ${base}/v2/modules/1`, bearer(THEIRS), 'Content-Length: 0');
    expect(put.json()['method']).toBe('PUT');
  });

  it('never gets Larder’s own, and nothing but reading without one of its own', async () => {
    const { ask, base, upstream } = await passing(echo, options);
    expect((await ask(`GET ${base}/v2/modules/a/b/c`, bearer(OWN.ci))).statusLine).toBe('HTTP/1.1 200 OK');
    expect(upstream.requests[0]?.headers).not.toHaveProperty('authorization');
    const change = await ask(`DELETE ${base}/v2/modules/1`, bearer(OWN.ci));
    expect(change.statusLine).toBe('HTTP/1.1 405 Method Not Allowed');
    expect((await ask(`TRACE ${base}/v2/modules/1`, bearer(THEIRS))).statusLine).toContain('405');
    expect(upstream.requests).toHaveLength(1);
  });

  it('is heard when it refuses', async () => {
    const { ask, base } = await passing(
      (_req, res) =>
        res.writeHead(401, { 'WWW-Authenticate': 'Bearer', 'Content-Length': 17 }).end('{"errors":["no"]}'),
      options,
    );
    const answer = await ask(`GET ${base}/v2/modules/a/b/c`, bearer(THEIRS));
    expect([answer.statusLine, answer.body.toString()]).toEqual(['HTTP/1.1 401 Unauthorized', '{"errors":["no"]}']);
    expect(answer.headers['www-authenticate']).toBe('Bearer');
  });
});

it.each([
  ['GET', 'Content-Length: 4', 400],
  ['GET', 'Transfer-Encoding: chunked', 400],
  ['DELETE', 'Transfer-Encoding: chunked', 411],
])('no second request hides in the body of a first: %s with %s', async (method, header, status) => {
  const { exchange, base, upstream } = await passing(echo, { rule: { forward: true } });
  const body = header.startsWith('T') ? '4\nGET \n0\n\n' : 'GET ';
  const head = `${method} ${base}/v2/modules/1 HTTP/1.1\nHost: larder.test\nConnection: close\n${bearer(THEIRS)}`;
  const answer = await exchange(`${head}\n${header}\n\n${body}`);
  expect(answer.statusLine).toContain(` ${status} `);
  expect(upstream.requests).toEqual([]);
});

it('a client cannot take away what tells where its body ends', async () => {
  const { exchange, base } = await passing(echo, { rule: { forward: true } });
  const answer = await exchange(
    `DELETE ${base}/v2/modules/1 HTTP/1.1\nHost: larder.test\nConnection: close, content-length\n${bearer(THEIRS)}\n` +
      'Content-Length: 5\n\nhello',
  );
  expect(answer.json()).toEqual({ method: 'DELETE', url: '/v2/modules/1', body: 'hello' });
});

describe('trouble', () => {
  it('a refused connection, a host that nobody knows: 502, and then it is left alone for a while', async () => {
    const { ask, base, upstream, failures } = await passing(echo);
    await upstream.close();
    const first = await ask(`GET ${base}/v2/providers/acme/widget`);
    expect([first.statusLine, first.json()['code']]).toEqual(['HTTP/1.1 502 Bad Gateway', 'UPSTREAM_UNREACHABLE']);
    expect(first.json()['errors']).toEqual([`${upstream.host} refused the connection (ECONNREFUSED)`]);
    const second = await ask(`GET ${base}/v2/providers/acme/widget`);
    // The one who asks later than the client did learns why as well.
    expect(second.json()['errors']).toEqual([
      `${upstream.host} is left alone for a moment: it refused the connection (ECONNREFUSED)`,
    ]);
    expect(failures).toHaveLength(1);

    const unknown = await passing(echo, { services: { 'modules.v1': 'https://nobody.invalid/v1/modules/' } });
    const answer = await unknown.ask(`GET ${unknown.base}/v1/modules/search`);
    expect(answer.json()['errors']).toEqual(['nobody.invalid is not known to DNS (ENOTFOUND)']);
  });

  it('a certificate that is not trusted: 502 with a hint', async () => {
    const { ask, base } = await passing(echo, { upstream: { ca: undefined } });
    const answer = await ask(`GET ${base}/v2/providers/acme/widget`);
    expect(answer.statusLine).toBe('HTTP/1.1 502 Bad Gateway');
    expect(answer.json()['hint']).toContain('private CA');
  });

  it('no answer in time: 504', async () => {
    const { ask, base } = await passing(() => {}, { relay: { limits: { headersMs: 1 } } });
    const answer = await ask(`GET ${base}/v2/providers/acme/widget`);
    expect([answer.statusLine, answer.json()['code']]).toEqual([
      'HTTP/1.1 504 Gateway Timeout',
      'UPSTREAM_UNREACHABLE',
    ]);
  });

  it('an answer that is no HTTP: 502', async () => {
    const { ask, base } = await passing((req) => req.socket.end('SSH-2.0-nonsense\r\n'));
    const answer = await ask(`GET ${base}/v2/providers/acme/widget`);
    expect(answer.statusLine).toBe('HTTP/1.1 502 Bad Gateway');
  });

  it.each(['with a length', 'in chunks'])('an answer %s that breaks off breaks the client’s off', async (how) => {
    const { origin, base, failures } = await passing((req, res) => {
      res.writeHead(200, how === 'in chunks' ? {} : { 'Content-Length': 1000 });
      res.write('half of it', () => req.socket.destroy());
    });
    const answer = await fetch(`${origin}${base}/v2/providers/acme/widget`);
    expect(answer.status).toBe(200);
    await expect(answer.text()).rejects.toThrow();
    expect(failures).toHaveLength(1);
  });

  it('an answer that stops in the middle is broken off', async () => {
    const { origin, base, failures } = await passing((_req, res) => res.writeHead(200).write('half of it'), {
      relay: { limits: { bodyIdleMs: 50 } },
    });
    const answer = await fetch(`${origin}${base}/v2/providers/acme/widget`);
    await expect(answer.text()).rejects.toThrow();
    expect(failures.join()).toContain('stopped sending');
  });

  it('sealed, nothing leaves', async () => {
    const { ask, base, upstream } = await passing(echo, { relay: { isSealed: () => true } });
    const answer = await ask(`GET ${base}/v2/providers/acme/widget`);
    expect(answer.statusLine).toBe('HTTP/1.1 503 Service Unavailable');
    expect(answer.body.toString()).toContain('sealed');
    expect(upstream.requests).toEqual([]);
  });

  it('a client that goes away takes its request with it', async () => {
    const gone = deferred();
    const asked = deferred();
    const { port, base } = await passing((_req, res) => {
      res.once('close', gone.resolve);
      asked.resolve();
    });
    const client = connect(port, '127.0.0.1');
    client.write(`GET ${base}/v2/providers/acme/widget HTTP/1.1\r\nHost: x\r\n\r\n`);
    await asked.promise;
    client.destroy();
    await gone.promise;
  });
});

describe('on its way', () => {
  it('a large answer is not kept in memory: upstream waits for a client that does not read', async () => {
    const chunk = randomBytes(64 * 1024);
    let sent = 0;
    const { port, base } = await passing((_req, res) => {
      const endless = new Readable({
        read() {
          sent += chunk.length;
          this.push(sent > 200 * 1024 * 1024 ? null : chunk);
        },
      });
      pipeline(endless, res, () => {});
    });
    const client = connect(port, '127.0.0.1');
    client.write(`GET ${base}/v2/providers/acme/widget HTTP/1.1\r\nHost: x\r\n\r\n`);
    await once(client, 'readable');
    const seen: number[] = [];
    const stands = () => seen.push(sent) > 1 && seen.at(-1) === seen.at(-2);
    await expect.poll(stands, { interval: 200, timeout: 20_000 }).toBe(true);
    expect(sent).toBeLessThan(100 * 1024 * 1024);
    client.destroy();
  });

  it('through the egress proxy, with its name looked up there', async () => {
    const proxy = await connectProxy();
    const { ask, base, upstream } = await passing(echo, {
      relay: { proxy: { https: proxy.url, no: 'other.example' } },
    });
    expect((await ask(`GET ${base}/v2/providers/acme/widget`)).statusLine).toBe('HTTP/1.1 200 OK');
    expect(proxy.asked).toEqual([upstream.host]);
    const direct = await passing(echo, { relay: { proxy: { http: proxy.url, no: '.localhost' } } });
    await direct.ask(`GET ${direct.base}/v2/providers/acme/widget`);
    expect(proxy.asked).toHaveLength(1);
  });

  it('a proxy that refuses is named as such', async () => {
    const proxy = await connectProxy({ refuseWith: 407 });
    const { ask, base } = await passing(echo, { relay: { proxy: { https: proxy.url } } });
    const answer = await ask(`GET ${base}/v2/providers/acme/widget`);
    expect(String(answer.json()['errors'])).toContain('the proxy answered 407');
  });

  it.each([
    'https://127.0.0.1:PORT/v1/modules/',
    'https://[::1]:PORT/v1/modules/',
    'https://2130706433:PORT/v1/modules/',
    'https://localhost:PORT/v1/modules/',
  ])('an upstream on the internet leads to no machine of our own network: %s', async (url) => {
    const other = await passing(echo);
    const { ask, base } = await passing(echo, {
      upstream: { privateNetwork: false },
      services: { 'modules.v1': url.replace('PORT', String(other.upstream.port)) },
    });
    const answer = await ask(`GET ${base}/v1/modules/search`);
    expect([answer.statusLine, answer.json()['code']]).toEqual(['HTTP/1.1 502 Bad Gateway', 'UPSTREAM_INVALID']);
    expect(other.upstream.connections()).toBe(0);
  });

  it('the log names the path and no query', async () => {
    const { ask, base, log } = await passing(echo);
    await ask(`GET ${base}/v1/modules/search?token=hidden-in-query`);
    const entry = await log.entry('request');
    expect(entry.fields).toMatchObject({ path: `${base}/v1/modules/search`, outcome: 'passed-on', status: 200 });
    expect(JSON.stringify(log.entries)).not.toContain('hidden-in-query');
  });
});

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
