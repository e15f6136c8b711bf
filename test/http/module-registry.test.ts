import { createHash, randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { ModuleAddress, ModuleRelease } from '../../src/address/module.ts';
import { ProviderPattern } from '../../src/address/provider-pattern.ts';
import { Version } from '../../src/address/version.ts';
import { Authenticator } from '../../src/http/authenticate.ts';
import { Links } from '../../src/http/links.ts';
import type { ModuleRegistrySource } from '../../src/http/module-registry.ts';
import type { LocatedModule } from '../../src/mirror/module-mirror.ts';
import { CONTENT, NO_MODULES, readable, SHA256, start } from './harness.ts';

const MODULE = '/registry/registry.example.com/v1/modules/Acme/net/aws';
const PACKAGE = `${MODULE}/1.0.0/acme-net-aws-1.0.0.tar.gz`;
const RELEASE = new ModuleRelease(ModuleAddress.parse('registry.example.com/Acme/net/aws'), Version.parse('1.0.0'));

const located = (more: Partial<Extract<LocatedModule, { kind: 'package' }>> = {}): LocatedModule => ({
  kind: 'package',
  state: 'stored',
  subdir: '',
  sha256: SHA256,
  isPrivate: false,
  ...more,
});

const modules = (answers: Partial<ModuleRegistrySource> = {}): ModuleRegistrySource => ({
  ...NO_MODULES,
  locate: async () => located(),
  openPackage: async () => readable(),
  describePackage: async () => ({ size: CONTENT.length, sha256: SHA256, storedAt: new Date(0) }),
  ...answers,
});

describe('versions', () => {
  it('are listed under the one module that the clients look at, as they are written canonically', async () => {
    const asked: string[] = [];
    const { ask } = await start(
      {},
      {
        modules: modules({
          list: async (module) => {
            asked.push(module.written);
            return { versions: ['1.2.0', '1.0.0-RC1'].map(Version.parse) };
          },
        }),
      },
    );
    const answer = await ask(`GET ${MODULE}/versions`);
    expect(answer.statusLine).toContain('200');
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.json()).toEqual({ modules: [{ versions: [{ version: '1.2.0' }, { version: '1.0.0-RC1' }] }] });
    expect(asked).toEqual(['Acme/net/aws']);
  });

  it('that upstream could not confirm say so', async () => {
    const list = async () => ({ versions: [], stale: { ageSeconds: 7, reason: 'gone' } });
    const { ask } = await start({}, { modules: modules({ list }) });
    const { headers } = await ask(`GET ${MODULE}/versions`);
    expect(headers['age']).toBe('7');
    expect(headers['warning']).toContain('110');
  });
});

describe('the download answer', () => {
  const locationOf = async (answer: LocatedModule, path = `${MODULE}/1.0.0/download`) => {
    const { ask } = await start({}, { modules: modules({ locate: async () => answer }) });
    const { statusLine, headers, body } = await ask(`GET ${path}`);
    expect(statusLine).toContain('204');
    expect(body).toHaveLength(0);
    return headers['x-terraform-get'];
  };

  it('R10: is 204 with a relative location, which every client understands, and the checksum', async () => {
    expect(await locationOf(located())).toBe(`./acme-net-aws-1.0.0.tar.gz?checksum=sha256:${SHA256}`);
  });

  it('R26: names the subdirectory before the query', async () => {
    expect(await locationOf(located({ subdir: 'modules/net' }))).toBe(
      `./acme-net-aws-1.0.0.tar.gz//modules/net?checksum=sha256:${SHA256}`,
    );
    const bytes = (await locationOf(located({ subdir: 'módulos/net 2' }))) ?? '';
    expect(Buffer.from(bytes, 'latin1').toString()).toContain('//módulos/net 2?');
  });

  it('has no checksum while the package is still being made', async () => {
    expect(await locationOf(located({ sha256: undefined }))).toBe('./acme-net-aws-1.0.0.tar.gz');
  });

  it('passes on what cannot be mirrored, as it is', async () => {
    const location = 's3::https://s3.example.com/bucket/net.zip';
    expect(await locationOf({ kind: 'elsewhere', location })).toBe(location);
  });

  it('R06: is the same for a version as registries spell it', async () => {
    const asked: string[] = [];
    const locate = async (release: ModuleRelease) => {
      asked.push(release.toString());
      return located();
    };
    const { ask } = await start({}, { modules: modules({ locate }) });
    for (const spelling of ['v1.0.0', '1.0', '01.0.0', '1.0.0']) {
      const { headers } = await ask(`GET ${MODULE}/${spelling}/download`);
      expect(headers['x-terraform-get']).toContain('./acme-net-aws-1.0.0.tar.gz');
    }
    expect(new Set(asked)).toEqual(new Set([RELEASE.toString()]));
    expect((await ask(`GET ${MODULE}/latest/download`)).statusLine).toContain('400');
  });
});

