import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { moduleVersionsIn, startModuleScene } from '../mirror/module-scene.ts';
import {
  archiveName,
  bytesOf,
  eventually,
  hashesIn,
  packageOf,
  type Scene,
  startScene,
  WIDGET,
} from '../mirror/scene.ts';
import { moduleTarGz, readTarGz } from '../support/module-archive.ts';
import { publish } from '../support/published-provider.ts';

const TOKEN = 'token-of-the-operators';
const OF_ACME = 'token-for-acme-alone';
const READER = 'token-of-a-reader';
const config = {
  access: {
    tokens: [
      { name: 'ops', token: TOKEN, roles: ['read', 'admin'] },
      { name: 'acme', token: OF_ACME, roles: ['read', 'admin'], addresses: ['*/acme/*'] },
      { name: 'reader', token: READER, roles: ['read'] },
    ],
  },
  log: { audit: 'data/audit.jsonl' },
};
const bearer = (token = TOKEN) => ({ authorization: `Bearer ${token}` });
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
const LINUX = archiveName('1.0.0', 'linux_amd64');

async function begin(options: Parameters<typeof startScene>[0] = {}) {
  const scene = await startScene({ config, providers: [], ...options });
  const archivePath = (name = LINUX, provider = 'acme/widget') =>
    `/admin/archives/${scene.registry.hostname}/${provider}/${name}`;
  const put = (path: string, body: Buffer, headers: Record<string, string> = bearer()) =>
    scene.get(path, { method: 'PUT', body, headers });
  const published = await publish(WIDGET);
  return { ...scene, archivePath, put, bytes: bytesOf(packageOf(published)), published };
}

/** What lies in the directory where files are made. */
async function partials({ larder }: Pick<Scene, 'larder'>): Promise<string[]> {
  return readdir(join(larder.setup.dataDirectory, 'partial'));
}

