import { createHash } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { ProviderRegistry } from '../../src/upstream/provider-registry.ts';
import type { Upstream } from '../../src/upstream/upstream.ts';
import { once } from '../support/certificates.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { SigningKey } from '../support/signing-key.ts';
import { clientFor, failureOf, patience, type ScriptedServer, serve, upstreamAt } from './scripted-server.ts';

const linux = Platform.parse('linux_amd64');
const ARCHIVE = 'the archive';
const SHA = createHash('sha256').update(ARCHIVE).digest('hex');
const OTHER = 'b'.repeat(64);
const NAME = 'terraform-provider-widget_1.2.3_linux_amd64.zip';
const signingKey = once(() => SigningKey.generate());

interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
}

/** A registry under `/reg/` whose answers are given by path; functions may look at the server's own address. */
async function registry(pages: Record<string, unknown>, overrides: Partial<Upstream> = {}) {
  let server!: ScriptedServer;
  server = await serve((request, response) => {
    const page = pages[(request.url ?? '').split('?')[0] ?? ''] as Reply | ((at: ScriptedServer) => Reply) | undefined;
    const {
      status = page ? 200 : 404,
      headers = {},
      body = '',
    } = (typeof page === 'function' ? page(server) : page) ?? {};
    response.writeHead(status, headers);
    response.end(typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body));
  });
  const upstream = await upstreamAt(server.host, { token: async () => 'TOKEN', ...overrides });
  const logger = recordingLogger();
  const client = new ProviderRegistry({ http: clientFor(), logger });
  const provider = new ProviderAddress(upstream.hostname, 'acme', 'widget');
  const base = new URL(`${server.origin}/reg/`);
  return {
    server,
    logger,
    client,
    upstream,
    versions: () => client.versions(upstream, base, provider, patience()),
    find: (version = '1.2.3', platform = linux) =>
      client.findPackage(upstream, base, provider, version, platform, patience()),
  };
}

const VERSIONS = '/reg/acme/widget/versions';
const DOWNLOAD = '/reg/acme/widget/1.2.3/download/linux/amd64';
const packageDocument = (changes: object = {}) => ({
  os: 'linux',
  arch: 'amd64',
  filename: NAME,
  download_url: `/files/${NAME}`,
  shasum: SHA,
  shasums_url: '/files/SHA256SUMS',
  shasums_signature_url: '/files/SHA256SUMS.sig',
  signing_keys: { gpg_public_keys: [] },
  protocols: ['5.0'],
  ...changes,
});

