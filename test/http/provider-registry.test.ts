import { createHash } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  archiveName,
  bytesOf,
  eventually,
  packageOf,
  type Scene,
  type SceneOptions,
  startRegistry,
  startScene,
  stoppedClock,
  WIDGET,
} from '../mirror/scene.ts';
import { editJson } from '../support/faults.ts';
import type { HttpAnswer, HttpOptions } from '../support/http.ts';
import type { PublishedVersion } from '../support/published-provider.ts';

const PLATFORMS = ['linux_amd64', 'darwin_arm64'];
const TOKEN = 'larder-token-5a77';
const THEIRS = 'upstream-token-0c9e';
const DAY_MS = 25 * 3_600_000;

const as = (token: string): HttpOptions => ({ headers: { authorization: `Bearer ${token}` } });

interface Door extends Scene {
  /** Path of a provider's versions and of what is below. */
  readonly base: string;
  readonly published: PublishedVersion;
  ask(path: string, options?: HttpOptions): Promise<HttpAnswer>;
  /** The package document. */
  describe(platform?: string, options?: HttpOptions): Promise<HttpAnswer>;
}

/** The door in front of a registry that has `acme/widget` 1.0.0 for two platforms. */
async function open(options: SceneOptions & { published?: Partial<Parameters<typeof publishWidget>[1]> } = {}) {
  const registry = options.registry ?? (await startRegistry());
  const published = await publishWidget(registry, options.published);
  return begin({ ...options, registry, providers: [] }, published);
}

function publishWidget(registry: Scene['registry'], more: Partial<Parameters<typeof registry.addProvider>[0]> = {}) {
  return registry.addProvider({ ...WIDGET, platforms: PLATFORMS, withPackages: true, ...more });
}

async function begin(options: SceneOptions, published: PublishedVersion): Promise<Door> {
  const scene = await startScene(options);
  const base = `/registry/${scene.registry.hostname}/v1/providers/acme/widget`;
  const ask = (path: string, more?: HttpOptions) => scene.get(`${base}/${path}`, more);
  const describe = (platform = 'linux_amd64', more?: HttpOptions) =>
    ask(`${published.version}/download/${platform.replace('_', '/')}`, more);
  return { ...scene, base, published, ask, describe };
}

