import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { LockDocument } from '../../src/http/admin-lock.ts';
import { expectedPackageHash, handMadeZip } from '../store/hand-made-zip.ts';
import type { HttpAnswer } from '../support/http.ts';
import type { PublishedVersion } from '../support/published-provider.ts';
import { packageOf, type Scene, type SceneOptions, startScene, WIDGET } from './scene.ts';

const OPS = 'token-of-the-operators';
const NARROW = 'token-of-the-platform-team';
const TOKENS = [
  { name: 'ops', token: OPS, roles: ['admin'] },
  { name: 'narrow', token: NARROW, roles: ['admin'], addresses: ['other.example.com/*/*'] },
];
const PLATFORMS = ['linux_amd64', 'darwin_arm64', 'windows_amd64'];
const MANIFEST = 'ab'.repeat(32);
const OTHER_ZH = `zh:${'cd'.repeat(32)}`;
const OTHER_H1 = `h1:${createHash('sha256').update('other').digest('base64')}`;
const FUTURE = 'h2:of-a-scheme-to-come';

interface LockScene extends Scene {
  readonly published: PublishedVersion;
  readonly address: string;
  /** A lock file of these hashes. */
  lock(hashes: readonly string[], version?: string): string;
  ask(text: string | Buffer, query?: string, options?: { accept?: string; token?: string }): Promise<HttpAnswer>;
  /** As JSON, whatever fails. */
  complete(text: string, query?: string): Promise<LockDocument>;
}