describe('versions', () => {
  const listed = async (versions: unknown, more = {}) =>
    (await registry({ [VERSIONS]: { body: { versions, ...more } } })).versions();
  const spelled = async (versions: unknown) =>
    (await listed(versions)).versions.map(({ version, published }) => [String(version), published]);

  test('are read with their platforms and protocols, asked for with the token', async () => {
    const { server, versions } = await registry({
      [VERSIONS]: {
        body: {
          versions: [
            { version: '1.0.0', protocols: ['4.0', '5.0'], platforms: [{ os: 'linux', arch: 'amd64' }] },
            { version: '1.1.0-beta.1' },
          ],
          warnings: ['moved'],
        },
      },
    });
    const answer = await versions();
    expect(answer.versions.map(({ version }) => String(version))).toEqual(['1.0.0', '1.1.0-beta.1']);
    expect(answer.versions[0]).toMatchObject({ protocols: ['4.0', '5.0'], platforms: [linux] });
    expect(answer).toMatchObject({ warnings: ['moved'], skipped: [] });
    expect(server.requests[0]?.headers.authorization).toBe('Bearer TOKEN');
  });

  test('that are none are left out and named; odd platforms and protocols are left out', async () => {
    const answer = await listed(
      [
        { version: 'aborted-1' },
        { version: 7 },
        null,
        {
          version: '1.0.0',
          platforms: [{ os: 'LINUX' }, null, 'x', { os: 'linux', arch: 'arm64' }],
          protocols: ['1; mode=block', '5.0', 6],
        },
      ],
      { warnings: null },
    );
    expect(answer.skipped).toEqual(['aborted-1', 'an entry without a version', 'an entry without a version']);
    expect(answer.versions).toHaveLength(1);
    expect(answer.versions[0]?.platforms.map(String)).toEqual(['linux_arm64']);
    expect(answer.versions[0]?.protocols).toEqual(['5.0']);
  });

  test('published with a v, padded, or twice: one canonical version, and the spelling to ask for', async () => {
    expect(await spelled([{ version: 'v1.0.0' }, { version: '1.2' }])).toEqual([
      ['1.0.0', 'v1.0.0'],
      ['1.2.0', '1.2'],
    ]);
    for (const order of [
      ['v1.0.0', '1.0.0'],
      ['1.0.0', 'v1.0.0'],
    ]) {
      expect(await spelled(order.map((version) => ({ version })))).toEqual([['1.0.0', '1.0.0']]);
    }
  });

  test('none at all is an answer', async () => {
    expect((await listed([])).versions).toEqual([]);
  });

  test.each([
    ['null', { versions: null }],
    ['missing', {}],
    ['an object', { versions: {} }],
    ['HTML', '<!doctype html>'],
    ['a list', []],
  ])('%s is nonsense, never "none"', async (_, body) => {
    const { versions } = await registry({ [VERSIONS]: { body } });
    expect(await failureOf(versions())).toMatchObject({ code: 'UPSTREAM_INVALID' });
  });

  test('an unknown provider is absent', async () => {
    const { versions, upstream } = await registry({});
    const message = `${upstream.hostname} has no provider acme/widget`;
    expect(await failureOf(versions())).toMatchObject({ code: 'NOT_FOUND', message });
  });

  test('names outside ASCII are encoded', async () => {
    const { client, upstream, server } = await registry({});
    const provider = new ProviderAddress(upstream.hostname, 'bücher', 'widget');
    await failureOf(client.versions(upstream, new URL(`${server.origin}/reg/`), provider, patience()));
    expect(server.requests[0]?.path).toBe('/reg/b%C3%BCcher/widget/versions');
  });
});

