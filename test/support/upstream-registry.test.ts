import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { configuration, directCliConfig, runClient, workspace } from './client.ts';
import { HttpClient } from './http.ts';
import { moduleTarGz, moduleZip } from './module-archive.ts';
import { largeProviderZip, smallProviderZip } from './provider-zip.ts';
import { describeWith } from './requirements.ts';
import { SigningKey } from './signing-key.ts';
import { UpstreamRegistry } from './upstream-registry.ts';

const WIDGET = { namespace: 'acme', type: 'widget', version: '1.2.3' } as const;
const DOCUMENT = '/v1/providers/acme/widget/1.2.3/download/linux/amd64';
let registry: UpstreamRegistry;
let client: HttpClient;
beforeEach(async () => {
  registry = await UpstreamRegistry.start();
  client = new HttpClient({ ca: registry.ca });
});
afterEach(async () => {
  await client.close();
  await registry.stop();
});

describeWith(['terraform'], 'the real client, straight to the scripted registry', () => {
  async function init(providers: Parameters<typeof workspace>[0]['providers'], cliConfig = directCliConfig(registry)) {
    const { directory, lockFile } = await workspace({ providers });
    const result = await runClient({
      args: ['init', '-no-color'],
      directory,
      cliConfig,
      ca: registry.ca,
    });
    return { ...result, lockFile: await lockFile() };
  }

  test('installs a provider and locks the digests of all platforms: zips, checksums and signature are real', async () => {
    const { packages } = await registry.addProvider({
      ...WIDGET,
      platforms: ['linux_amd64', 'linux_arm64', 'darwin_arm64'],
    });

    const { code, output, lockFile } = await init({ widget: { source: `${registry.hostname}/acme/widget` } });

    expect(code, output).toBe(0);
    const locked = lockFile?.match(/"(h1|zh):[^"]+"/g)?.map((quoted) => quoted.slice(1, -1));
    expect(locked?.toSorted()).toEqual(
      [packages.get('linux_amd64')?.h1, ...[...packages.values()].map(({ zh }) => zh)].toSorted(),
    );
    expect(registry.releases.requests.withCredentials()).toEqual([]);
  });

  test.each([
    ['rsa4096', { type: 'rsa4096' }],
    ['ed25519', { type: 'ed25519' }],
    ['signing subkey', { subkey: true }],
    ['expired key', { expired: true }],
  ] as const)('accepts signatures of: %s', async (_name, options) => {
    const sign = await SigningKey.generate(options);
    await registry.addProvider({ ...WIDGET, sign });

    const { code, output } = await init({ widget: { source: `${registry.hostname}/acme/widget` } });

    expect(code, output).toBe(0);
  });

  test('refuses a signature of a key that the registry does not name: it does check them', async () => {
    const [sign, other] = await Promise.all([SigningKey.shared(), SigningKey.generate({ type: 'ed25519' })]);
    await registry.addProvider({ ...WIDGET, sign, publishedKeys: [other] });

    const { code, output } = await init({ widget: { source: `${registry.hostname}/acme/widget` } });

    expect(code).toBe(1);
    expect(output).toContain('signature');
  });

  test('knows the registry by another name, follows relative URLs and unpacks a large package', async () => {
    const { packages } = await registry.addProvider({
      ...WIDGET,
      sizeBytes: 3_000_000,
      relativeUrls: true,
    });

    const { code, output, lockFile } = await init(
      { widget: { source: 'registry.example.test/acme/widget' } },
      directCliConfig(registry, { as: 'registry.example.test' }),
    );

    expect(code, output).toBe(0);
    expect(lockFile).toContain('registry.example.test/acme/widget');
    expect(lockFile).toContain(`"${packages.get('linux_amd64')?.h1}"`);
    expect(registry.requests.count('GET', /^\/files\/.*\.zip$/)).toBe(1);
  });
});

describeWith(['terraform'], 'the real client and modules of the scripted registry', () => {
  const files = { 'main.tf': `output "it" { value = file("\${path.module}/it.txt") }\n`, 'it.txt': 'here it is' };
  const NET = { namespace: 'acme', name: 'net', system: 'aws' } as const;

  async function apply(version: string) {
    const { directory } = await configuration({
      'main.tf': `module "net" {\n  source = "registry.example.test/acme/net/aws"\n  version = "${version}"\n}\noutput "it" { value = module.net.it }\n`,
    });
    const run = (...args: string[]) =>
      runClient({
        args: [...args, '-no-color'],
        directory,
        cliConfig: directCliConfig(registry, { as: 'registry.example.test' }),
        ca: registry.ca,
      });
    const init = await run('init');
    expect(init.code, init.output).toBe(0);
    return (await run('apply', '-auto-approve')).output;
  }

  test('are installed from a zip and a tar, under the spelling that the client makes of a version', async () => {
    const tar = registry.addModuleArchive('/net.tar.gz', moduleTarGz(files, { globalHeader: true }));
    const zip = registry.addModuleArchive('/net.zip', await moduleZip(files));
    registry.addModule({ ...NET, version: 'v1.0.0', location: `${tar.url}?checksum=sha256:${tar.sha256}` });
    registry.addModule({ ...NET, version: '4.0', location: zip.url, dialect: 'both' });

    expect(await apply('~> 1.0')).toContain('here it is');
    expect(await apply('~> 4.0')).toContain('here it is');
    expect(registry.requests.count('GET', /\/acme\/net\/aws\/(1\.0\.0|4\.0\.0)\/download$/)).toBe(2);
    expect(registry.releases.requests.count('GET', /\/net\.(tar\.gz|zip)$/)).toBe(2);
  });
});