async function begin(provider: Record<string, unknown> = {}, options: SceneOptions = {}): Promise<LockScene> {
  const scene = await startScene({
    providers: [],
    ...options,
    config: { access: { tokens: TOKENS }, ...options.config },
  });
  const published = await scene.registry.addProvider({
    ...WIDGET,
    platforms: PLATFORMS,
    extraShasumsLines: [`${MANIFEST}  terraform-provider-widget_1.0.0_manifest.json`],
    ...provider,
  });
  const address = `${scene.registry.hostname}/acme/widget`;
  const ask: LockScene['ask'] = (text, query = '', { accept = '*/*', token = OPS } = {}) =>
    scene.get(`/admin/lock${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, accept, 'content-type': 'text/plain' },
      body: text,
    });
  return {
    ...scene,
    published,
    address,
    ask,
    lock: (hashes, version = '1.0.0') => lockOf(address, hashes, version),
    complete: async (text, query = '?partial=true') => {
      const answer = await ask(text, query, { accept: 'application/json' });
      expect(answer.status, answer.text()).toBe(200);
      return answer.json() as LockDocument;
    },
  };
}

function lockOf(address: string, hashes: readonly string[], version = '1.0.0'): string {
  const list = hashes.map((hash) => `    "${hash}",\n`).join('');
  return `# This file is maintained automatically.\n\nprovider "${address}" {\n  version     = "${version}"\n  constraints = "~> 1.0" # ours\n  hashes = [\n${list}  ]\n}\n`;
}

function h1Of(published: PublishedVersion, platform: string): string {
  return packageOf(published, platform).h1 as string;
}

function zhOf(published: PublishedVersion): string[] {
  return [...[...published.packages.values()].map(({ zh }) => zh), `zh:${MANIFEST}`];
}

/** As the CLI sorts them. */
const sorted = (...hashes: string[]) => [...hashes].sort();

describe('a lock file that was made through a network mirror', () => {
  it('gets every zh: of SHA256SUMS and the h1: of what is stored; nothing else changes', async () => {
    const { lock, ask, archive, stored, published } = await begin();
    await archive();
    await stored();
    const h1 = h1Of(published, 'linux_amd64');
    const answer = await ask(lock([h1]));
    expect(answer.status, answer.text()).toBe(200);
    expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(answer.text()).toBe(lock(sorted(h1, ...zhOf(published))));
    expect((await ask(answer.text())).text()).toBe(answer.text());
  });

  it('gets the h1: of other platforms from the archives, which are fetched only when asked for', async () => {
    const { lock, complete, registry, published } = await begin();
    const h1 = h1Of(published, 'linux_amd64');
    const query = '?platform=linux_amd64&platform=darwin_arm64&partial=true';
    const without = await complete(lock([h1]), query);
    expect(without.text).toBe(lock(sorted(h1, ...zhOf(published))));
    expect(without.providers).toMatchObject([
      { outcome: 'completed', missing: [{ platform: 'linux_amd64' }, { platform: 'darwin_arm64' }], unsupported: [] },
    ]);
    expect(registry.releases.requests.count('GET', /\.zip$/)).toBe(0);

    const fetched = await complete(without.text, `${query}&fetch=true`);
    expect(fetched.providers).toMatchObject([{ outcome: 'completed', added: [h1Of(published, 'darwin_arm64')] }]);
    expect(fetched.providers[0]?.missing).toEqual([]);
    expect(fetched.text).toBe(lock(sorted(h1, h1Of(published, 'darwin_arm64'), ...zhOf(published))));
    expect(registry.releases.requests.count('GET', /\.zip$/)).toBe(2);
    // From now on it is known.
    expect((await complete(lock([h1]), query)).text).toBe(fetched.text);
  });

  it('gets h1: from what upstream says of all platforms, without any archive', async () => {
    const { lock, complete, registry, published } = await begin({ withPackages: true });
    const { text, providers } = await complete(lock([]), '?platform=darwin_arm64');
    expect(text).toBe(lock(sorted(h1Of(published, 'darwin_arm64'), ...zhOf(published))));
    expect(providers).toMatchObject([{ outcome: 'completed', missing: [] }]);
    expect(registry.releases.requests.count('GET', /\.zip$/)).toBe(0);
  });

  it('R02: gets the h1: of the files alone where the zip has entries for directories', async () => {
    const file = ['terraform-provider-widget_v1.0.0', 'binary'] as const;
    const zip = handMadeZip([{ name: 'docs/' }, { name: file[0], content: file[1] }]);
    const { lock, complete, version } = await begin({ zip: () => zip, platforms: ['linux_amd64'] });
    const { text } = await complete(lock([]), '?fetch=true');
    expect(text).toContain(expectedPackageHash([file]));
    expect(text).not.toContain(expectedPackageHash([['docs/', ''], file]));
    // The mirror itself offers the other form, which is the one that clients compare archives with.
    await expect
      .poll(async () => (await version('1.0.0')).text(), { timeout: 20_000 })
      .toContain(expectedPackageHash([['docs/', ''], file]));
  });

  it('keeps hashes of schemes that are not known, comments, line ends and a byte order mark', async () => {
    const { lock, ask, published } = await begin();
    const before = `\uFEFF${lock([FUTURE]).replaceAll('\n', '\r\n')}`;
    const after = (await ask(before, '?partial=true')).text();
    const expected = lock(sorted(FUTURE, ...zhOf(published))).replaceAll('\n', '\r\n');
    expect(after.replace(/^\uFEFF/, '')).toBe(expected);
    expect(
      Buffer.from((await ask(before, '?partial=true')).body)
        .subarray(0, 3)
        .toString('hex'),
    ).toBe('efbbbf');
  });

  it('names the platforms that the provider does not exist for', async () => {
    const { lock, complete } = await begin();
    for (const more of ['', '&fetch=true']) {
      const { providers } = await complete(lock([]), `?platform=plan9_386${more}`);
      expect(providers).toMatchObject([{ outcome: 'completed', unsupported: ['plan9_386'], missing: [] }]);
    }
  });
});

describe('hashes that were not verified do not go in', () => {
  it('of an unsigned release only those of archives that are here', async () => {
    const { lock, complete, archive, stored, published } = await begin({ sign: 'none', withPackages: true });
    const nothing = await complete(lock([]));
    expect(nothing.providers).toMatchObject([{ outcome: 'failed', reason: expect.stringMatching(/no key/) }]);
    expect(nothing.text).toBe(lock([]));
    await archive();
    await stored();
    const { text, providers } = await complete(lock([]), '?platform=linux_amd64&platform=darwin_arm64');
    expect(text).toBe(lock([h1Of(published, 'linux_amd64'), packageOf(published, 'linux_amd64').zh]));
    expect(providers).toMatchObject([
      { missing: [{ platform: 'darwin_arm64' }], reason: expect.stringMatching(/key/) },
    ]);
  });

  it('an archive whose bytes are not the promised ones fails the provider and leaves its block alone', async () => {
    const { lock, complete, registry } = await begin();
    registry.releases.on(/linux_amd64\.zip$/, async (call, next) => {
      const reply = await next(call);
      return { ...reply, body: [Buffer.alloc(reply.length ?? 0)] };
    });
    const { text, providers } = await complete(lock([]), '?fetch=true&partial=true');
    expect(providers).toMatchObject([{ outcome: 'failed', reason: expect.stringMatching(/SHA-256 should be/) }]);
    expect(text).toBe(lock([]));
  });
});

describe('a lock file that contradicts upstream', () => {
  it('is an error that names both hashes, for zh:', async () => {
    const { lock, ask, complete, published } = await begin();
    const own = packageOf(published, 'linux_amd64').zh;
    const answer = await ask(lock([OTHER_ZH]));
    expect(answer.status).toBe(422);
    expect(answer.json()).toMatchObject({ code: 'LOCK_INCOMPLETE', providers: [{ outcome: 'failed' }] });
    expect(answer.json().errors[0]).toContain(OTHER_ZH);
    expect(answer.json().errors[0]).toContain(own);
    expect((await complete(lock([OTHER_ZH]))).text).toBe(lock([OTHER_ZH]));
  });

  it('and for h1: once those of all platforms are known', async () => {
    const { lock, complete, published } = await begin({ platforms: ['linux_amd64', 'darwin_arm64'] });
    const h1 = h1Of(published, 'linux_amd64');
    // It may be that of darwin.
    const unknown = await complete(lock([OTHER_H1]), '?platform=linux_amd64&fetch=true');
    expect(unknown.providers).toMatchObject([{ outcome: 'completed' }]);
    expect(unknown.text).toContain(OTHER_H1);
    const query = '?platform=linux_amd64&platform=darwin_arm64&fetch=true&partial=true';
    const known = await complete(lock([OTHER_H1]), query);
    expect(known.providers).toMatchObject([{ outcome: 'failed', reason: expect.stringContaining(OTHER_H1) }]);
    expect(known.providers[0]?.reason).toContain(h1);
    expect((await complete(lock([h1]), query)).providers).toMatchObject([{ outcome: 'completed' }]);
  });
});

describe('what cannot be completed', () => {
  it('is told provider by provider, and the others are completed where that is wanted', async () => {
    const { lock, ask, complete, registry, published } = await begin();
    const strange = lockOf('not.mirrored.example/acme/widget', [OTHER_H1]);
    const absent = lockOf(`${registry.hostname}/acme/absent`, [OTHER_H1]);
    const unlisted = lockOf(`${registry.hostname}/acme/gadget`, [], '9.9.9').replace('"9.9.9"', '"nine"');
    const before = strange + lock([]) + absent + unlisted;
    const { text, providers, diagnostics } = await complete(before);
    expect(text).toBe(strange + lock(sorted(...zhOf(published))) + absent + unlisted);
    expect(providers.map(({ outcome }) => outcome)).toEqual(['failed', 'completed', 'failed']);
    expect(providers[0]?.reason).toMatch(/not among the registries/);
    expect(diagnostics).toMatchObject([{ severity: 'error', message: expect.stringContaining('nine') }]);
    const refused = await ask(before);
    expect(refused.status).toBe(422);
    expect(refused.json().errors).toHaveLength(3);
    expect(refused.json().text).toBeUndefined();
  });

  it('with upstream gone, what is stored still goes in; of what is not stored nothing is known', async () => {
    const { lock, complete, archive, stored, registry, published } = await begin();
    await archive();
    await stored();
    await registry.stop();
    const { text } = await complete(lock([]));
    expect(text).toBe(lock(sorted(h1Of(published, 'linux_amd64'), ...zhOf(published))));
    const other = await complete(lock([], '2.0.0'));
    expect(other.providers).toMatchObject([{ outcome: 'failed' }]);
  });
});

describe('the door for lock files', () => {
  it('takes UTF-8 only, and says what is wrong with a request', async () => {
    const { ask, lock } = await begin();
    const broken = await ask(Buffer.concat([Buffer.from(lock([])), Buffer.from([0xff])]));
    expect(broken.status).toBe(400);
    expect(broken.json().errors).toEqual(['the body is not UTF-8']);
    for (const query of ['?platform=linux', '?fetch=yes', '?file=x']) {
      expect((await ask(lock([]), query)).status, query).toBe(400);
    }
    expect((await ask('')).status).toBe(400);
    expect((await ask(Buffer.alloc(5 * 1024 * 1024, ' '))).status).toBe(413);
  });

  it('completes for those who may have the address, and for operators only', async () => {
    const { ask, lock } = await begin();
    const narrow = await ask(lock([]), '', { token: NARROW });
    expect(narrow.status).toBe(422);
    expect(narrow.json().errors[0]).toMatch(/not open to this token/);
    expect((await ask(lock([]), '', { token: 'nobody' })).status).toBe(401);
  });
});
