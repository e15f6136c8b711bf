import { expect, test } from 'vitest';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { NotFound } from '../../src/errors.ts';
import { archive, packages, readable, start, WIDGET_PATH } from './harness.ts';

const versions = (...texts: string[]) => ({ versions: texts.map((text) => Version.parse(text)) });

test('index.json names every version, as the media type the clients insist on', async () => {
  const { ask, mirror } = await start({ listVersions: async () => versions('2.0.0-RC1', '1.0.0+b.1', '1.0.0') });
  const answer = await ask(`GET ${WIDGET_PATH}/index.json`);
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(answer.body.toString()).toBe('{"versions":{"2.0.0-RC1":{},"1.0.0+b.1":{},"1.0.0":{}}}');
  expect(answer.headers['content-type']).toBe('application/json');
  expect(answer.headers['content-length']).toBe(String(answer.body.length));
  expect(answer.headers['cache-control']).toBe('no-cache');
  expect(answer.headers['warning']).toBeUndefined();
  expect(answer.headers['x-powered-by']).toBeUndefined();
  expect(mirror.asked).toEqual(['versions registry.example.com/acme/widget']);
});

test('VERSION.json gives bare file names, sorted, and leaves out hashes that are not known', async () => {
  const { ask } = await start({
    listPackages: async () => packages(['linux_amd64', ['zh:bb', 'h1:aa']], ['darwin_arm64', []]),
  });
  const answer = await ask(`GET ${WIDGET_PATH}/1.0.0.json`);
  expect(answer.body.toString()).toBe(
    '{"archives":{' +
      '"darwin_arm64":{"url":"terraform-provider-widget_1.0.0_darwin_arm64.zip"},' +
      '"linux_amd64":{"hashes":["h1:aa","zh:bb"],"url":"terraform-provider-widget_1.0.0_linux_amd64.zip"}}}',
  );
  expect(answer.headers['content-type']).toBe('application/json');
});

test('R89: a version that nobody has is an empty list, so that clients go on to their next source', async () => {
  const { ask } = await start({ listPackages: async () => ({ archives: [] }) });
  const answer = await ask(`GET ${WIDGET_PATH}/9.9.9.json`);
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(answer.body.toString()).toBe('{"archives":{}}');
});

test('L20: a plus sign in a version is a plus sign, in paths and in links', async () => {
  const { ask, mirror } = await start({
    listPackages: async () => ({ archives: [{ archive: archive('linux_amd64', '1.0.0+b.1'), hashes: [] }] }),
  });
  for (const spelling of ['1.0.0+b.1', '1.0.0%2Bb.1']) {
    const answer = await ask(`GET ${WIDGET_PATH}/${spelling}.json`);
    expect(answer.body.toString()).toContain('"terraform-provider-widget_1.0.0+b.1_linux_amd64.zip"');
  }
  expect(new Set(mirror.asked)).toEqual(new Set(['packages registry.example.com/acme/widget 1.0.0+b.1']));
});

test('links to providers with names beyond ASCII are percent-encoded', async () => {
  const provider = ProviderAddress.parse('registry.example.com/acme/bücher');
  const { ask } = await start({
    listPackages: async () => ({ archives: [{ archive: archive('linux_amd64', '1.0.0', provider), hashes: [] }] }),
    describeArchive: async () => ({ size: 3, sha256: undefined, storedAt: undefined }),
  });
  const listed = await ask('GET /providers/registry.example.com/acme/b%C3%BCcher/1.0.0.json');
  expect(listed.body.toString()).toContain('"url":"terraform-provider-b%C3%BCcher_1.0.0_linux_amd64.zip"');
  const head = await ask(
    'HEAD /providers/registry.example.com/acme/b%C3%BCcher/terraform-provider-b%C3%BCcher_1.0.0_linux_amd64.zip',
  );
  expect(head.statusLine).toBe('HTTP/1.1 200 OK');
});

