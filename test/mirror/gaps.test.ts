import { readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { moduleTarGz } from '../support/module-archive.ts';
import type { PublishedVersion } from '../support/published-provider.ts';
import { type ModuleScene, publishNet, withModules } from './module-scene.ts';
import { eventually, packageOf, startRegistry, startScene } from './scene.ts';

const TOKEN = 'token-of-the-operators';
const NARROW = 'token-of-the-platform-team';
const access = {
  tokens: [
    { name: 'ops', token: TOKEN, roles: ['admin'] },
    { name: 'narrow', token: NARROW, roles: ['admin'], addresses: ['other.example.com/*/*'] },
  ],
};

interface Asking {
  readonly platforms?: readonly string[];
  readonly token?: string;
  readonly client?: string;
}

/** Versions 1.0.0 to 1.2.0 of acme/widget and acme/net/aws, of which 1.1.0 and 1.0.0 are stored. */
async function begin(config: Record<string, unknown> = {}) {
  const registry = await startRegistry();
  const widgets = new Map<string, PublishedVersion>();
  for (const version of ['1.0.0', '1.1.0', '1.2.0']) {
    const platforms = ['linux_amd64', 'darwin_arm64'];
    widgets.set(version, await registry.addProvider({ namespace: 'acme', type: 'widget', version, platforms }));
    publishNet(registry, version);
  }
  const scene = withModules(await startScene({ registry, config: { access, ...config }, providers: [] }));
  return { ...scene, widgets, ask: (files: Record<string, unknown>, asking?: Asking) => ask(scene, files, asking) };
}

async function store(scene: ModuleScene, version: string, platform = 'linux_amd64', provider = 'acme/widget') {
  const answer = await scene.archive(version, platform, { provider });
  expect(answer.status, answer.text()).toBe(200);
  // Clients may have the last of it a little earlier.
  const head = async () => (await scene.archive(version, platform, { provider, method: 'HEAD' })).headers;
  await eventually(async () => (await head())['last-modified']).toBeDefined();
}

async function ask(
  scene: ModuleScene,
  files: Record<string, unknown>,
  { platforms, token = TOKEN, client }: Asking = {},
) {
  const answer = await scene.get('/admin/gaps', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      files: Object.entries(files).map(([path, content]) => ({
        path,
        text: typeof content === 'string' ? content : JSON.stringify(content),
      })),
      ...(platforms && { platforms }),
      ...(client && { client }),
    }),
  });
  expect(answer.status, answer.text()).toBe(200);
  return answer.json();
}

/** A configuration of one provider, on the host of the scene. */
function widget({ registry }: ModuleScene, version?: string, type = 'widget') {
  const source = `${registry.hostname}/acme/${type}`;
  return { terraform: { required_providers: { [type]: { source, ...(version && { version }) } } } };
}

const net = ({ registry }: ModuleScene, version?: string, name = 'net') => ({
  module: { m: { source: `${registry.hostname}/acme/${name}/aws`, ...(version && { version }) } },
});

const lock = ({ registry }: ModuleScene, version: string, hashes: readonly (string | undefined)[]) =>
  `provider "${registry.hostname}/acme/widget" {\n  version = "${version}"\n  hashes = ${JSON.stringify(hashes)}\n}\n`;

/** Past the server, long ago. */
async function alter(file: string): Promise<void> {
  const { size } = await stat(file);
  await writeFile(file, Buffer.alloc(size));
  await utimes(file, new Date('2024-01-01T00:00:00Z'), new Date('2024-01-01T00:00:00Z'));
}

