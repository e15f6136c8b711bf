import { expect, test } from 'vitest';
import { Hostname } from '../../src/address/hostname.ts';
import { ServiceDiscovery, serviceUrl } from '../../src/upstream/service-discovery.ts';
import { clientFor, failureOf, type Handler, patience, serve, upstreamAt } from './scripted-server.ts';

async function discovering(handler: Handler) {
  const server = await serve(handler);
  const upstream = await upstreamAt(server.host, { token: async () => 'TOKEN' });
  const discovery = new ServiceDiscovery({ http: clientFor() });
  return { server, upstream, discover: () => discovery.discover(upstream, patience()) };
}

const answering = (document: unknown, type = 'application/json') =>
  discovering((_, response) =>
    response
      .writeHead(200, { 'content-type': type })
      .end(typeof document === 'string' ? document : JSON.stringify(document)),
  );

test('asks /.well-known/terraform.json for JSON, with the token of the host', async () => {
  const { server, discover } = await answering({ 'providers.v1': '/v1/providers/' });
  expect(await discover()).toEqual({ 'providers.v1': `${server.origin}/v1/providers/` });
  expect(server.requests).toMatchObject([
    { path: '/.well-known/terraform.json', headers: { accept: 'application/json', authorization: 'Bearer TOKEN' } },
  ]);
});

test('R13: relative addresses, absolute ones on other hosts and ports, paths kept, slash added, query dropped', async () => {
  const { server, discover } = await answering({
    'providers.v1': '/api/reg/v1/providers',
    'modules.v1': 'https://API.up.example:8443/m?x=1#y',
    'state.v2': 'deeper/state',
    'motd.v1': 'https://up.example:443/motd/',
    'plain.v1': 'http://up.example',
  });
  expect(await discover()).toEqual({
    'providers.v1': `${server.origin}/api/reg/v1/providers/`,
    'modules.v1': 'https://api.up.example:8443/m/',
    'state.v2': `${server.origin}/.well-known/deeper/state/`,
    'motd.v1': 'https://up.example/motd/',
    'plain.v1': 'http://up.example/',
  });
});

test('R13: relative addresses are relative to where redirects ended', async () => {
  const elsewhere = await serve((_, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"providers.v1":"../p/"}'),
  );
  const { server, discover } = await discovering((_, response) =>
    response.writeHead(301, { location: `${elsewhere.origin}/a/b/services.json` }).end(),
  );
  expect(await discover()).toEqual({ 'providers.v1': `${elsewhere.origin}/a/p/` });
  expect(server.requests[0]?.headers.authorization).toBe('Bearer TOKEN');
  expect(elsewhere.requests[0]?.headers).not.toHaveProperty('authorization');
});

test('R72: three redirects are followed, a fourth is not', async () => {
  for (const [hops, fine] of [
    [3, true],
    [4, false],
  ] as const) {
    const { discover } = await discovering((request, response) => {
      const done = Number(/hop(\d)/.exec(request.url ?? '')?.[1] ?? 0);
      if (done === hops) response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      else response.writeHead(302, { location: `/hop${done + 1}` }).end();
    });
    if (fine) expect(await discover()).toEqual({});
    else expect(await failureOf(discover())).toMatchObject({ code: 'UPSTREAM_INVALID' });
  }
});

test('only strings are services; keys that mean something to JavaScript are just keys', async () => {
  const { discover } = await answering(
    '{"providers.v1":null,"modules.v1":["/m/"],"login.v1":{"client":"x"},"n.v1":7,"__proto__":"/p/","constructor":"/c/"}',
  );
  const services = await discover();
  expect(Object.keys(services).sort()).toEqual(['__proto__', 'constructor']);
  expect(JSON.parse(JSON.stringify(services))).toEqual(services);
  expect(() => serviceUrl({}, 'constructor', Hostname.parse('up.example'))).toThrow(/does not offer constructor/);
});

test.each([
  ['ftp', 'ftp://up.example/p/'],
  ['user names', 'https://user:hunter2@up.example/p/'],
  ['nonsense', 'https://'],
])('addresses with %s are refused when needed and left out otherwise', async (_, value) => {
  expect(await (await answering({ 'login.v1': value })).discover()).toEqual({});
  const failure = await failureOf((await answering({ 'providers.v1': value })).discover());
  expect(failure).toMatchObject({ code: 'UPSTREAM_INVALID', message: expect.stringContaining('providers.v1') });
  expect(failure.message).not.toContain('hunter2');
});

test.each(['application/json', 'application/json; charset=utf-8', 'Application/JSON ;charset="utf-8"'])(
  'media type %s is fine',
  async (type) => {
    expect(await (await answering({ 'x.v1': '/' }, type)).discover()).toHaveProperty(['x.v1']);
  },
);

test.each([
  ['a portal', '<!doctype html>', 'text/html; charset=utf-8', /text\/html/],
  ['JSON under another name', '{}', 'text/plain', /text\/plain/],
  ['JSON of another name', '{}', 'application/json5', /json5/],
  ['a list', '[]', 'application/json', /no JSON object/],
  ['null', 'null', 'application/json', /no JSON object/],
  ['HTML that calls itself JSON', '<html>', 'application/json', /no JSON object/],
  ['more than a megabyte', `{"x":"${'x'.repeat(1024 * 1024)}"}`, 'application/json', /more than/],
])('%s is nonsense and says what came', async (_, document, type, said) => {
  expect(await failureOf((await answering(document, type)).discover())).toMatchObject({
    code: 'UPSTREAM_INVALID',
    message: expect.stringMatching(said),
  });
});

test('a missing content type is nonsense', async () => {
  const { discover } = await discovering((_, response) => response.end('{}'));
  expect(await failureOf(discover())).toMatchObject({ code: 'UPSTREAM_INVALID' });
});

test.each([
  [404, 'UPSTREAM_INVALID', /offers no services/],
  [401, 'UPSTREAM_REFUSED', /refused/],
  [500, 'UPSTREAM_UNREACHABLE', /failed/],
  [201, 'UPSTREAM_INVALID', /201/],
])('%i is %s', async (status, code, said) => {
  const { discover } = await discovering((_, response) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end('{}'),
  );
  expect(await failureOf(discover())).toMatchObject({ code, message: expect.stringMatching(said) });
});

test('R28, R30: the service of a host may be anywhere; a host that does not offer it is named', () => {
  const services = { 'providers.v1': 'https://up.example:8443/p/' };
  expect(serviceUrl(services, 'providers.v1', Hostname.parse('up.example')).href).toBe('https://up.example:8443/p/');
  expect(() => serviceUrl(services, 'modules.v1', Hostname.parse('up.example:8443'))).toThrow(
    expect.objectContaining({ code: 'UPSTREAM_INVALID', message: 'up.example:8443 does not offer modules.v1' }),
  );
});