test.each([
  ['R30: a port, plain', 'up.example.com:8443/acme/widget', 'up.example.com:8443/acme/widget'],
  ['R30: a port, encoded', 'up.example.com%3A8443/acme/widget', 'up.example.com:8443/acme/widget'],
  ['R30: an address with a port', '127.0.0.1:8443/acme/widget', '127.0.0.1:8443/acme/widget'],
  ['port 443 is no port', 'up.example.com:443/acme/widget', 'up.example.com/acme/widget'],
  ['R50: any case', 'Registry.Terraform.IO/1Password/OnePassword', 'registry.terraform.io/1password/onepassword'],
  ['R96: punycode', 'xn--bcher-kva.example.com/acme/widget', 'xn--bcher-kva.example.com/acme/widget'],
  ['R96: Unicode', 'B%C3%BCcher.example.com/acme/widget', 'xn--bcher-kva.example.com/acme/widget'],
  ['an encoded dash', 'up.example.com/acme/google%2Dbeta', 'up.example.com/acme/google-beta'],
])('%s leads to the one identity', async (_name, path, identity) => {
  const { ask, mirror } = await start({ listVersions: async () => versions('1.0.0') });
  const answer = await ask(`GET /providers/${path}/index.json`);
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(mirror.asked).toEqual([`versions ${identity}`]);
});

test.each([
  ['google-beta', 'terraform-provider-google-beta_4.57.0_linux_amd64.zip'],
  ['widget', 'terraform-provider-widget_1.0.0-rc.1_linux_arm64.zip'],
  ['widget', 'terraform-provider-widget_1.0.0+b.1_linux_amd64.zip'],
])('R52: archives of %s are found by their names: %s', async (type, filename) => {
  const { ask, mirror } = await start({ openArchive: async () => readable() });
  const answer = await ask(`GET /providers/registry.example.com/acme/${type}/${filename}`);
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(mirror.asked).toEqual([`open registry.example.com/acme/${type}/${filename}`]);
});

test('an unchanged document is not sent again, and a changed one is', async () => {
  let listed = versions('1.0.0');
  const { ask } = await start({ listVersions: async () => listed });
  const { etag } = (await ask(`GET ${WIDGET_PATH}/index.json`)).headers;
  expect(etag).toMatch(/^"[\w-]{43}"$/);

  for (const condition of [etag, `"other", W/${etag}`, '*']) {
    const again = await ask(`GET ${WIDGET_PATH}/index.json`, `If-None-Match: ${condition}`);
    expect(again.statusLine).toBe('HTTP/1.1 304 Not Modified');
    expect(again.headers['etag']).toBe(etag);
    expect(again.headers['content-length']).toBeUndefined();
    expect(again.headers['transfer-encoding']).toBeUndefined();
    expect(again.body.length).toBe(0);
  }
  listed = versions('1.0.1', '1.0.0');
  const changed = await ask(`GET ${WIDGET_PATH}/index.json`, `If-None-Match: ${etag}`);
  expect(changed.statusLine).toBe('HTTP/1.1 200 OK');
  expect(changed.headers['etag']).not.toBe(etag);
});

test('HEAD of a document has the headers of GET and no body', async () => {
  const { ask } = await start({ listVersions: async () => versions('1.0.0') });
  const got = await ask(`GET ${WIDGET_PATH}/index.json`);
  const head = await ask(`HEAD ${WIDGET_PATH}/index.json`);
  expect(head.statusLine).toBe('HTTP/1.1 200 OK');
  expect(head.headers['content-length']).toBe(got.headers['content-length']);
  expect(head.headers['etag']).toBe(got.headers['etag']);
  expect(head.body.length).toBe(0);
});

test('what upstream could not confirm is marked as stale, with its age', async () => {
  const stale = { ageSeconds: 90.4, reason: 'registry.example.com did not answer' };
  const { ask, log } = await start({
    listVersions: async () => ({ ...versions('1.0.0'), stale }),
    listPackages: async () => ({ archives: [], stale }),
  });
  for (const file of ['index.json', '1.0.0.json']) {
    const answer = await ask(`GET ${WIDGET_PATH}/${file}`);
    expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
    expect(answer.headers['warning']).toBe('110 - "Response is Stale"');
    expect(answer.headers['age']).toBe('90');
  }
  expect((await log.entry('request')).fields['outcome']).toBe('stale');
});