describe('gaps', () => {
  it('are none when everything is stored, and a sealed Larder then gives all of it', async () => {
    const scene = await begin();
    await store(scene, '1.1.0');
    await store(scene, '1.1.0', 'darwin_arm64');
    expect((await scene.package('1.0.0')).status).toBe(200);
    const files = { 'main.tf.json': { ...widget(scene, '~> 1.0'), ...net(scene) } };
    const report = await scene.ask(files, { platforms: ['linux_amd64', 'darwin_arm64'] });
    expect(report).toEqual({
      gaps: [],
      diagnostics: [],
      client: 'opentofu',
      platforms: ['linux_amd64', 'darwin_arm64'],
      present: { archives: 2, packages: 1 },
    });

    await scene.larder.close();
    await scene.registry.stop();
    const config = { sealed: true, access, data: scene.larder.setup.dataDirectory };
    const sealed = withModules(await startScene({ registry: scene.registry, config, providers: [] }));
    expect((await sealed.index()).json().versions).toEqual({ '1.1.0': {} });
    for (const platform of ['linux_amd64', 'darwin_arm64']) {
      expect((await sealed.archive('1.1.0', platform)).status).toBe(200);
    }
    expect((await sealed.package('1.0.0')).status).toBe(200);
    expect(await ask(sealed, files)).toMatchObject({ gaps: [], present: { archives: 1, packages: 1 } });
  });

  it('are found without asking upstream anything', async () => {
    const scene = await begin();
    const { registry } = scene;
    await store(scene, '1.1.0');
    await scene.package('1.0.0');
    const before = registry.requests.all.length + registry.releases.requests.all.length;
    expect(before).toBeGreaterThan(0);
    const files = {
      'main.tf.json': { ...widget(scene), ...net(scene) },
      'list.txt': `${registry.hostname}/acme/unseen\n${registry.hostname}/acme/unseen/aws\n`,
    };
    const { gaps } = await scene.ask(files);
    expect(gaps.map(({ address }: { address: string }) => address)).toEqual([
      `${registry.hostname}/acme/unseen`,
      `${registry.hostname}/acme/unseen/aws`,
    ]);
    expect(registry.requests.all.length + registry.releases.requests.all.length).toBe(before);
  });

  it('are archives that are not stored for a platform, of the version that init picks', async () => {
    const scene = await begin();
    const address = `${scene.registry.hostname}/acme/widget`;
    await store(scene, '1.0.0', 'darwin_arm64');
    await store(scene, '1.1.0');
    const { gaps } = await scene.ask(
      { 'net/main.tf.json': widget(scene, '>= 1.0') },
      { platforms: ['linux_amd64', 'darwin_arm64'] },
    );
    // The older version is of no use: the clients take the newest that is listed, and do not fall back.
    expect(gaps).toEqual([
      {
        kind: 'archive',
        address,
        version: '1.1.0',
        constraint: '>= 1.0',
        platforms: ['darwin_arm64'],
        reason: 'it is not stored; of this version there are linux_amd64',
        stored: ['1.1.0', '1.0.0'],
        wantedBy: [{ file: 'net/main.tf.json', at: expect.stringMatching(/^1:/) }],
        warm: { providers: [`${address}@1.1.0`], platforms: ['darwin_arm64'] },
      },
    ]);
    const [gap] = gaps;
    expect((await scene.ask({ 'list.json': gap.warm })).platforms).toEqual(['darwin_arm64']);
  });

  it('are requirements that nothing stored satisfies', async () => {
    const scene = await begin();
    const { hostname } = scene.registry;
    await store(scene, '1.0.0');
    await scene.package('1.0.0');
    const { gaps } = await scene.ask({
      'main.tf.json': { ...widget(scene, '~> 1.1'), ...net(scene, '>= 1.1, < 2.0') },
      'other/main.tf.json': widget(scene, '1.2.0-rc.1'),
    });
    expect(gaps).toMatchObject([
      {
        kind: 'provider',
        address: `${hostname}/acme/widget`,
        constraint: '~> 1.1',
        platforms: ['linux_amd64'],
        reason: 'no version that is stored is ~> 1.1; stored: 1.0.0',
        stored: ['1.0.0'],
        warm: { providers: [`${hostname}/acme/widget@~> 1.1`], platforms: ['linux_amd64'] },
      },
      { kind: 'provider', constraint: '1.2.0-rc.1' },
      {
        kind: 'module',
        address: `${hostname}/acme/net/aws`,
        constraint: '>= 1.1, < 2.0',
        stored: ['1.0.0'],
        warm: { modules: [`${hostname}/acme/net/aws@>= 1.1, < 2.0`] },
      },
    ]);
  });

  it('are locked versions that are not stored, whatever else is', async () => {
    const scene = await begin();
    await store(scene, '1.1.0');
    const { gaps } = await scene.ask({
      'main.tf.json': widget(scene, '>= 1.0'),
      '.terraform.lock.hcl': lock(scene, '1.0.0', []),
    });
    expect(gaps).toMatchObject([{ kind: 'archive', version: '1.0.0', stored: ['1.1.0'] }]);
    expect(gaps[0].reason).toBe('it is not stored; other versions are: 1.1.0');
  });

  it('R58: are lock files whose hashes cannot be met by what is stored', async () => {
    const scene = await begin();
    const published = scene.widgets.get('1.1.0') as PublishedVersion;
    const [linux, darwin] = [packageOf(published), packageOf(published, 'darwin_arm64')];
    await store(scene, '1.1.0');
    await store(scene, '1.1.0', 'darwin_arm64');
    const platforms = ['linux_amd64', 'darwin_arm64'];
    const gapsOf = async (hashes: readonly (string | undefined)[]) =>
      (await scene.ask({ 'live/.terraform.lock.hcl': lock(scene, '1.1.0', hashes) }, { platforms })).gaps;

    expect(await gapsOf([darwin.h1])).toEqual([
      {
        kind: 'lock',
        address: `${scene.registry.hostname}/acme/widget`,
        version: '1.1.0',
        platforms: ['linux_amd64'],
        reason: 'live/.terraform.lock.hcl accepts no hash of the archive that is stored',
        stored: ['1.1.0'],
        lockFile: 'live/.terraform.lock.hcl',
        wantedBy: [{ file: 'live/.terraform.lock.hcl', at: '1:1' }],
      },
    ]);
    expect(await gapsOf([linux.zh])).toMatchObject([{ kind: 'lock', platforms: ['darwin_arm64'] }]);
    expect(await gapsOf([linux.h1, darwin.zh])).toEqual([]);
    expect(await gapsOf([])).toEqual([]);
  });

  it('are archives that were altered since they were listed, whatever is asked of them: they are not absent', async () => {
    const scene = await begin();
    const { hostname } = scene.registry;
    const home = path.join(scene.larder.setup.dataDirectory, 'providers', hostname, 'acme/widget');
    const file = path.join(home, 'terraform-provider-widget_1.1.0_linux_amd64.zip');
    const configured = { 'main.tf.json': widget(scene) };
    const { zh } = packageOf(scene.widgets.get('1.1.0') as PublishedVersion, 'linux_amd64');
    const locked = (hash: string | undefined) => ({ '.terraform.lock.hcl': lock(scene, '1.1.0', [hash]) });
    for (const files of [
      configured,
      locked(zh),
      locked(`h1:${Buffer.alloc(32).toString('base64')}`),
      // Two who ask for it.
      { ...configured, 'list.txt': `${hostname}/acme/widget@1.1.0\n` },
    ]) {
      await store(scene, '1.1.0');
      await alter(file);
      const { gaps, present } = await scene.ask(files, { platforms: ['linux_amd64'] });
      expect(gaps).toMatchObject([
        {
          kind: 'altered',
          address: `${hostname}/acme/widget`,
          version: '1.1.0',
          platforms: ['linux_amd64'],
          reason: 'what is stored of it was altered since it was stored, and is given to nobody',
          stored: ['1.1.0'],
          warm: { providers: [`${hostname}/acme/widget@1.1.0`], platforms: ['linux_amd64'] },
        },
      ]);
      expect(gaps).toHaveLength(1);
      expect(present.archives).toBe(0);
    }
  });

  it('are not archives of which only the time has changed', async () => {
    const scene = await begin();
    await store(scene, '1.1.0');
    const home = path.join(scene.larder.setup.dataDirectory, 'providers', scene.registry.hostname, 'acme/widget');
    const LONG_AGO = new Date('2024-01-01T00:00:00Z');
    await utimes(path.join(home, 'terraform-provider-widget_1.1.0_linux_amd64.zip'), LONG_AGO, LONG_AGO);
    expect(await scene.ask({ 'main.tf.json': widget(scene) })).toMatchObject({ gaps: [], present: { archives: 1 } });
  });

  it('of a lock file that contradicts SHA256SUMS are not to be mended by completing it', async () => {
    const scene = await begin();
    await store(scene, '1.1.0');
    const foreign = `zh:${'0'.repeat(64)}`;
    // SHA256SUMS is kept once the version was asked for.
    expect((await scene.version('1.1.0')).status).toBe(200);
    const { gaps } = await scene.ask({ '.terraform.lock.hcl': lock(scene, '1.1.0', [foreign]) });
    expect(gaps).toMatchObject([{ kind: 'contradicted', lockFile: '.terraform.lock.hcl' }]);
    expect(gaps[0].reason).toContain(`and has ${foreign}, which SHA256SUMS does not list`);
  });

  it('of platforms that a version does not exist for are not to be warmed', async () => {
    const scene = await begin();
    await store(scene, '1.1.0');
    const { gaps } = await scene.ask({ 'main.tf.json': widget(scene, '1.1.0') }, { platforms: ['windows_arm64'] });
    expect(gaps).toMatchObject([{ kind: 'unsupported', reason: 'SHA256SUMS of it lists nothing for windows_arm64' }]);
    expect(gaps[0]).not.toHaveProperty('warm');
  });

  it('of versions that are too new are not to be warmed before their time', async () => {
    const scene = await begin({ cooldown: { default: '7d' }, freshness: { versions: '1s' } });
    await store(scene, '1.1.0');
    await scene.registry.addProvider({ namespace: 'acme', type: 'widget', version: '1.3.0' });
    const listed = async () => {
      await scene.index();
      return scene.ask({ 'main.tf.json': widget(scene, '1.3.0') });
    };
    await eventually(async () => (await listed()).gaps[0]?.kind).toBe('young');
    const { gaps } = await listed();
    expect(gaps[0].reason).toMatch(/1\.3\.0 is too new for this mirror; it is there from \d{4}-\S+Z on \(cooldown\)$/);
    expect(gaps[0]).not.toHaveProperty('warm');
    const { gaps: others } = await scene.ask({ 'main.tf.json': widget(scene, '1.2.0') });
    expect(others).toMatchObject([{ warm: { providers: [expect.stringContaining('@1.2.0')] } }]);
  });

  it('are told with whose rules the files were read by, where that makes a difference', async () => {
    const scene = await begin();
    const implied = { terraform: { required_providers: { widget: { source: 'acme/widget' } } } };
    expect(await scene.ask({ 'main.tf.json': implied })).toMatchObject({
      client: 'opentofu',
      impliedHostname: 'registry.opentofu.org',
    });
    expect(await scene.ask({ 'main.tf.json': implied }, { client: 'terraform' })).toMatchObject({
      client: 'terraform',
      impliedHostname: 'registry.terraform.io',
    });
    expect(await scene.ask({ 'main.tf.json': widget(scene) })).not.toHaveProperty('impliedHostname');
  });

  it('of files that need nothing are none, and that is said', async () => {
    const scene = await begin();
    const header = { 'live/.terraform.lock.hcl': '# This file is maintained automatically by "tofu init".\n' };
    expect(await scene.ask(header)).toMatchObject({
      gaps: [],
      diagnostics: [
        { severity: 'warning', message: 'nothing in this file needs a provider or a module of a registry' },
      ],
    });
    const squeezed = { '.terraform.lock.hcl': `# Made by init.provider "${scene.registry.hostname}/acme/widget" {  }` };
    expect(await scene.ask(squeezed)).toMatchObject({
      gaps: [],
      diagnostics: [{ severity: 'error', message: expect.stringContaining('its line ends were lost') }],
    });
  });

  it('name the lock file that the version comes from, and who else asks for the provider', async () => {
    const scene = await begin();
    const files = { 'main.tf.json': widget(scene), '.terraform.lock.hcl': lock(scene, '1.2.0', []) };
    const { gaps } = await scene.ask(files);
    expect(gaps).toMatchObject([
      { version: '1.2.0', wantedBy: [{ file: '.terraform.lock.hcl' }, { file: 'main.tf.json' }] },
    ]);
  });

  it('R70: are what stored modules need in turn', async () => {
    const scene = await begin();
    const { registry } = scene;
    const inner = {
      ...widget(scene, '1.2.0'),
      module: { n: { source: `${registry.hostname}/acme/net/aws`, version: '1.2.0' } },
    };
    const files = {
      'main.tf': 'output "x" { value = 1 }\n',
      'modules/deep/main.tf.json': JSON.stringify(inner),
      'examples/main.tf.json': JSON.stringify(widget(scene, '9.9.9', 'example')),
    };
    const archive = registry.addModuleArchive('/outer.tar.gz', moduleTarGz(files));
    registry.addModule({ namespace: 'acme', name: 'outer', system: 'aws', version: '1.0.0', location: archive.url });
    expect((await scene.package('1.0.0', 'acme/outer/aws')).status).toBe(200);

    const call = { module: { m: { source: `${registry.hostname}/acme/outer/aws//modules/deep`, version: '~> 1.0' } } };
    const report = await scene.ask({ 'main.tf.json': call });
    expect(report.present).toEqual({ archives: 0, packages: 1 });
    expect(report.gaps).toMatchObject([
      {
        kind: 'provider',
        address: `${registry.hostname}/acme/widget`,
        constraint: '1.2.0',
        wantedBy: [{ file: `${registry.hostname}/acme/outer/aws@1.0.0/modules/deep/main.tf.json` }],
      },
      { kind: 'module', address: `${registry.hostname}/acme/net/aws`, constraint: '1.2.0' },
    ]);
  });

  it('are packages that were altered since they were listed: they are not absent', async () => {
    const scene = await begin();
    expect((await scene.package('1.0.0')).status).toBe(200);
    await alter(
      path.join(scene.larder.setup.dataDirectory, 'modules', scene.registry.hostname, 'acme/net/aws/1.0.0.tar.gz'),
    );
    const { gaps } = await scene.ask({ 'main.tf.json': net(scene) });
    const address = `${scene.registry.hostname}/acme/net/aws`;
    expect(gaps).toMatchObject([
      { kind: 'altered', address, version: '1.0.0', warm: { modules: [`${address}@1.0.0`] } },
    ]);
    expect(gaps[0].reason).toContain('was altered since it was stored');
  });

  it('are what is not mirrored here at all, stored or not', async () => {
    const scene = await begin();
    const { hostname } = scene.registry;
    await store(scene, '1.0.0');
    const { gaps } = await scene.ask({ 'list.txt': `closed.example.com/acme/widget\n${hostname}/acme/widget\n` });
    expect(gaps).toMatchObject([{ kind: 'refused', address: 'closed.example.com/acme/widget' }]);
    expect(gaps[0].reason).toContain('not among the registries mirrored here');

    const narrow = await scene.ask({ 'list.txt': `${hostname}/acme/widget\n` }, { token: NARROW });
    expect(narrow.gaps).toMatchObject([{ kind: 'refused', address: `${hostname}/acme/widget`, stored: [] }]);
  });

  it('come with what is wrong with the files, while the rest is looked at', async () => {
    const scene = await begin();
    const report = await scene.ask({ 'a.tf.json': '{"terraform":', 'b.tf.json': widget(scene), 'x/README.md': '# x' });
    expect(report.diagnostics).toMatchObject([
      { file: 'a.tf.json', severity: 'error' },
      { file: 'x/README.md', severity: 'note' },
    ]);
    expect(report.gaps).toMatchObject([{ kind: 'provider', reason: 'nothing of it is stored' }]);
  });

  it('take native syntax', async () => {
    const scene = await begin();
    const source = `${scene.registry.hostname}/acme/widget`;
    const text = `terraform {\n  required_providers {\n    widget = {\n      source  = "${source}"\n      version = "~> 1.0"\n    }\n  }\n}\n`;
    const { gaps } = await scene.ask({ 'main.tf': text });
    expect(gaps).toMatchObject([{ address: source, constraint: '~> 1.0', wantedBy: [{ file: 'main.tf' }] }]);
  });

  it('come with a warning when only clients with a host block would fail', async () => {
    const scene = await begin();
    await store(scene, '1.1.0');
    const list = { 'list.txt': `${scene.registry.hostname}/acme/widget\n` };
    expect(await scene.ask(list)).toMatchObject({ gaps: [], diagnostics: [] });
    const { dataDirectory } = scene.larder.setup;
    for (const name of await readdir(path.join(dataDirectory, 'providers'), { recursive: true })) {
      if (name.endsWith('_release.json')) await rm(path.join(dataDirectory, 'providers', name));
    }
    expect(await scene.ask(list)).toMatchObject({
      gaps: [],
      diagnostics: [{ file: 'list.txt', at: '1', severity: 'warning', message: expect.stringContaining('host block') }],
    });
  });

  it('of a provider whose registry decides who may have it are there, stored or not', async () => {
    const registry = await startRegistry();
    await registry.addProvider({ namespace: 'acme', type: 'widget', version: '1.0.0' });
    const hosts = { [registry.hostname]: { privateNetwork: true, credentials: { forward: true } } };
    const scene = withModules(await startScene({ registry, config: { access, upstreams: { hosts } }, providers: [] }));
    await store(scene, '1.0.0');
    const { gaps } = await ask(scene, { 'main.tf.json': widget(scene) });
    expect(gaps).toMatchObject([{ kind: 'refused' }]);
    expect(gaps[0].reason).toContain('itself decides');
  });
});

it.each([
  ['registry.opentofu.org', undefined, 'registry.opentofu.org'],
  ['registry.terraform.io', undefined, 'registry.terraform.io'],
  ['registry.terraform.io', 'opentofu', 'registry.opentofu.org'],
])('with %s as the default, for client %s, addresses without a host are of %s', async (byDefault, client, expected) => {
  const scene = await begin({
    upstreams: { default: byDefault, hosts: { 'registry.opentofu.org': {}, 'registry.terraform.io': {} } },
  });
  const { gaps } = await scene.ask({ 'list.txt': 'acme/widget\n' }, client === undefined ? {} : { client });
  expect(gaps).toMatchObject([{ kind: 'provider', address: `${expected}/acme/widget` }]);
});

it('POST /admin/gaps takes the role admin', async () => {
  const scene = await begin();
  const answer = await scene.get('/admin/gaps', { method: 'POST', body: '{}' });
  expect(answer.status).toBe(401);
  expect((await scene.get('/admin/gaps', { headers: { authorization: `Bearer ${TOKEN}` } })).status).toBe(405);
});
