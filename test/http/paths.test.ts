import { expect, test } from 'vitest';
import { readable, start, WIDGET_PATH, ZIP_PATH } from './harness.ts';

test.each([
  ['/', '//evil.example.com/acme/widget/index.json'],
  ['an empty segment', '/providers//acme/widget/index.json'],
  ['dots', '/providers/../providers/registry.example.com/acme/widget/index.json'],
  ['encoded dots', '/providers/%2e%2e/acme/widget/index.json'],
  ['half encoded dots', '/providers/.%2E/acme/widget/index.json'],
  ['one dot', '/providers/./acme/widget/index.json'],
  ['an encoded slash', '/providers/..%2f..%2fetc/acme/widget/index.json'],
  ['an encoded backslash', '/providers/..%5c..%5cetc/acme/widget/index.json'],
  ['a backslash', '/providers/..\\..\\etc/acme/widget/index.json'],
  ['an encoded NUL', '/providers/registry.example.com%00/acme/widget/index.json'],
  ['an encoded line break', '/providers/registry.example.com/acme%0d%0a/widget/index.json'],
  ['broken percent-encoding', '/providers/registry.example.com/acme/%zz/index.json'],
  ['percent-encoding that is no UTF-8', '/providers/registry.example.com/acme/%ff/index.json'],
  ['a percent sign at the end', `${WIDGET_PATH}/index.json%`],
  ['bytes beyond ASCII', '/providers/registry.example.com/acme/b\u00fccher/index.json'],
  ['dots outside the mirror', '/../../etc/passwd'],
  ['what looks like a host and a fragment', '//!@#/providers'],
  ['the same behind a backslash', '/\\!@#/providers'],
])('a path with %s is refused in JSON: %s', async (_name, path) => {
  const { ask, mirror } = await start();
  const answer = await ask(`GET ${path}`);
  expect(answer.statusLine).toBe('HTTP/1.1 400 Bad Request');
  expect(answer.headers['content-type']).toBe('application/json');
  expect(answer.json()['errors']).toHaveLength(1);
  expect(mirror.asked).toEqual([]);
});

test.each(['ab://x:1?', 'http://registry.example.com', 'http://registry.example.com/?', '*'])(
  'a target that is no path at all is refused in JSON, and logged: %s',
  async (target) => {
    const { ask, log } = await start();
    const answer = await ask(`OPTIONS ${target}`);
    expect(answer.statusLine).toBe('HTTP/1.1 400 Bad Request');
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.json()['code']).toBe('NOT_A_PROXY');
    expect((await log.entry('request')).fields).toMatchObject({ status: 400, requestId: answer.json()['requestId'] });
  },
);

test('a target of more than 8 KiB is refused, be it path or query', async () => {
  const { ask } = await start();
  for (const target of [`/providers/${'a'.repeat(8_200)}`, `/?${'a'.repeat(8_200)}`]) {
    const answer = await ask(`GET ${target}`);
    expect(answer.statusLine).toBe('HTTP/1.1 414 URI Too Long');
    expect(answer.json()['code']).toBe('URI_TOO_LONG');
  }
});

test('headers of more than 16 KiB are refused in JSON', async () => {
  const { ask } = await start();
  const answer = await ask('GET /healthz', `X-Long: ${'a'.repeat(17_000)}`);
  expect(answer.statusLine).toBe('HTTP/1.1 431 Request Header Fields Too Large');
  expect(answer.json()['code']).toBe('HEADERS_TOO_LARGE');
});

test('what is no HTTP is refused in JSON', async () => {
  const { exchange } = await start();
  const answer = await exchange('\u0016\u0003\u0001 hello\n\n');
  expect(answer.statusLine).toBe('HTTP/1.1 400 Bad Request');
  expect(answer.json()['code']).toBe('BAD_REQUEST');
});

test('R75: CONNECT is refused with a hint, and the server goes on', async () => {
  const { exchange, ask } = await start();
  const answer = await exchange('CONNECT registry.terraform.io:443 HTTP/1.1\nHost: registry.terraform.io:443\n\n');
  expect(answer.statusLine).toBe('HTTP/1.1 405 Method Not Allowed');
  expect(answer.json()).toMatchObject({ code: 'NOT_A_PROXY', hint: expect.stringContaining('HTTPS_PROXY') });
  expect((await ask('GET /healthz')).statusLine).toBe('HTTP/1.1 200 OK');
});