describe('PUT /admin/archives', () => {
  it('stores what has the digest that came with it, once, and serves it without any upstream', async () => {
    const { archivePath, put, bytes, archive, version, registry, published, ...scene } = await begin();
    await registry.stop();
    const path = `${archivePath()}?sha256=${sha256(bytes)}`;
    const first = await put(path, bytes);
    expect(first.status, first.text()).toBe(201);
    expect(first.json()).toMatchObject({ outcome: 'imported', platform: 'linux_amd64', sha256: sha256(bytes) });
    expect((await put(path, bytes)).status).toBe(200);
    expect((await archive()).body.equals(bytes)).toBe(true);
    const { zh, h1 } = packageOf(published);
    await eventually(async () => hashesIn(await version('1.0.0'))).toEqual(expect.arrayContaining([zh, h1]));
    const taken = await scene.get(archivePath(), { headers: bearer() });
    expect(taken.body.equals(bytes)).toBe(true);
    const audit = await readFile(join(scene.larder.setup.dataDirectory, 'audit.jsonl'), 'utf8');
    const uploads = audit
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ event }) => event === 'uploaded');
    expect(uploads).toMatchObject([
      { client: 'ops', outcome: 'imported', platform: 'linux_amd64' },
      { client: 'ops', outcome: 'present' },
    ]);
  });

  it('taking it away again is no use of it: only what clients fetch is kept from being evicted', async () => {
    const { archivePath, put, bytes, archive, ...scene } = await begin();
    expect((await put(`${archivePath()}?sha256=${sha256(bytes)}`, bytes)).status).toBe(201);
    const lastUse = async () => {
      const { archives } = (await scene.get('/admin/inventory', { headers: bearer() })).json();
      return Date.parse(archives[0].lastUse);
    };
    const before = await lastUse();
    expect((await scene.get(archivePath(), { headers: bearer() })).body.equals(bytes)).toBe(true);
    expect(await lastUse()).toBe(before);
    expect((await archive()).status).toBe(200);
    expect(await lastUse()).toBeGreaterThan(before);
  });

  it('takes the digest from a header, and a body in chunks', async () => {
    const { archivePath, bytes, larder } = await begin();
    const digest = createHash('sha256').update(bytes).digest('base64');
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const req = request(
        `${larder.url}${archivePath()}`,
        { method: 'PUT', ca: larder.ca, headers: { ...bearer(), 'repr-digest': `sha-256=:${digest}:` } },
        (res) => {
          res.resume();
          resolve(res.statusCode);
        },
      );
      req.on('error', reject);
      // Two writes without a length: chunked.
      req.write(bytes.subarray(0, 10));
      req.end(bytes.subarray(10));
    });
    expect(status).toBe(201);
  });

  it('wants a digest, unless SHA256SUMS is kept here', async () => {
    const { archivePath, put, bytes, registry, version } = await begin();
    const refused = await put(archivePath(), bytes);
    expect(refused.status).toBe(400);
    expect(refused.json()).toMatchObject({ code: 'DIGEST_REQUIRED', hint: expect.stringContaining('?sha256=') });
    await registry.addProvider(WIDGET);
    expect(hashesIn(await version('1.0.0'))).toContain(packageOf(await publish(WIDGET)).zh);
    expect((await put(archivePath(), Buffer.from('something else'))).status).toBe(422);
    expect((await put(archivePath(), bytes)).status).toBe(201);
  });

  it('is told in words that there is no room, also while it still sends', async () => {
    const { archivePath, put } = await begin({ config: { ...config, limits: { disk: '1MB' } } });
    const large = randomBytes(8_000_000);
    const refused = await put(`${archivePath()}?sha256=${sha256(large)}`, large);
    expect(refused.status).toBe(507);
    expect(refused.json().errors[0]).toContain('limits.disk');
  });

  it('a package that is longer than packages may be is 413, in words', async () => {
    const { put, registry } = await begin({ config: { ...config, modules: { limits: { download: '1MB' } } } });
    const large = randomBytes(3_000_000);
    const path = `/admin/packages/${registry.hostname}/acme/net/aws/1.0.0.tar.gz?sha256=${sha256(large)}`;
    const refused = await put(path, large);
    expect(refused.status, refused.text()).toBe(413);
    expect(refused.json().errors[0]).toContain('1000000 bytes');
  });

  it('nobody has to make room for bytes that are only promised', async () => {
    const { archivePath, put, bytes, larder, archive } = await begin({
      config: { ...config, limits: { disk: '4MB' } },
    });
    expect((await put(`${archivePath()}?sha256=${sha256(bytes)}`, bytes)).status).toBe(201);
    const promised = request(
      `${larder.url}${archivePath(archiveName('1.0.0', 'linux_arm64'))}?sha256=${'0'.repeat(64)}`,
      {
        method: 'PUT',
        ca: larder.ca,
        headers: { ...bearer(), 'content-length': 3_999_000, expect: '100-continue' },
      },
    );
    promised.on('error', () => {});
    promised.flushHeaders();
    await once(promised, 'continue');
    promised.write('PK');
    // It has been looked at once something of it lies where files are made.
    await eventually(async () => (await partials({ larder })).length).toBeGreaterThan(0);
    expect((await archive()).body.equals(bytes)).toBe(true);
    promised.destroy();
  });

  it('stores nothing that is not what it was said to be, or no zip', async () => {
    const { archivePath, put, bytes, archive, larder } = await begin();
    const wrong = await put(`${archivePath()}?sha256=${'0'.repeat(64)}`, bytes);
    expect(wrong.status).toBe(422);
    expect(wrong.json().errors[0]).toContain(sha256(bytes));
    const text = Buffer.from('no zip at all');
    const noZip = await put(`${archivePath()}?sha256=${sha256(text)}`, text);
    expect(noZip.json()).toMatchObject({ code: 'INVALID_ARCHIVE' });
    const cut = bytes.subarray(0, bytes.length - 30);
    expect((await put(`${archivePath()}?sha256=${sha256(cut)}`, cut)).status).toBe(422);
    expect((await archive()).status).toBe(404);
    expect(await partials({ larder })).toEqual([]);
  });

  it('keeps what was seen first, and reports that something else came', async () => {
    const { archivePath, put, bytes, registry, archive, get } = await begin({ providers: [{}] });
    const first = (await archive()).body;
    const other = bytesOf(packageOf(await publish({ ...WIDGET, directoryEntries: true })));
    const refused = await put(`${archivePath()}?sha256=${sha256(other)}`, other);
    expect(refused.status).toBe(409);
    expect(refused.json().errors[0]).toContain(`larder purge ${registry.hostname}/acme/widget 1.0.0`);
    expect((await archive()).body.equals(first)).toBe(true);
    expect(first.equals(bytes)).toBe(true);
    const { drift } = (await get('/admin/inventory', { headers: bearer() })).json();
    expect(drift).toMatchObject([{ published: sha256(other) }]);
  });

  it('leaves nothing of an upload that breaks off', async () => {
    const { archivePath, bytes, larder, archive } = await begin();
    await new Promise<void>((resolve) => {
      const req = request(`${larder.url}${archivePath()}?sha256=${sha256(bytes)}`, {
        method: 'PUT',
        ca: larder.ca,
        headers: { ...bearer(), 'content-length': bytes.length },
      });
      req.on('error', () => resolve());
      req.write(bytes.subarray(0, 100), () => setImmediate(() => req.destroy(new Error('gone'))));
    });
    await eventually(() => partials({ larder })).toEqual([]);
    expect((await archive()).status).toBe(404);
    // It is nothing that anybody at Larder has to look into.
    expect(larder.log.filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('is for operators, for the addresses of their token, and for registries that are mirrored', async () => {
    const { archivePath, put, bytes } = await begin();
    const query = `?sha256=${sha256(bytes)}`;
    expect((await put(`${archivePath()}${query}`, bytes, {})).status).toBe(401);
    expect((await put(`${archivePath()}${query}`, bytes, bearer(READER))).status).toBe(403);
    const other = await put(`${archivePath(LINUX, 'other/widget')}${query}`, bytes, bearer(OF_ACME));
    expect(other.status).toBe(403);
    const unknown = await put(`/admin/archives/unknown.example.test/acme/widget/${LINUX}${query}`, bytes);
    expect(unknown.json()).toMatchObject({ code: 'HOST_NOT_ALLOWED' });
    expect((await put(`${archivePath()}${query}`, bytes, bearer(OF_ACME))).status).toBe(201);
  });
});

describe('PUT /admin/packages', () => {
  const files = {
    'main.tf': 'output "x" { value = 1 }\n',
    'modules/vpc/main.tf': '# vpc\n',
    'run.sh': { content: '#!/bin/sh\n', executable: true as const },
  };

  async function beginModules() {
    const scene = await startModuleScene({ config });
    const path = (version: string, query = '') =>
      `/admin/packages/${scene.registry.hostname}/acme/net/aws/${version}.tar.gz${query}`;
    const put = (to: string, body: Buffer) => scene.get(to, { method: 'PUT', body, headers: bearer() });
    return { ...scene, path, put };
  }

  it('stores a package that is packed anew, and a package of Larder as it is', async () => {
    const { path, put, get, link, package: packageAt, moduleVersions } = await beginModules();
    const foreign = moduleTarGz(files);
    const taken = await put(path('2.0.0', `?subdir=modules/vpc&sha256=${sha256(foreign)}`), foreign);
    expect(taken.status, taken.text()).toBe(201);
    expect((await link('2.0.0')).subdir).toBe('modules/vpc');
    const stored = (await packageAt('2.0.0')).body;
    expect([...(await readTarGz(stored)).keys()]).toEqual(expect.arrayContaining(['main.tf', 'run.sh']));
    expect(moduleVersionsIn(await moduleVersions())).toContain('2.0.0');

    const ours = await put(path('3.0.0', `?sha256=${sha256(stored)}`), stored);
    expect(ours.json()).toMatchObject({ outcome: 'imported', sha256: sha256(stored) });
    const again = await put(path('3.0.0', `?sha256=${sha256(stored)}`), stored);
    expect(again.status).toBe(200);
    expect((await get(path('3.0.0'), { headers: bearer() })).body.equals(stored)).toBe(true);
  });

  it('refuses what reaches out of the package, what is none, and what is known as something else', async () => {
    const { path, put, larder, link } = await beginModules();
    const escaping = moduleTarGz({ 'main.tf': '', '../../outside': 'caught' });
    const refused = await put(path('2.0.0', `?sha256=${sha256(escaping)}`), escaping);
    expect(refused.json(), refused.text()).toMatchObject({ code: 'INVALID_ARCHIVE' });
    const text = Buffer.from('no archive');
    expect((await put(path('2.0.0', `?sha256=${sha256(text)}`), text)).status).toBe(422);
    expect((await put(path('2.0.0'), text)).json()).toMatchObject({ code: 'DIGEST_REQUIRED' });
    expect((await put(path('2.0.0', `?subdir=../x&sha256=${sha256(text)}`), text)).status).toBeGreaterThanOrEqual(400);

    const { checksum } = await link('1.0.0');
    const other = moduleTarGz(files);
    const drifted = await put(path('1.0.0', `?sha256=${sha256(other)}`), other);
    expect(drifted.json()).toMatchObject({ code: 'DRIFT' });
    expect((await link('1.0.0')).checksum).toBe(checksum);
    await eventually(() => partials({ larder })).toEqual([]);
  });
});

describe('PUT /admin/releases', () => {
  it('keeps SHA256SUMS whose signature is good, and none whose signature is not', async () => {
    const { get, registry, published } = await begin();
    const path = `/admin/releases/${registry.hostname}/acme/widget/1.0.0`;
    const statement = {
      signing_keys: { gpg_public_keys: published.keys.map((key) => ({ ascii_armor: key.armored })) },
      protocols: ['5.0'],
    };
    const send = (shasums: Buffer) =>
      get(path, {
        method: 'PUT',
        headers: { ...bearer(), 'content-type': 'application/json' },
        body: JSON.stringify({
          shasums: shasums.toString('base64'),
          signature: published.signature.toString('base64'),
          statement: Buffer.from(JSON.stringify(statement)).toString('base64'),
        }),
      });
    const forged = await send(Buffer.concat([published.shasums, Buffer.from(`${'0'.repeat(64)}  x.zip\n`)]));
    expect(forged.json(), forged.text()).toMatchObject({ code: 'SIGNATURE_MISMATCH' });
    expect((await get(path, { headers: bearer() })).status).toBe(404);
    const kept = await send(published.shasums);
    expect(kept.status, kept.text()).toBe(201);
    const read = (await get(path, { headers: bearer() })).json();
    expect(Buffer.from(read.shasums, 'base64').equals(published.shasums)).toBe(true);
  });
});