describe('modules of the scripted registry', () => {
  const NET = { namespace: 'Acme', name: 'net', system: 'aws' } as const;
  const get = (path: string, headers: Record<string, string> = {}) => client.get(registry.url + path, { headers });

  test('are listed as published, garbage included, and found in any case of letters until they are removed', async () => {
    registry.addModule({ ...NET, version: 'v1.0.0', location: './x.zip' });
    registry.addModule({ ...NET, version: '1.1.0', location: './x.zip', strictSpelling: true });
    registry.addModuleGarbage(NET, 'latest', '');
    expect((await get('/.well-known/terraform.json')).json()['modules.v1']).toBe('/v1/modules/');
    expect((await get('/v1/modules/acme/net/aws/versions')).json()).toEqual({
      modules: [{ versions: ['v1.0.0', '1.1.0', 'latest', ''].map((version) => ({ version })) }],
    });
    expect((await get('/v1/modules/acme/net/aws/1.0.0/download')).headers['x-terraform-get']).toBe('./x.zip');
    expect((await get('/v1/modules/acme/net/aws/v1.1.0/download')).status).toBe(404);
    registry.removeModule({ ...NET, version: '1.1.0' });
    registry.addModuleGarbage(NET);
    expect((await get('/v1/modules/acme/net/aws/versions')).json().modules[0].versions).toHaveLength(1);
    registry.removeModule(NET);
    expect((await get('/v1/modules/acme/net/aws/versions')).status).toBe(404);
  });

  test.each([
    ['header', 204, '', true],
    ['both', 200, '{"location":"./x.zip"}', true],
    ['json', 200, '{"location":"./x.zip"}', false],
    ['empty-200-header', 200, '', true],
    ['object-200-header', 200, '{}', true],
    ['html-200-header', 200, '<!doctype html><title>Here</title>', true],
  ] as const)('say where they are in the dialect %s', async (dialect, status, body, header) => {
    registry.addModule({ ...NET, version: '1.0.0', location: () => './x.zip', dialect });
    const answer = await get('/v1/modules/acme/net/aws/1.0.0/download');
    expect([answer.status, answer.text()]).toEqual([status, body]);
    expect(answer.headers['x-terraform-get']).toBe(header ? './x.zip' : undefined);
  });

  test('have archives behind links that run out, also without HEAD, and behind the token at the registry itself', async () => {
    const archive = registry.addModuleArchive('/net.zip', await moduleZip({ 'main.tf': '' }), { headForbidden: true });
    const status = async (url: string, options = {}) => (await client.get(url, options)).status;
    expect(await status(archive.url)).toBe(200);
    expect(await status(archive.url, { method: 'HEAD' })).toBe(403);
    registry.signLinks();
    const link = archive.link();
    expect([await status(archive.url), await status(link)]).toEqual([403, 200]);
    registry.expireLinks();
    expect([await status(link), await status(archive.link())]).toEqual([403, 200]);
    registry.requireToken('s3cret');
    expect((await get('/archives/net.zip')).status).toBe(401);
    expect((await get('/archives/net.zip', { authorization: 'Bearer s3cret' })).body.equals(archive.bytes)).toBe(true);
  });
});