/** A URL of a package document, resolved as the clients do. */
function linked(door: Door, answer: HttpAnswer, name: string): string {
  expect(answer.status, answer.text()).toBe(200);
  const { os, arch, [name]: url } = answer.json();
  expect(url).toMatch(/^\.\.\//);
  return new URL(url, `https://larder.test${door.base}/${door.published.version}/download/${os}/${arch}`).pathname;
}

const FILES = ['download_url', 'shasums_url', 'shasums_signature_url'] as const;

/** All three files of a package document, fetched without a token, as the clients do. */
async function fetchAll(door: Door, answer: HttpAnswer): Promise<Buffer[]> {
  const files: Buffer[] = [];
  for (const name of FILES) {
    const file = await door.get(linked(door, answer, name));
    expect(file.status, `${name}: ${file.text()}`).toBe(200);
    files.push(file.body);
  }
  return files;
}

describe('versions', () => {
  it('R37: canonical, newest first, what is no version left out, warnings passed on', async () => {
    const door = await open({ published: { published: 'v1.0.0' } });
    await publishWidget(door.registry, { version: '1.10.0', platforms: ['linux_amd64'], protocols: ['5.0', '6.0'] });
    await publishWidget(door.registry, { version: '9.9.9', published: 'latest' });
    door.registry.warnings = ['acme/widget has moved'];
    const answer = await door.ask('versions');
    expect(answer.headers).toMatchObject({ 'content-type': 'application/json', etag: expect.any(String) });
    expect(answer.json()).toEqual({
      versions: [
        { version: '1.10.0', protocols: ['5.0', '6.0'], platforms: [{ os: 'linux', arch: 'amd64' }] },
        {
          version: '1.0.0',
          protocols: ['5.0'],
          platforms: [
            { os: 'linux', arch: 'amd64' },
            { os: 'darwin', arch: 'arm64' },
          ],
        },
      ],
      warnings: ['acme/widget has moved'],
    });
    const again = await door.ask('versions', { headers: { 'if-none-match': answer.headers['etag'] ?? '' } });
    expect(again.status).toBe(304);
  });

  it('a stored version stays when upstream drops it, with the platforms that are stored', async () => {
    const clock = stoppedClock();
    const door = await open();
    await publishWidget(door.registry, { version: '2.0.0' });
    await fetchAll(door, await door.describe());
    await door.stored();
    door.registry.removeVersion(WIDGET);
    clock.advance(DAY_MS);
    const { versions } = (await door.ask('versions')).json();
    expect(versions.map(({ version }: { version: string }) => version)).toEqual(['2.0.0', '1.0.0']);
    expect(versions[1]).toEqual({ version: '1.0.0', platforms: [{ os: 'linux', arch: 'amd64' }] });
    expect((await fetchAll(door, await door.describe()))[1]).toEqual(door.published.shasums);
    expect((await door.describe('darwin_arm64')).status).toBe(404);
  });

  it('of a provider that nobody knows, of a host that is not mirrored: 404', async () => {
    const door = await open();
    const unknown = await door.get(`/registry/${door.registry.hostname}/v1/providers/acme/gadget/versions`);
    expect([unknown.status, unknown.json().code]).toEqual([404, 'NOT_FOUND']);
    const elsewhere = await door.get('/registry/registry.example.com/v1/providers/acme/widget/versions');
    expect([elsewhere.status, elsewhere.json().code]).toEqual([404, 'HOST_NOT_ALLOWED']);
    expect(elsewhere.json().hint).toContain('upstreams.hosts');
  });

  it('upstream in trouble and nothing stored: never empty, never absent; with something remembered: stale', async () => {
    const clock = stoppedClock();
    const door = await open();
    const versions = (await door.ask('versions')).json();
    await door.registry.stop();
    clock.advance(DAY_MS);
    const stale = await door.ask('versions');
    expect(stale.json()).toEqual(versions);
    expect(stale.headers).toMatchObject({ warning: '110 - "Response is Stale"', age: String(DAY_MS / 1000) });
    const other = await door.get(`/registry/${door.registry.hostname}/v1/providers/acme/gadget/versions`);
    expect([other.status, other.json().code]).toEqual([502, 'UPSTREAM_UNREACHABLE']);
  });
});

describe('a package document', () => {
  it('says what upstream says, with links to here; SHA256SUMS, signature and archive are upstream’s own bytes', async () => {
    const door = await open();
    const keys = [
      { key_id: 'X', trust_signature: 'TS', source: 'Acme', source_url: 'https://acme.example/', more: [1] },
    ];
    door.registry.on(
      /\/download\//,
      editJson((document) => {
        const [key] = (document['signing_keys'] as { gpg_public_keys: object[] }).gpg_public_keys;
        return { ...document, signing_keys: { gpg_public_keys: [null, { ...key, ...keys[0] }], of: 'acme' } };
      }),
    );
    const answer = await door.describe();
    expect(door.registry.requests.count('GET', /\/1\.0\.0\/download\/linux\/amd64$/)).toBe(1);
    const { sha256, size, zh, h1 } = packageOf(door.published);
    const document = answer.json();
    expect(document).toEqual({
      protocols: ['5.0'],
      os: 'linux',
      arch: 'amd64',
      filename: archiveName('1.0.0', 'linux_amd64'),
      download_url: `../../${archiveName('1.0.0', 'linux_amd64')}`,
      shasums_url: '../../SHA256SUMS',
      shasums_signature_url: '../../SHA256SUMS.sig',
      shasum: sha256,
      signing_keys: {
        gpg_public_keys: [{ ...keys[0], ascii_armor: door.published.keys[0]?.armored }],
        of: 'acme',
      },
      packages: expect.objectContaining({ linux_amd64: { hashes: [zh, h1], package_size: size } }),
    });
    expect(Object.keys(document.packages)).toEqual(PLATFORMS);
    expect(answer.headers['content-type']).toBe('application/json');

    const [archive, shasums, signature] = await fetchAll(door, answer);
    expect(archive).toEqual(bytesOf(packageOf(door.published)));
    expect(shasums).toEqual(door.published.shasums);
    expect(signature).toEqual(door.published.signature);
    // One cache behind both doors.
    await door.stored();
    expect((await door.archive()).body).toEqual(archive);
    expect(door.registry.releases.requests.count('GET', /\.zip$/)).toBe(1);
  });

  it('files answer HEAD, and what the client already has is not sent again', async () => {
    const door = await open();
    for (const name of ['SHA256SUMS', 'SHA256SUMS.sig'] as const) {
      const file = await door.ask(`1.0.0/${name}`);
      const head = await door.ask(`1.0.0/${name}`, { method: 'HEAD' });
      expect([head.status, head.body.length, head.headers['content-length']]).toEqual([200, 0, `${file.body.length}`]);
      expect(head.headers['etag']).toBe(file.headers['etag']);
      const condition = { headers: { 'if-none-match': file.headers['etag'] ?? '' } };
      expect((await door.ask(`1.0.0/${name}`, condition)).status).toBe(304);
    }
    const head = await door.ask(`1.0.0/${archiveName('1.0.0', 'linux_amd64')}`, { method: 'HEAD' });
    expect(head.headers['content-length']).toBe(String(packageOf(door.published).size));
    expect((await door.ask(`1.0.0/${archiveName('1.0.1', 'linux_amd64')}`)).status).toBe(404);
  });

  it('R32: names the archive as SHA256SUMS does, however that is', async () => {
    const door = await open({
      published: { published: 'v1.0.0', filename: (platform) => `terraform-provider-widget_v1.0.0_${platform}.zip` },
    });
    for (const platform of PLATFORMS) {
      const { filename } = (await door.describe(platform)).json();
      expect(filename).toBe(`terraform-provider-widget_v1.0.0_${platform}.zip`);
      expect(door.published.shasums.toString()).toContain(`  ${filename}\n`);
    }
    expect((await fetchAll(door, await door.describe()))[0]).toEqual(bytesOf(packageOf(door.published)));
  });

  it('R93: `packages` that contradict themselves or the archive are left out whole', async () => {
    const door = await open();
    door.registry.on(
      /\/download\//,
      editJson((document) => {
        const packages = document['packages'] as Record<string, { hashes: string[]; package_size: number }>;
        const other = { ...packages['darwin_arm64'], hashes: [`zh:${'0'.repeat(64)}`] };
        return { ...document, packages: { ...packages, darwin_arm64: other } };
      }),
    );
    for (const platform of PLATFORMS) expect((await door.describe(platform)).json()).not.toHaveProperty('packages');
  });

  it('R93: a size that the stored archive does not have makes `packages` useless to clients', async () => {
    const door = await open();
    door.registry.on(
      /\/download\//,
      editJson((document) => {
        const packages = document['packages'] as Record<string, { package_size: number }>;
        const own = { ...packages['linux_amd64'], package_size: 1 };
        return { ...document, packages: { ...packages, linux_amd64: own } };
      }),
    );
    await fetchAll(door, await door.describe());
    await door.stored();
    expect((await door.describe()).json()).not.toHaveProperty('packages');
  });

  it('R36: without keys it has none, and no value is null', async () => {
    const door = await open({ published: { sign: 'none' } });
    const document = (await door.describe()).json();
    expect(document.signing_keys).toEqual({ gpg_public_keys: [] });
    expect(JSON.stringify(document)).not.toContain('null');
  });

  it('for a platform, version or provider that upstream does not have: 404', async () => {
    const door = await open();
    expect((await door.describe('plan9_386')).json().hint).toContain('darwin_arm64, linux_amd64');
    for (const path of ['1.0.0/download/plan9/386', '3.0.0/download/linux/amd64', '3.0.0/SHA256SUMS']) {
      expect((await door.ask(path)).status, path).toBe(404);
    }
    for (const path of ['v1.0.0/download/linux/amd64', '1.0/SHA256SUMS', '1.0.0/download/li_nux/amd64']) {
      expect((await door.ask(path)).status, path).toBe(400);
    }
  });

  it('a platform that is added to a release is there as soon as the versions name it', async () => {
    const clock = stoppedClock();
    const door = await open({ published: { platforms: ['linux_amd64'] } });
    await fetchAll(door, await door.describe());
    expect((await door.describe('darwin_arm64')).status).toBe(404);
    const asked = door.registry.requests.all.length;
    expect((await door.describe('darwin_arm64')).status).toBe(404);
    expect(door.registry.requests.all.length).toBe(asked);

    const published = await publishWidget(door.registry);
    clock.advance(6 * 60_000);
    expect((await door.ask('versions')).json().versions[0].platforms).toHaveLength(2);
    const described = await door.describe('darwin_arm64');
    const [archive, shasums] = await fetchAll(door, described);
    expect(archive).toEqual(bytesOf(packageOf(published, 'darwin_arm64')));
    expect(shasums).toEqual(published.shasums);
  });

  it('of other bytes under the same version is refused like their archive; what is stored stays as it was', async () => {
    const clock = stoppedClock();
    const door = await open();
    const before = await door.describe();
    await fetchAll(door, before);
    await door.stored();
    await publishWidget(door.registry, { zip: () => Buffer.from('other bytes') });
    clock.advance(DAY_MS);
    const after = await door.describe();
    expect(after.json()).toEqual(before.json());
    expect((await fetchAll(door, after))[1]).toEqual(door.published.shasums);
    const refused = await door.describe('darwin_arm64');
    expect([refused.status, refused.json().code]).toEqual([502, 'INTEGRITY_MISMATCH']);
    expect((await door.archive('1.0.0', 'darwin_arm64')).status).toBe(502);
  });
});

describe('with upstream gone', () => {
  it('what is known of a release is told; also after a restart, and when nothing but the archives is left', async () => {
    const clock = stoppedClock();
    const door = await open();
    const described = await door.describe();
    const files = await fetchAll(door, described);
    await door.stored();
    const other = await door.describe('darwin_arm64');
    await door.registry.stop();
    clock.advance(DAY_MS);
    expect((await door.describe()).json()).toEqual(described.json());
    expect((await door.describe('darwin_arm64')).json()).toEqual(other.json());

    await door.larder.close();
    const { dataDirectory } = door.larder.setup;
    await rm(join(dataDirectory, 'metadata'), { recursive: true });
    const again = await begin({ registry: door.registry, setup: door.larder.setup, providers: [] }, door.published);
    const alone = await again.describe();
    expect(alone.json()).toEqual(described.json());
    expect(alone.headers).toMatchObject({ warning: '110 - "Response is Stale"', age: '0' });
    expect(await fetchAll(again, alone)).toEqual(files);
    expect((await again.ask('versions')).json()).toEqual({
      versions: [{ version: '1.0.0', platforms: [{ os: 'linux', arch: 'amd64' }] }],
    });
    expect((await again.describe('darwin_arm64')).status).toBe(502);
  });

  it('sealed, it tells of what is stored and asks nobody', async () => {
    const door = await open();
    const described = await door.describe();
    const files = await fetchAll(door, described);
    await door.stored();
    await door.larder.close();
    const sealed = await startSealed(door);
    const asked = door.registry.requests.all.length;
    const answer = await sealed.describe();
    expect(answer.json()).toEqual(described.json());
    expect(await fetchAll(sealed, answer)).toEqual(files);
    expect((await sealed.describe('darwin_arm64')).status).toBe(503);
    expect((await sealed.ask('versions')).json().versions).toHaveLength(1);
    expect(door.registry.requests.all.length).toBe(asked);
  });

  it('a purged version leaves nothing behind', async () => {
    const access = { tokens: [{ name: 'ops', token: TOKEN, roles: ['read', 'admin'] }] };
    const door = await open({ config: { access } });
    await fetchAll(door, await door.describe());
    await door.stored();
    const home = join(door.larder.setup.dataDirectory, 'providers', door.registry.hostname, 'acme', 'widget');
    expect(await readdir(home)).toContain('terraform-provider-widget_1.0.0_release.json');
    const purged = await door.get('/admin/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ address: `${door.registry.hostname}/acme/widget`, version: '1.0.0' }),
    });
    expect(purged.status, purged.text()).toBe(200);
    expect((await readdir(home)).filter((name) => name.includes('1.0.0'))).toEqual([]);
  });
});

