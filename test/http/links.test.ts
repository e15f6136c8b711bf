import { createHash, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { ModuleAddress, ModuleRelease } from '../../src/address/module.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { Authenticator, type KnownToken } from '../../src/http/authenticate.ts';
import { type LinkKeySource, Links, longestLife } from '../../src/http/links.ts';
import type { LinkKey } from '../../src/store/link-key-ring.ts';
import { archive, CONTENT, packages, readable, SHA256, start, WIDGET_PATH } from './harness.ts';

const MINUTE = 60_000;
const FILE = archive('linux_amd64');

class Keys implements LinkKeySource {
  readonly all: LinkKey[] = [{ id: 'first', secret: randomBytes(32) }];

  signing(): LinkKey {
    return this.all.at(-1) as LinkKey;
  }

  async find(id: string): Promise<LinkKey | undefined> {
    return this.all.find((key) => key.id === id);
  }
}

function make(options: { keys?: Keys; lifetimeMs?: number } = {}) {
  const clock = { now: Date.UTC(2026, 0, 2, 3, 4, 5) };
  const keys = options.keys ?? new Keys();
  const links = new Links({ keys, lifetimeMs: options.lifetimeMs ?? 15 * MINUTE, now: () => clock.now });
  return { clock, keys, links };
}

const capabilityOf = (path: string) => path.split('/')[1] ?? '';

it('a link to a module’s package names it as it was written, and is one for the module however it is written', async () => {
  const { links } = make();
  const version = Version.parse('1.0.0');
  const written = new ModuleRelease(ModuleAddress.parse('registry.example.com/Acme/Net/aws'), version);
  const path = links.pathFor(written, 'token:ci');
  expect(path).toMatch(/^get\/[^/]+\/registry\.example\.com\/Acme\/Net\/aws\/1\.0\.0\/acme-net-aws-1\.0\.0\.tar\.gz$/);
  const lowerCase = new ModuleRelease(ModuleAddress.parse('registry.example.com/acme/net/aws'), version);
  for (const release of [written, lowerCase]) {
    expect(await links.verify(capabilityOf(path), release)).toBe('token:ci');
  }
});

describe('a capability', () => {
  it('is good for its file, as often as one likes, until its time is over', async () => {
    const { links, clock } = make();
    const capability = capabilityOf(links.pathFor(FILE, 'token:ci'));
    expect(capability).toMatch(/^1\.[0-9a-z]+\.first\.[\w-]+\.[\w-]{43}$/);
    for (let minute = 0; minute < 15; minute += 1) {
      expect(await links.verify(capability, FILE)).toBe('token:ci');
      clock.now += MINUTE;
    }
    clock.now += longestLife(15 * MINUTE) - 15 * MINUTE;
    await expect(links.verify(capability, FILE)).rejects.toMatchObject({ code: 'LINK_EXPIRED' });
  });

  it('stays the same for a part of its lifetime, so that lists with links in them do not change at every request', () => {
    const { links, clock } = make({ lifetimeMs: 60 * MINUTE });
    clock.now = Math.ceil(clock.now / (15 * MINUTE)) * 15 * MINUTE + 1;
    const first = links.pathFor(FILE, 'token:ci');
    clock.now += 15 * MINUTE - 2;
    expect(links.pathFor(FILE, 'token:ci')).toBe(first);
    clock.now += 2;
    expect(links.pathFor(FILE, 'token:ci')).not.toBe(first);
  });

  it('never lasts less than the lifetime, nor more than that and a quarter', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 86_400_000 }),
        fc.nat({ max: 86_400_000 }),
        async (lifetimeMs, later) => {
          const { links, clock } = make({ lifetimeMs });
          clock.now += later;
          const capability = capabilityOf(links.pathFor(FILE, 'x'));
          clock.now += lifetimeMs - 1;
          expect(await links.verify(capability, FILE)).toBe('x');
          clock.now += longestLife(lifetimeMs) - lifetimeMs + 1;
          await expect(links.verify(capability, FILE)).rejects.toMatchObject({ code: 'LINK_EXPIRED' });
        },
      ),
    );
  });

  it.each([
    ['another platform', archive('linux_arm64')],
    ['another version', archive('linux_amd64', '1.0.1')],
    ['another provider', archive('linux_amd64', '1.0.0', ProviderAddress.parse('registry.example.com/acme/widget2'))],
    [
      'the same provider of another host',
      archive('linux_amd64', '1.0.0', ProviderAddress.parse('x.example/acme/widget')),
    ],
    [
      'the same host at another port',
      archive('linux_amd64', '1.0.0', ProviderAddress.parse('registry.example.com:8443/acme/widget')),
    ],
  ])('is not good for %s, also once it has expired', async (_name, other) => {
    const { links, clock } = make();
    const capability = capabilityOf(links.pathFor(FILE, 'token:ci'));
    await expect(links.verify(capability, other)).rejects.toMatchObject({ code: 'LINK_NOT_VALID' });
    clock.now += 3_600_000;
    await expect(links.verify(capability, other)).rejects.toMatchObject({ code: 'LINK_NOT_VALID' });
  });

  it('is good at every process that has the key, as long as it has it', async () => {
    const keys = new Keys();
    const one = make({ keys });
    const capability = capabilityOf(one.links.pathFor(FILE, 'token:ci'));
    const other = make({ keys });
    keys.all.push({ id: 'second', secret: randomBytes(32) });
    expect(await other.links.verify(capability, FILE)).toBe('token:ci');
    const newer = capabilityOf(other.links.pathFor(FILE, 'token:ci'));
    expect(newer).toContain('.second.');
    keys.all.shift();
    await expect(other.links.verify(capability, FILE)).rejects.toMatchObject({ code: 'LINK_NOT_VALID' });
    expect(await other.links.verify(newer, FILE)).toBe('token:ci');
    await expect(make().links.verify(newer, FILE)).rejects.toMatchObject({ code: 'LINK_NOT_VALID' });
  });

  it('is not good when anything in it was changed, whatever it was', async () => {
    const { links, clock } = make();
    const capability = capabilityOf(links.pathFor(FILE, 'token:ci'));
    const at = fc.nat({ max: capability.length - 1 });
    const character = fc.constantFrom(...'0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.~+=%/ \n');
    const mutated = fc.oneof(
      fc.tuple(at, character).map(([index, other]) => capability.slice(0, index) + other + capability.slice(index + 1)),
      fc.tuple(at, character).map(([index, more]) => capability.slice(0, index) + more + capability.slice(index)),
      at.map((index) => capability.slice(0, index) + capability.slice(index + 1)),
      fc.tuple(at, at).map(([from, to]) => capability.slice(from, to)),
      // Parts in another order, repeated or left out.
      fc.array(fc.constantFrom(...capability.split('.')), { maxLength: 7 }).map((parts) => parts.join('.')),
      fc
        .tuple(fc.nat({ max: 4 }), fc.string())
        .map(([index, part]) => capability.split('.').with(index, part).join('.')),
      fc.string(),
      fc.constant(`${capability}\n`),
    );
    await fc.assert(
      fc.asyncProperty(mutated, fc.boolean(), async (text, isLate) => {
        fc.pre(text !== capability);
        const begun = clock.now;
        if (isLate) clock.now += 3_600_000;
        await expect(links.verify(text, FILE)).rejects.toMatchObject({
          code: 'LINK_NOT_VALID',
          message: 'this download link is not valid',
        });
        clock.now = begun;
      }),
      { numRuns: 2_000 },
    );
  });

  it('carries any subject there and back', async () => {
    const { links } = make();
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }), async (subject) => {
        const capability = capabilityOf(links.pathFor(FILE, subject));
        fc.pre(Buffer.from(subject).toString() === subject);
        expect(await links.verify(capability, FILE)).toBe(subject);
      }),
    );
  });
});

