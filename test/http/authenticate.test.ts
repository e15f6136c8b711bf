import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { ProviderPattern } from '../../src/address/provider-pattern.ts';
import { Authenticator, type KnownToken, type Role } from '../../src/http/authenticate.ts';
import { FailedAttempts } from '../../src/http/failed-attempts.ts';
import { archive, packages, readable, start, WIDGET, WIDGET_PATH, ZIP_PATH } from './harness.ts';

const INDEX = `GET ${WIDGET_PATH}/index.json`;

function known(name: string, token: string, roles: Role[] = ['read'], ...addresses: string[]): KnownToken {
  const patterns = addresses.flatMap((text) => ProviderPattern.parse(text) ?? []);
  return {
    name,
    digest: createHash('sha256').update(token).digest(),
    roles,
    addresses: patterns.length === 0 ? undefined : patterns,
  };
}

const TOKENS = [
  known('ci', 's3cret.ci'),
  known('ops', 's3cret:ops', ['admin']),
  known('platform', 's3cret-platform', ['read'], 'registry.example.com/platform/*', 'other.example.com/*/*'),
  known('acme', 's3cret-acme', ['read'], '*/acme/*'),
];

const bearer = (token: string) => `Authorization: Bearer ${token}`;
const basic = (userAndPassword: string) => `Authorization: Basic ${Buffer.from(userAndPassword).toString('base64')}`;

function open(options: { anonymous?: 'read' | 'none'; publicUrl?: string; tokens?: readonly KnownToken[] } = {}) {
  const { anonymous = 'none', publicUrl, tokens = TOKENS } = options;
  const authenticator = new Authenticator({ anonymous, tokens: async () => tokens, publicUrl });
  return start(
    {
      listVersions: async () => ({ versions: [] }),
      listPackages: async () => packages(['linux_amd64', []]),
      openArchive: async () => readable(),
      describeArchive: async () => ({ size: 3, sha256: undefined, storedAt: undefined }),
    },
    { authenticator },
  );
}

test.each([
  ['a bearer token', bearer('s3cret.ci')],
  ['its scheme in any case', 'authorization: bEARER s3cret.ci'],
  ['the password of Basic, whoever the user is', basic('anybody:s3cret.ci')],
  ['the password of Basic without a user', basic(':s3cret.ci')],
  ['a token for a pattern that matches', bearer('s3cret-acme')],
])('%s lets in', async (_name, header) => {
  const { ask, mirror } = await open();
  expect((await ask(INDEX, header)).statusLine).toBe('HTTP/1.1 200 OK');
  expect(mirror.asked).toEqual([`versions ${WIDGET}`]);
});

test.each([
  ['nothing', []],
  ['an unknown token', [bearer('s3cret.ci2')]],
  ['the beginning of a token', [bearer('s3cret.c')]],
  ['a token in other letters', [bearer('S3CRET.CI')]],
  ['the digest of a token', [bearer(createHash('sha256').update('s3cret.ci').digest('hex'))]],
  ['an empty token, as clients send of an empty variable', ['Authorization: Bearer ']],
  ['the token as the user of Basic', [basic('s3cret.ci:')]],
  ['the token without a scheme', ['Authorization: s3cret.ci']],
  ['another scheme', ['Authorization: Digest s3cret.ci']],
  ['broken Base64', ['Authorization: Basic !!!!']],
  ['two tokens', ['Authorization: Bearer s3cret.ci s3cret.ci']],
])('%s is answered 401 at every file, before anybody is asked for anything', async (_name, headers) => {
  const { ask, mirror, log } = await open();
  for (const target of [
    INDEX,
    `GET ${WIDGET_PATH}/1.0.0.json`,
    `HEAD ${ZIP_PATH}`,
    `GET ${ZIP_PATH}`,
    'GET /providers/exa_mple.com/a/b/index.json',
    'GET /providers/x',
  ]) {
    const answer = await ask(target, ...headers);
    expect(answer.statusLine).toBe('HTTP/1.1 401 Unauthorized');
    expect(answer.headers['www-authenticate']).toBe('Bearer realm="larder", Basic realm="larder"');
    expect(answer.headers['cache-control']).toBe('no-store');
    if (target.startsWith('HEAD')) continue;
    expect(answer.json()).toMatchObject({ code: 'UNAUTHENTICATED', hint: expect.stringContaining('TF_TOKEN_') });
    expect(answer.body.toString().toLowerCase()).not.toContain('s3cret');
  }
  expect(mirror.asked).toEqual([]);
  expect(JSON.stringify(log.entries).toLowerCase()).not.toContain('s3cret');
});

test('what is open to all stays open', async () => {
  const { ask } = await open();
  for (const path of ['/', '/style.css', '/healthz', '/readyz']) {
    expect((await ask(`GET ${path}`)).statusLine).toBe('HTTP/1.1 200 OK');
  }
});

test('a token for other addresses, or of another role, is answered 403', async () => {
  const { ask, mirror } = await open();
  for (const token of ['s3cret-platform', 's3cret:ops']) {
    for (const target of [INDEX, `GET ${WIDGET_PATH}/1.0.0.json`, `GET ${ZIP_PATH}`]) {
      const answer = await ask(target, bearer(token));
      expect(answer.statusLine).toBe('HTTP/1.1 403 Forbidden');
      expect(answer.json()['code']).toBe('FORBIDDEN');
    }
  }
  expect(mirror.asked).toEqual([]);
  const allowed = '/providers/registry.example.com/platform/widget/index.json';
  expect((await ask(`GET ${allowed}`, bearer('s3cret-platform'))).statusLine).toBe('HTTP/1.1 200 OK');
});