describe('finding a package', () => {
  const found = async (changes: object = {}) =>
    (await registry({ [DOWNLOAD]: { body: packageDocument(changes) } })).find();

  test('R15: relative addresses are relative to the final address of the document', async () => {
    const { find, server } = await registry({
      [DOWNLOAD]: { status: 302, headers: { location: '/cdn/acme/widget.json' } },
      '/cdn/acme/widget.json': {
        body: packageDocument({
          download_url: 'zips/w.zip',
          shasums_url: '../SHA256SUMS',
          shasums_signature_url: '/sig',
        }),
      },
    });
    const document = await find();
    expect(document.downloadUrl.href).toBe(`${server.origin}/cdn/acme/zips/w.zip`);
    expect(document.shasumsUrl?.href).toBe(`${server.origin}/cdn/SHA256SUMS`);
    expect(document.signatureUrl?.href).toBe(`${server.origin}/sig`);
  });

  test('R53: the version is asked for as it was published; build metadata keeps its plus', async () => {
    const { find, server } = await registry({});
    await failureOf(find('v1.1.0'));
    await failureOf(find('1.1.0+build.7'));
    expect(server.requests.map(({ path }) => path)).toEqual([
      '/reg/acme/widget/v1.1.0/download/linux/amd64',
      '/reg/acme/widget/1.1.0+build.7/download/linux/amd64',
    ]);
  });

  test('R28: the token of the host goes to its API, wherever that is', async () => {
    const api = await serve((_, response) => response.end(JSON.stringify(packageDocument())));
    const { client, upstream } = await registry({});
    const provider = new ProviderAddress(upstream.hostname, 'acme', 'widget');
    await client.findPackage(upstream, new URL(`${api.origin}/p/`), provider, '1.2.3', linux, patience());
    expect(api.requests[0]?.headers.authorization).toBe('Bearer TOKEN');
  });

  test.each([
    ['a whole URL', `https://dl.example/a/${NAME}?sig=1`, NAME],
    ['a traversal', '../../etc/x.zip', 'x.zip'],
    ['a Windows path', 'C:\\tmp\\x.zip', 'x.zip'],
    ['a path', 'a/b.zip', 'b.zip'],
    ['missing', undefined, NAME],
    ['not a string', 7, NAME],
    ['dots', '..', NAME],
    ['control characters', 'a\r\nb.zip', NAME],
  ])('R32: a file name that is %s becomes one segment', async (_, filename, expected) => {
    expect((await found({ filename })).filename).toBe(expected);
  });

  test('R32: without any name, the canonical one', async () => {
    expect((await found({ filename: undefined, download_url: 'https://dl.example/' })).filename).toBe(NAME);
  });

  test.each([
    ['no checksum', { shasum: undefined }],
    ['an odd checksum', { shasum: 'abc' }],
    ['another system', { os: 'windows' }],
    ['another processor', { arch: 'arm64' }],
    ['no system', { os: undefined }],
    ['no address', { download_url: undefined }],
    ['another protocol', { download_url: 'file:///etc/passwd' }],
  ])('%s is nonsense', async (_, changes) => {
    expect(await failureOf(found(changes))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringContaining('1.2.3'),
    });
  });

  test.each([
    [undefined],
    [null],
    [{}],
    [{ gpg_public_keys: null }],
    [{ gpg_public_keys: [] }],
    [{ gpg_public_keys: [null, {}, { ascii_armor: null }, { ascii_armor: ' ' }] }],
    ['x'],
  ])('R37: signing keys given as %j are none', async (signing_keys) => {
    const { signingKeys, statement } = await found({ signing_keys });
    expect(signingKeys).toEqual([]);
    expect(statement.signing_keys.gpg_public_keys).toEqual([]);
  });

  test.each(['signing_keys', 'packages'])(
    '%s that nest absurdly deep are nonsense, not trouble of our own',
    async (name) => {
      const deep = JSON.parse(`${'{"x":'.repeat(100)}1${'}'.repeat(100)}`) as unknown;
      expect(await failureOf(found({ [name]: deep }))).toMatchObject({
        code: 'UPSTREAM_INVALID',
        message: expect.stringContaining('absurdly deep'),
      });
    },
  );

  test('R76: garbage among the protocols is ignored', async () => {
    expect((await found({ protocols: ['1; mode=block', '5.0', null] })).statement.protocols).toEqual(['5.0']);
    expect((await found({ protocols: 'x' })).statement.protocols).toEqual([]);
  });

  test('upper-case checksums are read', async () => {
    expect((await found({ shasum: SHA.toUpperCase() })).sha256).toBe(SHA);
  });

  test('R93: hashes of all platforms are taken over when they agree with the checksum', async () => {
    const h1 = `h1:${'A'.repeat(43)}=`;
    const { packages } = await found({
      packages: {
        linux_amd64: { hashes: [`zh:${SHA}`, h1, 'h9:unknown'], package_size: 11 },
        darwin_arm64: { hashes: [`zh:${OTHER}`], package_size: 12 },
      },
    });
    expect(Object.fromEntries(packages)).toEqual({
      linux_amd64: { hashes: [`zh:${SHA}`, h1], size: 11 },
      darwin_arm64: { hashes: [`zh:${OTHER}`], size: 12 },
    });
  });

  test.each([
    ['another checksum', { linux_amd64: { hashes: [`zh:${OTHER}`], package_size: 11 } }],
    ['no checksum', { linux_amd64: { hashes: [], package_size: 11 } }],
    ['no size', { linux_amd64: { hashes: [`zh:${SHA}`] } }],
    ['size zero', { linux_amd64: { hashes: [`zh:${SHA}`], package_size: 0 } }],
    ['not this platform', { linux_arm64: { hashes: [`zh:${SHA}`], package_size: 11 } }],
    ['no platform', { 'linux amd64': { hashes: [`zh:${SHA}`], package_size: 11 } }],
    ['a broken hash', { linux_amd64: { hashes: [`zh:${SHA}`, 'h1:short'], package_size: 11 } }],
    ['a list', [1]],
  ])('R93: hashes with %s are left out and logged', async (_, packages) => {
    const { find, logger } = await registry({ [DOWNLOAD]: { body: packageDocument({ packages }) } });
    expect((await find()).packages.size).toBe(0);
    expect(logger.lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
  });

  test('R93: absent or empty hashes are nothing to log', async () => {
    for (const packages of [undefined, null, {}]) {
      const { find, logger } = await registry({ [DOWNLOAD]: { body: packageDocument({ packages }) } });
      expect((await find()).packages.size).toBe(0);
      expect(logger.lines).toEqual([]);
    }
  });
});