test('R75: a request meant for a forward proxy is refused with a hint', async () => {
  const { ask, mirror } = await start();
  const answer = await ask('GET http://registry.terraform.io/v1/providers/hashicorp/aws/versions');
  expect(answer.statusLine).toBe('HTTP/1.1 400 Bad Request');
  expect(answer.json()).toMatchObject({ code: 'NOT_A_PROXY', hint: expect.stringContaining('HTTPS_PROXY') });
  expect((await ask('OPTIONS *')).statusLine).toBe('HTTP/1.1 400 Bad Request');
  expect(mirror.asked).toEqual([]);
});

test('an upgrade is not taken up', async () => {
  const { exchange } = await start({ openArchive: async () => readable() });
  const answer = await exchange(
    `GET ${ZIP_PATH} HTTP/1.1\nHost: larder.test\nUpgrade: websocket\nConnection: Upgrade, close\n\n`,
  );
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
});

test.each([
  ['R19: the base URL without its slash', '/providers', 'http://larder.test/providers/ (with the slash'],
  ['R19: the base URL itself', '/providers/', 'http://larder.test/providers/ (with the slash'],
  ['L3: a mirror request at the root', '/registry.terraform.io/acme/w/index.json', 'without that slash'],
  ['L3: an archive at the root', '/registry.terraform.io/acme/w/terraform-provider-w_1.0.0_a_b.zip', 'that slash'],
  ['R75: no hostname', '/providers/hashicorp/aws/index.json', 'hostname of the registry is missing'],
  ['R75: no hostname, of a version', '/providers/hashicorp/aws/5.0.0.json', 'hostname of the registry is missing'],
  ['R19: a space in the base URL', '/providers%20/registry.terraform.io/acme/w/index.json', '/providers/ (with'],
  ['R19: a space before the hostname', '/providers/%20registry.terraform.io/acme/w/index.json', 'stray space'],
  ['the registry protocol', '/v1/providers/hashicorp/aws/versions', 'http://larder.test/ shows how'],
  [
    'another file of a provider',
    `${WIDGET_PATH}/terraform-provider-widget_1.0.0_SHA256SUMS`,
    'index.json, VERSION.json',
  ],
  ['a directory', `${WIDGET_PATH}/`, 'below it are'],
  ['anything else', '/favicon.ico', 'http://larder.test/ shows how'],
  ['another case', '/Providers/registry.example.com/acme/widget/index.json', '/providers/ (with'],
])('%s is a 404 in JSON with a hint', async (_name, path, hint) => {
  const { ask, mirror } = await start();
  const answer = await ask(`GET ${path}`);
  expect(answer.statusLine).toBe('HTTP/1.1 404 Not Found');
  expect(answer.headers['content-type']).toBe('application/json');
  expect(answer.json()).toMatchObject({ code: 'NOT_FOUND', hint: expect.stringContaining(hint) });
  expect(mirror.asked).toEqual([]);
});

test('hints name the address that is configured, when one is', async () => {
  const { ask } = await start({}, { publicUrl: 'https://mirror.example.com/larder/' });
  const answer = await ask('GET /providers');
  expect(answer.json()['hint']).toContain('https://mirror.example.com/larder/providers/ (with');
});

test('a Host that is no address does not get into hints', async () => {
  const { exchange } = await start();
  const answer = await exchange('GET /providers HTTP/1.1\nHost: evil"><script>\nConnection: close\n\n');
  expect(answer.body.toString()).not.toContain('script');
});

test('the access log tells one line a request, without the query', async () => {
  const { ask, log } = await start({ openArchive: async () => readable() });
  const answer = await ask(`GET ${ZIP_PATH}?token=secret`);
  const entry = await log.entry('request');
  expect(entry).toMatchObject({
    level: 'info',
    fields: {
      requestId: answer.headers['x-request-id'],
      method: 'GET',
      path: ZIP_PATH,
      status: 200,
      outcome: 'stored',
      ms: expect.any(Number),
    },
  });
  expect(entry.fields['bytes']).toBeGreaterThan(1000);
  expect(JSON.stringify(log.entries)).not.toContain('secret');
  expect(log.entries.filter(({ message }) => message === 'request')).toHaveLength(1);
});

test('health checks are logged for debugging only', async () => {
  const { ask, log } = await start();
  await ask('GET /healthz');
  expect((await log.entry('request')).level).toBe('debug');
});
