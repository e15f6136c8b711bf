import { describe, expect, test } from 'vitest';
import { ModuleAddress } from '../../src/address/module.ts';
import { ModuleRegistry } from '../../src/upstream/module-registry.ts';
import type { Upstream } from '../../src/upstream/upstream.ts';
import { clientFor, failureOf, patience, type ScriptedServer, serve, upstreamAt } from './scripted-server.ts';

interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
}

/** A registry under `/reg/` whose answers are given by path. */
async function registry(pages: Record<string, Reply>, overrides: Partial<Upstream> = {}) {
  const server: ScriptedServer = await serve((request, response) => {
    const page = pages[request.url ?? ''];
    const { status = page ? 200 : 404, headers = {}, body = '' } = page ?? {};
    response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  const upstream = await upstreamAt(server.host, { token: async () => 'TOKEN', ...overrides });
  const client = new ModuleRegistry({ http: clientFor({ limits: { attempts: 1 } }) });
  const base = new URL(`${server.origin}/reg/`);
  const module = (written: string) => new ModuleAddress(upstream.hostname, ...(written.split('/') as Parts));
  return {
    server,
    versions: (written = 'acme/net/aws') => client.versions(upstream, base, module(written), patience()),
    download: (published = '1.0.0', written = 'acme/net/aws') =>
      client.download(upstream, base, module(written), published, patience()),
    paths: () => server.requests.map(({ path }) => path),
  };
}
type Parts = [string, string, string];

const VERSIONS = '/reg/acme/net/aws/versions';
const DOWNLOAD = '/reg/acme/net/aws/1.0.0/download';

describe('versions', () => {
  const listed = async (...versions: unknown[]) =>
    (await registry({ [VERSIONS]: { body: { modules: [{ versions }] } } })).versions();
  const spelled = async (...published: string[]) =>
    (await listed(...published.map((version) => ({ version })))).versions.map((entry) => [
      String(entry.version),
      entry.published,
    ]);

  test('are those of the first module, asked for with the token and without a client version', async () => {
    const { server, versions } = await registry({
      [VERSIONS]: {
        body: {
          modules: [
            { source: 'acme/net/aws', versions: [{ version: '1.0.0', submodules: [] }, { version: '1.1.0-rc.1' }] },
            { source: 'acme/other/aws', versions: [{ version: '9.0.0' }] },
          ],
        },
      },
    });
    const { versions: list, skipped } = await versions();
    expect(list.map(({ version }) => String(version))).toEqual(['1.0.0', '1.1.0-rc.1']);
    expect(skipped).toEqual([]);
    expect(server.requests[0]?.headers).toMatchObject({ authorization: 'Bearer TOKEN', accept: 'application/json' });
    expect(server.requests[0]?.headers).not.toHaveProperty('x-terraform-version');
  });

  test('published with a v, short or padded: canonical, with the spelling to ask for', async () => {
    expect(await spelled('v1.0.0', '4.0', '01.3.0', '2')).toEqual([
      ['1.0.0', 'v1.0.0'],
      ['4.0.0', '4.0'],
      ['1.3.0', '01.3.0'],
      ['2.0.0', '2'],
    ]);
  });

  test('published twice are one, whose canonical spelling wins wherever it stands', async () => {
    expect(await spelled('v1.0.0', '1.0.0')).toEqual([['1.0.0', '1.0.0']]);
    expect(await spelled('1.0.0', 'v1.0.0', '1.0')).toEqual([['1.0.0', '1.0.0']]);
  });

  test('that are none are left out and named', async () => {
    const answer = await listed({ version: 'latest' }, { version: 7 }, null, 'x', { version: '1.0.0' });
    expect(answer.versions).toHaveLength(1);
    expect(answer.skipped).toEqual(['latest', ...Array(3).fill('an entry without a version')]);
  });

  test('none at all is an answer', async () => {
    expect(await listed()).toEqual({ versions: [], skipped: [] });
  });

  test.each([
    ['no modules', { modules: [] }],
    ['null for modules', { modules: null }],
    ['nothing', {}],
    ['a module without a list', { modules: [{}] }],
    ['null for a list', { modules: [{ versions: null }] }],
    ['an object for a list', { modules: [{ versions: {} }] }],
    ['null for a module', { modules: [null] }],
    ['the list of providers', { versions: [{ version: '1.0.0' }] }],
    ['a list of something else', { modules: [{ versions: [{ id: 'x' }, 'y'] }] }],
    ['a list', []],
    ['HTML', '<!doctype html>'],
    ['an empty body', ''],
  ])('%s is nonsense that names the host, never "none"', async (_, body) => {
    const { versions, server } = await registry({ [VERSIONS]: { body } });
    expect(await failureOf(versions())).toMatchObject({ code: 'UPSTREAM_INVALID', host: server.host });
  });

  test.each([
    [404, 'NOT_FOUND'],
    [401, 'UPSTREAM_REFUSED'],
    [403, 'UPSTREAM_REFUSED'],
    [204, 'UPSTREAM_INVALID'],
    [429, 'UPSTREAM_UNREACHABLE'],
    [503, 'UPSTREAM_UNREACHABLE'],
  ])('status %i is %s', async (status, code) => {
    const { versions, server } = await registry({ [VERSIONS]: { status } });
    const failure = await failureOf(versions());
    expect(failure).toMatchObject({ code, message: expect.stringContaining(server.host) });
  });

  test('an unknown module is named, not the URL', async () => {
    const message = expect.stringMatching(/^\S+ has no module acme\/net\/aws$/);
    expect(await failureOf((await registry({})).versions())).toMatchObject({ code: 'NOT_FOUND', message });
  });

  test('are asked for in the case in which the module was written', async () => {
    const { versions, paths } = await registry({});
    await failureOf(versions('AcMe/Net_Core/aws'));
    expect(paths()).toEqual(['/reg/AcMe/Net_Core/aws/versions']);
  });
});

describe('the location of a package', () => {
  const header = (location: string) => ({ 'X-Terraform-Get': location });
  const GIT = 'git::https://git.example.test/x?ref=v3.1.2';

  test('R25: is asked for with the token and one fixed client version', async () => {
    const { server, download } = await registry({ [DOWNLOAD]: { status: 204, headers: header(GIT) } });
    await download();
    await download();
    const sent = server.requests.map(({ headers }) => headers['x-terraform-version']);
    expect(sent[0]).toMatch(/^\d+\.\d+\.\d+$/);
    expect(sent[1]).toBe(sent[0]);
    expect(server.requests[0]?.headers.authorization).toBe('Bearer TOKEN');
  });

  test('is read as UTF-8 in a header, too', async () => {
    const location = 'git::https://git.example.test/x//modules/café?ref=größe';
    const bytes = Buffer.from(location).toString('latin1');
    const { download } = await registry({ [DOWNLOAD]: { status: 204, headers: header(bytes) } });
    expect(await download()).toMatchObject({ location });
  });

  const credentials = { location: '../pkg.tgz', use_registry_credentials: true };
  test.each<[string, Reply, string, { use?: boolean; direct?: boolean }]>([
    ['JSON alone', { body: { location: GIT } }, GIT, {}],
    ['204 and a header', { status: 204, headers: header('./x.tar.gz') }, './x.tar.gz', {}],
    ['200, an empty body and a header', { headers: header('./x.tar.gz') }, './x.tar.gz', {}],
    ['200, no JSON and a header', { body: 'OK', headers: header('./x.tar.gz') }, './x.tar.gz', {}],
    ['an empty location and a header', { body: { location: '' }, headers: header(GIT) }, GIT, {}],
    ['{} and a header', { body: {}, headers: header(GIT) }, GIT, {}],
    ['an odd location and a header', { body: { location: 7 }, headers: header(GIT) }, GIT, {}],
    ['both, different', { body: { location: GIT }, headers: header('./x.tar.gz') }, GIT, {}],
    ['credentials demanded', { body: credentials }, '../pkg.tgz', { use: true, direct: true }],
    [
      'credentials declined',
      { body: { ...credentials, use_registry_credentials: false } },
      '../pkg.tgz',
      { direct: true },
    ],
    ['credentials in an odd way', { body: { ...credentials, use_registry_credentials: 'yes' } }, '../pkg.tgz', {}],
    ['credentials beside an empty location', { body: { ...credentials, location: '' }, headers: header(GIT) }, GIT, {}],
  ])('R11: %s', async (_, reply, location, { use = false, direct = false }) => {
    const { download, server } = await registry({ [DOWNLOAD]: reply });
    const base = `${server.origin}${DOWNLOAD}`;
    expect(await download()).toEqual({ location, base, useRegistryCredentials: use, isDirect: direct });
  });

  test.each<[string, Reply]>([
    ['204 without a header', { status: 204 }],
    ['200 with nothing at all', {}],
    ['HTML', { headers: { 'content-type': 'text/html' }, body: '<html>' }],
    ['JSON without a location', { body: { url: GIT } }],
    ['an empty location', { body: { location: '' } }],
    ['a list', { body: [GIT] }],
  ])('%s is nonsense that names the host', async (_, reply) => {
    const { download, server, paths } = await registry({ [DOWNLOAD]: reply });
    expect(await failureOf(download())).toMatchObject({ code: 'UPSTREAM_INVALID', host: server.host });
    expect(paths()).toEqual([DOWNLOAD]);
  });

  test('is relative to the URL that was asked, not to where it redirected', async () => {
    const { download, server } = await registry({
      [DOWNLOAD]: { status: 302, headers: { location: '/elsewhere/answer' } },
      '/elsewhere/answer': { status: 204, headers: header('./x.tar.gz') },
    });
    expect(await download()).toMatchObject({ location: './x.tar.gz', base: `${server.origin}${DOWNLOAD}` });
  });

  test.each([
    ['v1.0.0', ['1.0.0', 'v1.0.0']],
    ['1.0.0', ['1.0.0']],
    ['v4.0', ['4.0', 'v4.0', '4.0.0']],
    ['01.3.0', ['01.3.0', '1.3.0']],
    ['1.0.0+b.7', ['1.0.0+b.7']],
  ])('is asked for as %s in every spelling, each after the one before was absent', async (published, spellings) => {
    const { download, paths } = await registry({});
    const message = expect.stringContaining(` has no version ${published} of acme/net/aws`);
    expect(await failureOf(download(published))).toMatchObject({ code: 'NOT_FOUND', message });
    expect(paths()).toEqual(spellings.map((spelling) => `/reg/acme/net/aws/${spelling}/download`));
  });

  test('is taken from the first spelling that is known, and is relative to that', async () => {
    const { download, paths, server } = await registry({
      '/reg/acme/net/aws/v1.0.0/download': { status: 204, headers: header('./x.tar.gz') },
    });
    expect(await download('v1.0.0')).toMatchObject({ base: `${server.origin}/reg/acme/net/aws/v1.0.0/download` });
    expect(paths()).toHaveLength(2);
  });

  test.each([
    [401, 'UPSTREAM_REFUSED'],
    [403, 'UPSTREAM_REFUSED'],
    [429, 'UPSTREAM_UNREACHABLE'],
    [500, 'UPSTREAM_UNREACHABLE'],
    [206, 'UPSTREAM_INVALID'],
  ])('R99: after %i no other spelling is asked for', async (status, code) => {
    const { download, paths, server } = await registry({ [DOWNLOAD]: { status, headers: header(GIT), body: 'slow' } });
    expect(await failureOf(download('v1.0.0'))).toMatchObject({
      code,
      message: expect.stringContaining(server.host),
    });
    expect(paths()).toEqual([DOWNLOAD]);
  });

  test('is asked for in the case in which the module was written', async () => {
    const { download, paths } = await registry({});
    await failureOf(download('1.0.0', 'AcMe/Net_Core/aws'));
    expect(paths()).toEqual(['/reg/AcMe/Net_Core/aws/1.0.0/download']);
  });
});