describe('checksums', () => {
  const sums = (digest = SHA, name = NAME) =>
    `${digest}  ${name}\n${OTHER}  terraform-provider-widget_1.2.3_manifest.json\n`;

  async function released(
    options: {
      policy?: Upstream['signatures'];
      keys?: string[];
      shasums?: Reply | null;
      signature?: Reply | null;
      document?: object;
    } = {},
  ) {
    const { keys = [], shasums = { body: sums() }, signature = null } = options;
    const setup = await registry(
      {
        [DOWNLOAD]: {
          body: packageDocument({
            signing_keys: { gpg_public_keys: keys.map((ascii_armor) => ({ ascii_armor })) },
            ...options.document,
          }),
        },
        ...(shasums ? { '/files/SHA256SUMS': shasums } : {}),
        ...(signature ? { '/files/SHA256SUMS.sig': signature } : {}),
      },
      { signatures: options.policy ?? 'verify' },
    );
    const document = await setup.find();
    return { ...setup, document, check: () => setup.client.checksums(setup.upstream, document, patience()) };
  }

  test('are verified with the keys, in bytes as published, without credentials', async () => {
    const key = await signingKey();
    const signature = await key.sign(Buffer.from(sums()));
    const { check, server } = await released({ keys: [key.armored], signature: { body: Buffer.from(signature) } });
    const checked = await check();
    expect(checked.digests.get(NAME)).toBe(SHA);
    expect(checked.shasums.toString()).toBe(sums());
    expect(checked.signature?.equals(Buffer.from(signature))).toBe(true);
    expect(checked.verdict).toEqual({ state: 'signed', keyId: key.keyId, notes: [] });
    const files = server.requests.filter(({ path }) => path.startsWith('/files/'));
    expect(files).toHaveLength(2);
    for (const { headers } of files) expect(headers).not.toHaveProperty('authorization');
  });

  test('altered after signing are refused, whatever the policy but ignore', async () => {
    const key = await signingKey();
    const signature = { body: Buffer.from(await key.sign(Buffer.from(sums(OTHER)))) };
    for (const policy of ['verify', 'require'] as const) {
      const { check } = await released({ policy, keys: [key.armored], signature });
      expect(await failureOf(check())).toMatchObject({
        code: 'INTEGRITY_MISMATCH',
        message: expect.stringContaining(key.keyId),
      });
    }
    const { check } = await released({ policy: 'ignore', keys: [key.armored], signature });
    expect((await check()).verdict.state).toBe('unchecked');
  });

  test('R37: without keys: unsigned by default, refused where signatures are required, unchecked where ignored', async () => {
    expect((await (await released()).check()).verdict.state).toBe('unsigned');
    expect(await failureOf((await released({ policy: 'require' })).check())).toMatchObject({
      code: 'INTEGRITY_MISMATCH',
      message: expect.stringMatching(/is not signed.*signatures are required/),
    });
    expect((await (await released({ policy: 'ignore' })).check()).verdict.state).toBe('unchecked');
  });

  test('a signature that is not needed is kept for passing on, and not missed', async () => {
    const kept = await (await released({ signature: { body: 'bytes' } })).check();
    expect(kept.signature?.toString()).toBe('bytes');
    const failing = await (await released({ signature: { status: 403 } })).check();
    expect(failing.signature).toBeUndefined();
  });

  test.each([
    ['SHA256SUMS is gone', { shasums: null }],
    ['SHA256SUMS is not named', { document: { shasums_url: undefined } }],
  ])('R36: where %s, the checksum of the document is all there is', async (_, options) => {
    const { digests, shasums, verdict } = await (await released(options)).check();
    expect([...digests]).toEqual([[NAME, SHA]]);
    expect([shasums.length, verdict.state]).toEqual([0, 'unsigned']);
    const ignored = await (await released({ ...options, policy: 'ignore', keys: ['x'] })).check();
    expect([...ignored.digests]).toEqual([[NAME, SHA]]);
    expect(ignored.verdict.state).toBe('unchecked');
  });

  test.each([
    ['SHA256SUMS is gone', { shasums: null }],
    ['SHA256SUMS is not named', { document: { shasums_url: undefined } }],
    ['the signature is gone', { signature: null }],
    ['the signature is not named', { document: { shasums_signature_url: '' } }],
  ])('R36: where %s although keys are given, the host is to blame', async (_, options) => {
    const key = await signingKey();
    const signature = { body: Buffer.from(await key.sign(Buffer.from(sums()))) };
    const { check, server } = await released({ keys: [key.armored], signature, ...options });
    expect(await failureOf(check())).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringContaining(server.host),
    });
  });

  test('a host in trouble is unreachable, not unsigned', async () => {
    const { check } = await released({ shasums: { status: 503 } });
    expect(await failureOf(check())).toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
  });

  test("a portal's page is nonsense rather than a forgery", async () => {
    const key = await signingKey();
    const { check } = await released({
      keys: [key.armored],
      shasums: { body: '<html>' },
      signature: { body: '<html>' },
    });
    expect(await failureOf(check())).toMatchObject({ code: 'UPSTREAM_INVALID' });
  });

  test('that contradict the document are refused, with both digests', async () => {
    const failure = await failureOf((await released({ shasums: { body: sums(OTHER) } })).check());
    expect(failure).toMatchObject({ code: 'INTEGRITY_MISMATCH', message: expect.stringContaining(SHA) });
    expect(failure.message).toContain(OTHER);
  });

  test('R32: list the archive by its name, or by its digest under another one', async () => {
    expect((await (await released({ shasums: { body: sums(SHA, 'v1.2.3.zip') } })).check()).digests.size).toBe(2);
    expect(await failureOf((await released({ shasums: { body: sums(OTHER, 'other.zip') } })).check())).toMatchObject({
      code: 'INTEGRITY_MISMATCH',
      message: expect.stringContaining(NAME),
    });
  });
});

test('R28, R34: the archive is fetched without credentials, and a refused link is told as refused', async () => {
  const { find, client, upstream, server } = await registry({
    [DOWNLOAD]: { body: packageDocument({ download_url: '/files/w.zip?sig=1' }) },
    '/files/w.zip': { headers: { 'content-length': String(ARCHIVE.length) }, body: ARCHIVE },
    '/files/expired.zip': { status: 403 },
  });
  const document = await find();
  const { body, size } = await client.openArchive(upstream, document, 0, patience());
  expect(await text(body)).toBe(ARCHIVE);
  expect(size).toBe(ARCHIVE.length);
  expect(await client.archiveLength(upstream, document, patience())).toBe(ARCHIVE.length);
  const expired = { ...document, downloadUrl: new URL(`${server.origin}/files/expired.zip?sig=1`) };
  expect(await failureOf(client.openArchive(upstream, expired, 0, patience()))).toMatchObject({
    code: 'UPSTREAM_REFUSED',
  });
  for (const { path, headers } of server.requests) {
    if (path.startsWith('/files/')) expect(headers).not.toHaveProperty('authorization');
  }
});