describe('a package', () => {
  it('is served as what it is, with its length, a validator, and for ever', async () => {
    const { ask } = await start({}, { modules: modules() });
    for (const method of ['HEAD', 'GET']) {
      const { statusLine, headers, body } = await ask(`${method} ${PACKAGE}`);
      expect(statusLine).toContain('200');
      expect(headers['content-type']).toBe('application/gzip');
      expect(headers['content-length']).toBe(String(CONTENT.length));
      expect(headers['cache-control']).toContain('immutable');
      expect(headers['content-encoding']).toBeUndefined();
      expect(body.equals(method === 'GET' ? CONTENT : Buffer.alloc(0))).toBe(true);
      expect((await ask(`GET ${PACKAGE}`, `If-None-Match: ${headers['etag']}`)).statusLine).toContain('304');
    }
  });

  it('R16: tells HEAD no length that it does not know', async () => {
    const describePackage = async () => ({ size: undefined, sha256: undefined, storedAt: undefined });
    const { ask } = await start({}, { modules: modules({ describePackage }) });
    const { statusLine, headers } = await ask(`HEAD ${PACKAGE}`);
    expect(statusLine).toContain('200');
    expect(headers['content-length']).toBeUndefined();
    expect(headers['accept-ranges']).toBeUndefined();
  });

  it.each([`${MODULE}/1.0.0/acme-net-aws-1.0.1.tar.gz`, `${MODULE}/1.0.0/other.tar.gz`])(
    'has one name only: %s is 404 in words',
    async (path) => {
      const { ask } = await start({}, { modules: modules() });
      const answer = await ask(`GET ${path}`);
      expect(answer.statusLine).toContain('404');
      expect(JSON.stringify(answer.json())).toContain('acme-net-aws-1.0.0.tar.gz');
    },
  );
});

describe('where clients need a token', () => {
  const keys = { id: 'first', secret: randomBytes(32) };
  const links = new Links({
    keys: { signing: () => keys, find: async (id) => (id === keys.id ? keys : undefined) },
    lifetimeMs: 60_000,
  });
  const TOKEN = 'a-token-of-ci';
  const begin = () =>
    start(
      {},
      {
        modules: modules(),
        links,
        authenticator: new Authenticator({
          anonymous: 'none',
          tokens: async () => [
            {
              name: 'ci',
              digest: createHash('sha256').update(TOKEN).digest(),
              roles: ['read'],
              addresses: [ProviderPattern.parse('registry.example.com/acme/*') as ProviderPattern],
            },
          ],
        }),
      },
    );

  it('M1: the location is a link that needs none, and it is good for this package alone', async () => {
    const { ask } = await begin();
    const { headers } = await ask(`GET ${MODULE}/1.0.0/download`, `Authorization: Bearer ${TOKEN}`);
    expect(headers['cache-control']).toContain('private');
    const base = `https://larder.test${MODULE}/1.0.0/download`;
    const link = new URL(headers['x-terraform-get'] ?? '', base);
    expect(link.pathname).toMatch(
      /^\/get\/[^/]+\/registry\.example\.com\/Acme\/net\/aws\/1\.0\.0\/acme-net-aws-1\.0\.0\.tar\.gz$/,
    );
    expect(link.search).toBe(`?checksum=sha256:${SHA256}`);
    expect((await ask(`GET ${link.pathname}`)).body.equals(CONTENT)).toBe(true);
    const other = link.pathname.replaceAll('1.0.0', '1.0.1');
    expect((await ask(`GET ${other}`)).statusLine).toContain('403');
  });

  it('nothing is told without it, nor of what the token is not for', async () => {
    const { ask } = await begin();
    for (const path of [`${MODULE}/versions`, `${MODULE}/1.0.0/download`, PACKAGE]) {
      expect((await ask(`GET ${path}`)).statusLine).toContain('401');
      const elsewhere = path.replace('/Acme/', '/Others/').replace('acme-', 'others-');
      expect((await ask(`GET ${elsewhere}`, `Authorization: Bearer ${TOKEN}`)).statusLine).toContain('403');
    }
  });

  it('a link dies with the right that its holder had', async () => {
    const { ask } = await begin();
    const gone = `/${links.pathFor(RELEASE, 'token:somebody-who-left')}`;
    expect((await ask(`GET ${gone}`)).statusLine).toContain('403');
  });
});