/** The same data with `sealed: true`; upstream runs on, and counts. */
async function startSealed(door: Door): Promise<Door> {
  const { setup } = door.larder;
  await writeFile(setup.configFile, `${await readFile(setup.configFile, 'utf8')}\nsealed: true\n`);
  return begin({ registry: door.registry, setup, providers: [] }, door.published);
}

describe('where clients need a token', () => {
  const access = {
    anonymous: 'none',
    tokens: [
      { name: 'ci', token: TOKEN, roles: ['read'] },
      { name: 'narrow', token: `${TOKEN}-narrow`, roles: ['read'], addresses: ['registry.example.com/*/*'] },
    ],
  };

  it('R01: all three files are linked to so that they need none; everything else is refused without', async () => {
    const door = await open({ config: { access } });
    const described = await door.describe('linux_amd64', as(TOKEN));
    for (const name of FILES)
      expect(linked(door, described, name)).toMatch(/^\/get\/1\.[^/]+\/localhost:\d+\/acme\/widget\//);
    const [archive, shasums, signature] = await fetchAll(door, described);
    expect(archive).toEqual(bytesOf(packageOf(door.published)));
    expect([shasums, signature]).toEqual([door.published.shasums, door.published.signature]);
    expect(described.headers['cache-control']).toContain('private');
    const direct = ['versions', '1.0.0/download/linux/amd64', '1.0.0/SHA256SUMS', '1.0.0/SHA256SUMS.sig', 'x/y/z'];
    for (const path of direct) {
      const refused = await door.ask(path);
      expect(refused.status, path).toBe(401);
      expect(refused.json().hint).toContain(`credentials "${door.registry.hostname}"`);
      expect((await door.ask(path, as('unknown'))).status, path).toBe(401);
      if (path !== 'x/y/z') expect((await door.ask(path, as(`${TOKEN}-narrow`))).status, path).toBe(403);
    }
    expect((await door.ask('1.0.0/SHA256SUMS', as(TOKEN))).body).toEqual(door.published.shasums);
    expect((await door.ask(`1.0.0/${archiveName('1.0.0', 'linux_amd64')}`, as(TOKEN))).body).toEqual(archive);
  });

  it('build metadata in a version survives links and paths', async () => {
    const door = await open({ config: { access }, published: { version: '1.0.0-RC.1+build.5' } });
    const described = await door.describe('darwin_arm64', as(TOKEN));
    const [archive, shasums] = await fetchAll(door, described);
    expect(archive).toEqual(bytesOf(packageOf(door.published, 'darwin_arm64')));
    expect(shasums).toEqual(door.published.shasums);
  });

  it('the audit log tells who was given which of the files', async () => {
    const door = await open({ config: { access, log: { audit: 'data/audit.jsonl' } } });
    await door.ask('versions', as(TOKEN));
    await fetchAll(door, await door.describe('linux_amd64', as(TOKEN)));
    await door.ask('versions');
    const told = async () => {
      const text = await readFile(join(door.larder.setup.dataDirectory, 'audit.jsonl'), 'utf8');
      const entries = text.split('\n').filter((line) => line !== '');
      const fields = entries.map((line) => JSON.parse(line) as Record<string, unknown>);
      return fields.map(({ event, client, what, version }) => [event, client, what, version].join(' ').trim());
    };
    await eventually(told).toEqual([
      'served ci versions',
      'served ci package 1.0.0',
      'served ci archive 1.0.0',
      'served ci SHA256SUMS 1.0.0',
      'served ci SHA256SUMS.sig 1.0.0',
      'refused anonymous',
    ]);
  });

  it('a link is for its own file only', async () => {
    const door = await open({ config: { access } });
    await publishWidget(door.registry, { version: '1.0.1' });
    const described = await door.describe('linux_amd64', as(TOKEN));
    const [archive, shasums] = FILES.map((name) => linked(door, described, name)) as [string, string];
    const forged = [
      shasums.replace('1.0.0_SHA', '1.0.1_SHA'),
      `${shasums}.sig`,
      archive.replace(/[^/]+$/, shasums.split('/').pop() ?? ''),
      shasums.replace(/[^/]+$/, archive.split('/').pop() ?? ''),
    ];
    for (const link of forged) {
      const refused = await door.get(link);
      expect([refused.status, refused.json().code], link).toEqual([403, 'LINK_NOT_VALID']);
    }
    for (const name of ['terraform-provider-widget_1.0.0_SHA512SUMS', 'SHA256SUMS', 'x_SHA256SUMS']) {
      expect((await door.get(shasums.replace(/[^/]+$/, name))).status).toBeLessThan(500);
    }
  });

  it('an upstream that is asked with clients’ tokens: let in by its own token, links for that client alone', async () => {
    const registry = await startRegistry();
    registry.requireToken(THEIRS);
    const hosts = { [registry.hostname]: { credentials: { forward: true } } };
    const door = await open({ registry, config: { upstreams: { hosts } } });
    for (const options of [undefined, as('unknown')]) {
      expect((await door.describe('linux_amd64', options)).status).toBe(401);
      expect((await door.ask('versions', options)).status).toBe(401);
      expect((await door.ask('1.0.0/SHA256SUMS', options)).status).toBe(401);
    }
    expect((await door.ask('versions', as(THEIRS))).status).toBe(200);
    const described = await door.describe('linux_amd64', as(THEIRS));
    const [archive, shasums, signature] = await fetchAll(door, described);
    expect(
      createHash('sha256')
        .update(archive ?? '')
        .digest('hex'),
    ).toBe(described.json().shasum);
    expect([shasums, signature]).toEqual([door.published.shasums, door.published.signature]);
    expect(described.text()).not.toContain(THEIRS);
    // Stored now, and still nobody else's.
    await eventually(async () => (await door.describe('linux_amd64', as(THEIRS))).status).toBe(200);
    for (const path of ['versions', '1.0.0/download/linux/amd64', '1.0.0/SHA256SUMS', '1.0.0/SHA256SUMS.sig']) {
      expect((await door.ask(path, as('unknown'))).status, path).toBe(401);
    }
    await door.registry.stop();
    expect((await fetchAll(door, await door.describe('linux_amd64', as(THEIRS))))[0]).toEqual(archive);
    expect((await door.describe('linux_amd64', as('unknown'))).status).toBeGreaterThanOrEqual(400);
  });

  it('where anonymous clients may read, a token of another place is no reason to refuse', async () => {
    const door = await open();
    expect((await door.ask('versions', as('of-the-registry-itself'))).status).toBe(200);
    const described = await door.describe('linux_amd64', as('of-the-registry-itself'));
    expect(described.json().download_url).toMatch(/^\.\.\/\.\.\/terraform-provider/);
    expect(door.registry.requests.withCredentials()).toEqual([]);
  });
});

describe('paths', () => {
  it('the colon of a host may be percent-encoded, and its letters be of any case', async () => {
    const door = await open();
    const plain = (await door.ask('versions')).json();
    for (const host of [door.registry.hostname.replace(':', '%3A'), door.registry.hostname.toUpperCase()]) {
      expect((await door.get(`/registry/${host}/v1/providers/acme/widget/versions`)).json()).toEqual(plain);
    }
  });

  it('L3: without the slash at the end of the service’s URL, the hint names the right one', async () => {
    const door = await open();
    const { hostname } = door.registry;
    for (const path of ['acme/widget/versions', 'acme/widget/1.0.0/download/linux/amd64']) {
      const answer = await door.get(`/registry/${hostname}/v1/${path}`);
      expect([answer.status, answer.json().code]).toEqual([404, 'NOT_FOUND']);
      expect(answer.json().hint).toContain(`"${door.larder.url}/registry/${hostname}/v1/providers/"`);
    }
  });

  it.each(['/v1/other', '/v1', '/', ''])('what nobody serves: %j', async (path) => {
    const door = await open();
    const answer = await door.get(`/registry/${door.registry.hostname}${path}`);
    expect([answer.status, answer.json().code]).toEqual([404, 'NOT_FOUND']);
    expect(answer.json().hint).toContain(`providers.v1 below /registry/${door.registry.hostname}/v1/providers/`);
  });

  it('reading is all that can be done here', async () => {
    const door = await open();
    expect((await door.ask('versions', { method: 'POST' })).status).toBe(405);
  });
});