describe('the door for links', () => {
  const token = (name: string): KnownToken => ({
    name,
    digest: Buffer.alloc(32),
    roles: ['read'],
    addresses: undefined,
  });

  async function open(tokens: KnownToken[] = [token('ci')]) {
    const made = make();
    const authenticator = new Authenticator({ anonymous: 'none', tokens: async () => tokens });
    const running = await start(
      {
        openArchive: async () => readable(),
        describeArchive: async () => ({ size: CONTENT.length, sha256: SHA256, storedAt: undefined }),
        listPackages: async () => packages(['linux_amd64', ['zh:aa']]),
      },
      { authenticator, links: made.links },
    );
    return { ...made, ...running, path: `/${made.links.pathFor(FILE, 'token:ci')}` };
  }

  it('gives HEAD, GET and parts of the archive to whoever has the link', async () => {
    const { ask, path } = await open();
    expect((await ask(`HEAD ${path}`)).headers['content-length']).toBe(String(CONTENT.length));
    expect((await ask(`GET ${path}`)).body).toEqual(CONTENT);
    const part = await ask(`GET ${path}`, 'Range: bytes=5-9');
    expect(part.statusLine).toBe('HTTP/1.1 206 Partial Content');
    expect(part.body).toEqual(CONTENT.subarray(5, 10));
    expect((await ask(`POST ${path}`, 'Content-Length: 0')).statusLine).toContain(' 405 ');
  });

  it('takes other spellings of the same address', async () => {
    const { ask, path } = await open();
    const spelled = path.replace('registry.example.com', 'Registry.Example.COM%3A443');
    expect((await ask(`GET ${spelled}`)).body).toEqual(CONTENT);
  });

  it('asks nobody for anything on behalf of a link that is not good, and tells two reasons at most', async () => {
    const { ask, path, clock, mirror, log } = await open();
    const refused = [
      path.replace('linux_amd64', 'linux_arm64'),
      path.replace('registry.example.com', 'registry.example.com:8443'),
      path.replace(/\.[\w-]{43}\//, `.${'A'.repeat(43)}/`),
      path.replace('.first.', '.other.'),
      path.replace('/get/1.', '/get/2.'),
      path.replace(/get\/[^/]+/, 'get/x'),
    ];
    const bodies = new Set<string>();
    for (const other of refused) {
      const answer = await ask(`GET ${other}`);
      expect(answer.statusLine).toBe('HTTP/1.1 403 Forbidden');
      bodies.add(JSON.stringify({ ...answer.json(), requestId: '' }));
    }
    clock.now += 3_600_000;
    expect((await ask(`GET ${path}`)).json()['code']).toBe('LINK_EXPIRED');
    for (const other of refused) {
      bodies.add(JSON.stringify({ ...(await ask(`GET ${other}`)).json(), requestId: '' }));
    }
    expect(bodies.size).toBe(1);
    expect(mirror.asked).toEqual([]);
    // What makes a link good is in no log.
    expect(JSON.stringify(log.entries)).not.toContain(capabilityOf(path.slice(1)));
  });

  it('is in no log either when it was put together wrongly', async () => {
    const { ask, path, log } = await open();
    const wrong = [
      `/mirror${path}`,
      path.replace('/get/', '/get//'),
      path.replace('/get/', '/%67et/'),
      path.replace('/get/', '/get/get/').replaceAll('.', '%2E'),
      path.replace(/^\/get\/([^/]+)/, '/providers/$1%20'),
    ];
    for (const other of wrong) expect((await ask(`GET ${other}`)).statusLine).toMatch(/ 40[0134] /);
    const signature = capabilityOf(path.slice(1)).slice(-43);
    expect(log.entries.length).toBeGreaterThanOrEqual(wrong.length);
    expect(JSON.stringify(log.entries)).not.toContain(signature);
  });

  it('refuses the links of those who are gone or may not read any more', async () => {
    const tokens = [token('ci')];
    const { ask, path } = await open(tokens);
    expect((await ask(`GET ${path}`)).statusLine).toContain(' 200 ');
    tokens[0] = { ...token('ci'), roles: ['admin'] };
    expect((await ask(`GET ${path}`)).json()['code']).toBe('LINK_NOT_VALID');
    tokens[0] = token('other');
    expect((await ask(`GET ${path}`)).json()['code']).toBe('LINK_NOT_VALID');
  });

  it('is where lists of packages point to, from wherever they lie', async () => {
    const digest = createHash('sha256').update('token').digest();
    const { ask } = await open([{ ...token('ci'), digest }]);
    const listed = await ask(`GET ${WIDGET_PATH}/1.0.0.json`, 'Authorization: Bearer token');
    const { url } = (listed.json()['archives'] as Record<string, { url: string }>)['linux_amd64'] ?? { url: '' };
    expect(url).toMatch(/^(\.\.\/){4}get\//);
    const base = `https://proxy.example/some/prefix${WIDGET_PATH}/1.0.0.json`;
    const { pathname } = new URL(url, base);
    expect(pathname).toMatch(/^\/some\/prefix\/get\//);
    expect((await ask(`GET ${pathname.slice('/some/prefix'.length)}`)).body).toEqual(CONTENT);
    const again = await ask(`GET ${WIDGET_PATH}/1.0.0.json`, 'Authorization: Bearer token');
    expect(again.headers['etag']).toBe(listed.headers['etag']);
  });
});

test('each client is given links of its own, the same for a while and new ones in good time', async () => {
  const known = (name: string): KnownToken => {
    return { name, digest: createHash('sha256').update(name).digest(), roles: ['read'], addresses: undefined };
  };
  const authenticator = new Authenticator({ anonymous: 'none', tokens: async () => [known('one'), known('two')] });
  const { links, clock } = make({ lifetimeMs: 4 * MINUTE });
  const list = packages(['linux_amd64', []], ['linux_arm64', []]);
  const { ask } = await start({ listPackages: async () => list }, { authenticator, links });
  const listFor = async (name: string) =>
    (await ask(`GET ${WIDGET_PATH}/1.0.0.json`, `Authorization: Bearer ${name}`)).body.toString();

  const [one, two] = [await listFor('one'), await listFor('two')];
  expect(one).not.toBe(two);
  const capabilities = [...`${one}${two}`.matchAll(/get\/([^/]+)\/[^"]*_(linux_\w+)\.zip/g)];
  const subjects = capabilities.map(([, capability = '', platform = '']) =>
    links.verify(capability, archive(platform)),
  );
  expect(await Promise.all(subjects)).toEqual(['token:one', 'token:one', 'token:two', 'token:two']);

  expect(await listFor('one')).toBe(one);
  clock.now += MINUTE;
  const later = await listFor('one');
  expect(later).not.toBe(one);
  expect(await listFor('one')).toBe(later);
});

test('without a need for tokens there are no links and no door for them', async () => {
  const { ask } = await start({ listPackages: async () => packages(['linux_amd64', []]) });
  const listed = await ask(`GET ${WIDGET_PATH}/1.0.0.json`);
  expect(listed.body.toString()).toContain(`"url":"${FILE.filename}"`);
  expect((await ask('GET /get/x/registry.example.com/acme/widget/y.zip')).statusLine).toContain(' 404 ');
});