test.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])('%s is refused and says what is allowed', async (method) => {
  const { ask, mirror } = await start();
  const answer = await ask(`${method} ${WIDGET_PATH}/index.json`, 'Content-Length: 0');
  expect(answer.statusLine).toBe('HTTP/1.1 405 Method Not Allowed');
  expect(answer.headers['allow']).toBe('GET, HEAD');
  expect(answer.json()['code']).toBe('METHOD_NOT_ALLOWED');
  expect(mirror.asked).toEqual([]);
});

test.each([
  ['a hostname that cannot be one', '/providers/exa_mple.com/acme/widget/index.json'],
  ['a provider with dots', '/providers/registry.example.com/acme/wid.get/index.json'],
  ['a version that is none', `${WIDGET_PATH}/latest.json`],
  ['a version in another spelling', `${WIDGET_PATH}/v1.0.0.json`],
  ['an archive of another provider', `${WIDGET_PATH}/terraform-provider-gadget_1.0.0_linux_amd64.zip`],
  ['R52: a platform of three parts', `${WIDGET_PATH}/terraform-provider-widget_1.0.0_linux_arm_v6.zip`],
  ['an address encoded twice', '/providers/registry.example.com/acme/%252e%252e/index.json'],
])('%s is refused before anything is asked', async (_name, path) => {
  const { ask, mirror } = await start();
  const answer = await ask(`GET ${path}`);
  expect(answer.statusLine).toBe('HTTP/1.1 400 Bad Request');
  expect(answer.headers['content-type']).toBe('application/json');
  expect(answer.json()).toMatchObject({ code: 'INVALID_ADDRESS', errors: [expect.stringContaining('not a valid')] });
  expect(mirror.asked).toEqual([]);
});

test('R78: a query that was encoded into the file name is a 404 that says so; a real query is ignored', async () => {
  const { ask, mirror } = await start({ openArchive: async () => readable() });
  const zip = `${WIDGET_PATH}/terraform-provider-widget_1.0.0_linux_amd64.zip`;
  const escaped = await ask(`GET ${zip}%3Ftoken=T`);
  expect(escaped.statusLine).toBe('HTTP/1.1 404 Not Found');
  expect(escaped.json()['hint']).toContain('percent-encoded');
  expect(mirror.asked).toEqual([]);
  expect((await ask(`GET ${zip}?token=T`)).statusLine).toBe('HTTP/1.1 200 OK');
});

test('R49: two hundred requests at once are all answered, none is told to slow down', async () => {
  const { origin } = await start({ listVersions: async () => versions('1.0.0') });
  const answers = await Promise.all(
    Array.from({ length: 200 }, async () => {
      const answer = await fetch(`${origin}${WIDGET_PATH}/index.json`);
      await answer.arrayBuffer();
      return answer.status;
    }),
  );
  expect(new Set(answers)).toEqual(new Set([200]));
});

test('R21: documents are not compressed, whatever is offered', async () => {
  const { ask } = await start({ listVersions: async () => versions('1.0.0') });
  const answer = await ask(`GET ${WIDGET_PATH}/index.json`, 'Accept-Encoding: gzip, br');
  expect(answer.headers['content-encoding']).toBeUndefined();
});

test('R89: an unknown provider is a 404', async () => {
  const { ask } = await start({
    listVersions: async () => {
      throw new NotFound('registry.example.com does not know acme/widget');
    },
  });
  const answer = await ask(`GET ${WIDGET_PATH}/index.json`);
  expect(answer.statusLine).toBe('HTTP/1.1 404 Not Found');
  expect(answer.json()).toMatchObject({
    code: 'NOT_FOUND',
    errors: ['registry.example.com does not know acme/widget'],
  });
});