test('where anybody may read, tokens of other hosts and of Larder alike do no harm', async () => {
  const { ask } = await open({ anonymous: 'read' });
  for (const headers of [[], [bearer('of-another-host')], [bearer('s3cret-platform')], [bearer('s3cret:ops')]]) {
    const answer = await ask(`GET ${ZIP_PATH}`, ...headers);
    expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
    expect(answer.headers['cache-control']).toBe('public, max-age=31536000, immutable');
  }
});

test('with a token needed, caches on the way may not give archives or lists to others', async () => {
  const { ask } = await open();
  const archive = await ask(`GET ${ZIP_PATH}`, bearer('s3cret.ci'));
  expect(archive.headers['cache-control']).toBe('private, max-age=31536000, immutable');
  const list = await ask(`GET ${WIDGET_PATH}/1.0.0.json`, bearer('s3cret.ci'));
  expect(list.headers['cache-control']).toBe('private, no-cache');
});

test.each([
  ['https://larder.corp-x.example', 'credentials "larder.corp-x.example" {', 'TF_TOKEN_larder_corp__x_example'],
  ['https://larder.example:8443/x', 'credentials "larder.example:8443" {', 'TF_TOKEN_larder_example:8443'],
])('the refusal says for %s where the token is to be configured', async (publicUrl, block, variable) => {
  const { ask } = await open({ publicUrl });
  const { hint } = (await ask(INDEX)).json();
  expect(hint).toContain(block);
  expect(hint).toContain(variable);
});

test('nothing of the request is in the refusal', async () => {
  const { exchange } = await open();
  const answer = await exchange(
    `${INDEX} HTTP/1.1\nHost: echo.example\nX-Forwarded-Host: echo.example\nConnection: close\n${bearer('echo')}\n\n`,
  );
  expect(answer.statusLine).toBe('HTTP/1.1 401 Unauthorized');
  expect(answer.body.toString()).not.toContain('echo');
});

test('after 20 wrong tokens within a minute the next are answered 429, and valid ones never', async () => {
  const { ask } = await open();
  for (let count = 0; count < 20; count += 1) {
    expect((await ask(INDEX, bearer(`guess${count}`))).statusLine).toContain(' 401 ');
  }
  const answer = await ask(INDEX, bearer('guess'));
  expect(answer.statusLine).toBe('HTTP/1.1 429 Too Many Requests');
  expect(answer.headers['retry-after']).toBe('5');
  expect(answer.json()['code']).toBe('TOO_MANY_ATTEMPTS');
  expect((await ask(INDEX, bearer('s3cret.ci'))).statusLine).toContain(' 200 ');
  expect((await ask(INDEX)).statusLine).toContain(' 401 ');
  // What a client says of where it comes from counts for nothing.
  expect((await ask(INDEX, bearer('guess'), 'X-Forwarded-For: 192.0.2.1')).statusLine).toContain(' 429 ');
});

test('failed attempts are forgotten after a minute, counted by IPv6 network, and bounded in number', () => {
  let now = 1_000;
  const attempts = new FailedAttempts({ now: () => now });
  const tooMany = (address: string, times: number) => {
    let last = false;
    for (let count = 0; count < times; count += 1) last = attempts.add(address);
    return last;
  };
  expect(tooMany('192.0.2.1', 20)).toBe(false);
  expect(tooMany('::ffff:192.0.2.1', 1)).toBe(true);
  expect(tooMany('192.0.2.2', 1)).toBe(false);
  now += 59_000;
  expect(tooMany('192.0.2.1', 1)).toBe(true);
  now += 2_000;
  expect(tooMany('192.0.2.1', 1)).toBe(false);

  expect(tooMany('2001:db8:0:1::1', 20)).toBe(false);
  expect(tooMany('2001:db8:0:1:ffff::2', 1)).toBe(true);
  expect(tooMany('2001:db8:0:2::1', 1)).toBe(false);

  expect(tooMany('192.0.2.9', 21)).toBe(true);
  for (let other = 0; other < 10_000; other += 1) attempts.add(`10.0.${other >> 8}.${other & 255}`);
  expect(tooMany('192.0.2.9', 1)).toBe(false);
});

test('an unknown token is kept for those whom it may be meant for, where no logger finds it', async () => {
  const authenticator = new Authenticator({ anonymous: 'read', tokens: async () => TOKENS });
  const identify = (authorization: string) =>
    authenticator.identify({ headers: { authorization } } as Parameters<typeof authenticator.identify>[0]);
  const stranger = await identify('Bearer of-another-host');
  expect(stranger).toMatchObject({ name: 'anonymous', isAnonymous: true, roles: ['read'], bearer: 'of-another-host' });
  expect(JSON.stringify(stranger)).not.toContain('of-another-host');
  expect(Object.keys(stranger)).not.toContain('bearer');
  const holder = await identify('Bearer s3cret.ci');
  expect(holder).toMatchObject({ name: 'ci', isAnonymous: false, subject: 'token:ci', bearer: undefined });
  expect(holder.mayRead(archive('linux_amd64').provider)).toBe(true);
});

test('the page for people says how to configure the token, for the address it was asked on', async () => {
  const { exchange } = await open();
  const page = async (host: string) =>
    (await exchange(`GET / HTTP/1.1\nHost: ${host}\nX-Forwarded-Proto: https\nConnection: close\n\n`)).body.toString();
  expect(await page('larder.example:8443')).toContain('credentials &quot;larder.example:8443&quot; {');
  expect(await page('larder.example:8443')).toContain("env 'TF_TOKEN_larder.example:8443=…'");
  expect(await page('larder.example')).toContain('TF_TOKEN_larder_example');
  const { ask } = await open({ anonymous: 'read' });
  expect((await ask('GET /')).body.toString()).not.toContain('credentials');
});