describe('the scripted registry', () => {
  const get = (path: string, headers: Record<string, string> = {}) => client.get(registry.url + path, { headers });

  test('lists versions as they were published, and forgets them when told', async () => {
    await registry.addProvider({ ...WIDGET, published: 'v1.2.3', protocols: ['6.0'] });
    await registry.addProvider({ ...WIDGET, version: '1.3.0' });
    expect((await get('/v1/providers/acme/widget/versions')).json()).toEqual({
      versions: [
        { version: 'v1.2.3', protocols: ['6.0'], platforms: [{ os: 'linux', arch: 'amd64' }] },
        { version: '1.3.0', protocols: ['5.0'], platforms: [{ os: 'linux', arch: 'amd64' }] },
      ],
      warnings: null,
    });
    expect((await get(DOCUMENT)).status).toBe(404);
    expect((await get(DOCUMENT.replace('1.2.3', 'v1.2.3'))).status).toBe(200);

    registry.removeVersion({ ...WIDGET });
    expect((await get('/v1/providers/acme/widget/versions')).json().versions).toHaveLength(1);
    registry.removeProvider(WIDGET);
    expect((await get('/v1/providers/acme/widget/versions')).status).toBe(404);
  });

  test('asks for a token where one is required, and not for files', async () => {
    await registry.addProvider(WIDGET);
    registry.requireToken('s3cret');
    expect((await get('/.well-known/terraform.json')).status).toBe(401);
    expect((await get(DOCUMENT, { authorization: 'Bearer wrong' })).status).toBe(401);
    const document = (await get(DOCUMENT, { authorization: 'Bearer s3cret' })).json();
    expect((await client.get(document.download_url)).status).toBe(200);
  });

  test('signs links that run out by its clock, or all at once', async () => {
    let now = 1_000_000;
    await registry.addProvider(WIDGET);
    registry.signLinks({ lifetimeMs: 60_000, now: () => now });
    const link = async (): Promise<string> => (await get(DOCUMENT)).json().download_url;
    const status = async (url: string) => (await client.get(url)).status;

    const first = await link();
    expect(first).toMatch(/\?X-Amz-Date=\d+&X-Amz-Expires=60&X-Amz-Signature=[0-9a-f]{64}$/);
    expect(await status(first)).toBe(200);
    expect(await status(first.replace(/\?.*/, ''))).toBe(403);
    now += 60_001;
    expect(await status(first)).toBe(403);
    const second = await link();
    expect(await status(second)).toBe(200);
    registry.expireLinks();
    expect(await status(second)).toBe(403);
    expect(await status(await link())).toBe(200);
  });

  test('gives hashes and sizes of all platforms, known without bytes where bytes are not wanted', async () => {
    const platforms = ['linux_amd64', 'windows_amd64'];
    const real = await registry.addProvider({ ...WIDGET, platforms, withPackages: true });
    expect((await get(DOCUMENT)).json().packages).toEqual(
      Object.fromEntries(
        [...real.packages.values()].map(({ platform, zh, h1, size }) => [
          platform,
          { hashes: [zh, h1], package_size: size },
        ]),
      ),
    );
    await registry.addProvider({ ...WIDGET, digestsOnly: true, sizeBytes: 200_000_000 });
    const document = (await get(DOCUMENT)).json();
    const sums = await client.get(document.shasums_url);
    expect(sums.text()).toBe(`${document.shasum}  ${document.filename}\n`);
    expect((await client.get(document.download_url)).status).toBe(404);
  });

  test('goes away and comes back, with everything it had', async () => {
    await registry.addProvider(WIDGET);
    await registry.stop();
    await expect(get(DOCUMENT)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await registry.restart();
    expect((await get(DOCUMENT)).status).toBe(200);
  });
});

describe('names', () => {
  test('of registry and files are ports 443 of their own, and can be lost and found again', async () => {
    const names = { name: 'registry.names.example.test', filesName: 'files.names.example.test' };
    const named = await UpstreamRegistry.start(names);
    const http = new HttpClient({ ca: named.ca });
    try {
      await named.addProvider(WIDGET);
      const ask = async () => (await http.get(`https://${names.name}${DOCUMENT}`)).json();
      const file = (await ask()).download_url;
      expect(file).toContain(`https://${names.filesName}/`);
      expect((await http.get(file)).status).toBe(200);
      named.loseName('registry');
      named.loseName('files');
      // Of connections that were open, somebody has to notice the end.
      await expect(Promise.all([ask(), http.get(file)])).rejects.toThrow();
      await expect(ask()).rejects.toMatchObject({ code: 'ENOTFOUND' });
      await expect(http.get(file)).rejects.toMatchObject({ code: 'ENOTFOUND' });
      await named.restart();
      expect((await http.get((await ask()).download_url)).status).toBe(200);
    } finally {
      await http.close();
      await named.stop();
    }
  });
});

describe('packages', () => {
  const about = { type: 'widget', version: '1.2.3', platform: 'linux_amd64' };

  test('are the same for the same address and differ between platforms', async () => {
    const [one, again, other] = await Promise.all([
      smallProviderZip(about),
      smallProviderZip(about),
      smallProviderZip({ ...about, platform: 'linux_arm64' }),
    ]);
    expect(again.sha256).toBe(one.sha256);
    expect(other.sha256).not.toBe(one.sha256);
    expect((await smallProviderZip({ ...about, directoryEntries: true })).h1).not.toBe(one.h1);
  });

  test('have exactly the size wanted, and give the same bytes from any position', async () => {
    const { bytes, sha256 } = await largeProviderZip({ ...about, sizeBytes: 1_000_003 });
    const whole = await buffer(Readable.from(bytes.read(0, bytes.size)));
    expect(whole).toHaveLength(1_000_003);
    expect(createHash('sha256').update(whole).digest('hex')).toBe(sha256);
    for (const [start, end] of [
      [0, 40],
      [77, 300_001],
      [262_144, 262_145],
      [999_950, 1_000_003],
    ] as const) {
      const part = await buffer(Readable.from(bytes.read(start, end)));
      expect(part.equals(whole.subarray(start, end)), `${start}-${end}`).toBe(true);
    }
  });
});
