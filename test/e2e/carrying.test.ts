import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { eventually, startClient } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { larderCommand } from '../support/built-program.ts';
import { type ClientResult, configuration, hostCliConfig, runClient } from '../support/client.ts';
import { runLarder } from '../support/command.ts';
import { startLarder } from '../support/larder.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { startNginx } from '../support/nginx.ts';
import { largeProviderZip } from '../support/provider-zip.ts';
import { describeWith } from '../support/requirements.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

const REGISTRY = 'registry.example.test';
const WIDGET = {
  namespace: 'acme',
  type: 'widget',
  version: '1.2.3',
  platforms: ['linux_amd64', 'darwin_arm64'],
} as const;
const NET = { namespace: 'Acme', name: 'net', system: 'aws' } as const;
const TOKEN = 'token-of-the-operators';
const CONFIG = {
  access: { tokens: [{ name: 'ops', token: TOKEN, roles: ['admin'] }] },
  log: { audit: 'data/audit.jsonl' },
};
/** Several processes are started one after the other. */
const PROCESSES = { timeout: 180_000 };

async function directory(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'larder-carried-'));
  afterTest(() => rm(made, { recursive: true, force: true }));
  return made;
}

/** A registry with a provider and a module, both spelled as people spell them, and a Larder that has them. */
async function begin({ further = [] as readonly string[] } = {}) {
  const registry = await UpstreamRegistry.start({ name: REGISTRY });
  afterTest(() => registry.stop());
  const published = await registry.addProvider(WIDGET);
  for (const version of further) await registry.addProvider({ ...WIDGET, version });
  const files = {
    'modules/vpc/main.tf': `output "it" { value = trimspace(file("\${path.module}/../../text")) }\n`,
    text: 'carried\n',
    'bin/tool.sh': { content: '#!/bin/sh\n', executable: true as const },
  };
  const { url } = registry.addModuleArchive('/net/1.0.0.tar.gz', moduleTarGz(files));
  registry.addModule({ ...NET, version: '1.0.0', location: `${url}//modules/vpc` });
  const larder = await startLarder({ registries: [registry], config: CONFIG });
  const http = startClient(larder);
  for (const platform of WIDGET.platforms) {
    const file = `terraform-provider-widget_1.2.3_${platform}.zip`;
    expect((await http.get(`${larder.url}/providers/${REGISTRY}/acme/widget/${file}`)).status).toBe(200);
  }
  const download = `/registry/${REGISTRY}/v1/modules/Acme/net/aws/1.0.0/download`;
  expect((await http.get(`${larder.url}${download}`)).status).toBe(204);
  const there = ['--server', larder.url, '--ca', larder.setup.caFile, '--token', TOKEN];
  return { registry, published, larder, http, there };
}

/** Directories too. */
function filesIn(from: string): Promise<string[]> {
  return readdir(from, { recursive: true });
}

/** The result must be a good one; when it is not, what was said is the first thing one wants to know. */
function good<T extends { readonly code: number | null; readonly stdout: string; readonly stderr: string }>(
  result: T,
): T {
  expect(result.code, result.stdout + result.stderr).toBe(0);
  return result;
}

function expectSuccess(result: ClientResult): void {
  expect(result.code, result.output).toBe(0);
}

function workspaceUsing(providers: boolean, module: boolean) {
  const required = `terraform {\n  required_providers {\n    widget = {\n      source = "${REGISTRY}/acme/widget"\n    }\n  }\n}\n`;
  const call = `module "net" {\n  source  = "${REGISTRY}/Acme/net/aws"\n  version = "1.0.0"\n}\noutput "it" { value = module.net.it }\n`;
  return configuration({ 'main.tf': (providers ? required : '') + (module ? call : '') });
}

for (const program of ['terraform', 'tofu'] as const) {
  describeWith([program, 'nginx'], `an export that nginx serves, and ${program}`, () => {
    it('gives providers as a network mirror, and modules and providers as a registry', PROCESSES, async () => {
      const { registry, larder, there } = await begin();
      const target = await directory();
      good(await runLarder(['export', target, ...there]));
      await larder.close();
      await registry.stop();

      const [httpConf, serverConf] = [join(target, 'nginx-http.conf'), join(target, 'nginx-server.conf')];
      const nginx = await startNginx({
        root: target,
        http: `  include ${httpConf};`,
        server: `    include ${serverConf};`,
      });
      const { ca } = nginx;
      const mirror = `provider_installation {\n  network_mirror {\n    url = "${nginx.url}/providers/"\n  }\n}\n`;
      const modules = `host "${REGISTRY}" {\n  services = {\n    "modules.v1" = "${nginx.url}/registry/${REGISTRY}/v1/modules/"\n  }\n}\n`;
      const both = await workspaceUsing(true, true);
      const run = (cliConfig: string, ...args: string[]) =>
        runClient({ program, args, directory: both.directory, cliConfig, ca, env: { PATH: '/nowhere' } });
      expectSuccess(await run(mirror + modules, 'init', '-no-color'));
      const applied = await runClient({
        program,
        args: ['apply', '-auto-approve', '-no-color'],
        directory: (await moduleOnly(program, nginx, modules)).directory,
        cliConfig: modules,
        ca,
      });
      expectSuccess(applied);
      expect(applied.output).toContain('it = "carried"');

      const asRegistry = await workspaceUsing(true, true);
      const installed = await runClient({
        program,
        args: ['init', '-no-color'],
        directory: asRegistry.directory,
        cliConfig: hostCliConfig(nginx.url, REGISTRY),
        ca,
        env: { PATH: '/nowhere' },
      });
      expectSuccess(installed);
      expect(installed.output).toMatch(/signed|self-signed|key ID/);
    });

    it('is a filesystem_mirror, and goes under a path of another server', PROCESSES, async () => {
      const { larder } = await begin();
      await larder.close();
      const parent = await directory();
      const target = join(parent, 'carried');
      good(await runLarder(['export', target, '--config', larder.setup.configFile]));
      const made = await workspaceUsing(true, false);
      const cliConfig = `provider_installation {\n  filesystem_mirror {\n    path = "${target}/providers"\n  }\n}\n`;
      const { ca } = larder;
      expectSuccess(
        await runClient({ program, args: ['init', '-no-color'], directory: made.directory, cliConfig, ca }),
      );

      const nginx = await startNginx({
        root: parent,
        http: `  include ${join(target, 'nginx-http.conf')};`,
        server: `    include ${join(target, 'nginx-server.conf')};`,
      });
      const below = await workspaceUsing(true, true);
      const installed = await runClient({
        program,
        args: ['init', '-no-color'],
        directory: below.directory,
        cliConfig: hostCliConfig(`${nginx.url}/carried`, REGISTRY),
        ca: nginx.ca,
        env: { PATH: '/nowhere' },
      });
      expectSuccess(installed);
    });
  });

  describeWith([program, 'nginx'], `an export of a registry with an international name, and ${program}`, () => {
    it('is a network mirror for those who ask in ASCII, and a filesystem_mirror', PROCESSES, async () => {
      const registry = await UpstreamRegistry.start({ name: 'xn--bcher-kva.example.test' });
      afterTest(() => registry.stop());
      await registry.addProvider(WIDGET);
      const larder = await startLarder({ registries: [registry], config: CONFIG });
      const file = 'terraform-provider-widget_1.2.3_linux_amd64.zip';
      const http = startClient(larder);
      const path = `/providers/${registry.hostname}/acme/widget/${file}`;
      expect((await http.get(`${larder.url}${path}`)).status).toBe(200);
      await larder.close();
      const target = await directory();
      good(await runLarder(['export', target, '--link', '--config', larder.setup.configFile]));
      const nginx = await startNginx({
        root: target,
        server: `    include ${join(target, 'nginx-server.conf')};`,
        http: `  include ${join(target, 'nginx-http.conf')};`,
      });
      for (const source of [
        `network_mirror {\n    url = "${nginx.url}/providers/"`,
        `filesystem_mirror {\n    path = "${target}/providers"`,
      ]) {
        const made = await configuration({
          'main.tf':
            'terraform {\n  required_providers {\n    widget = { source = "bücher.example.test/acme/widget" }\n  }\n}\n',
        });
        const cliConfig = `provider_installation {\n  ${source}\n  }\n}\n`;
        const args = ['init', '-no-color'];
        expectSuccess(await runClient({ program, args, directory: made.directory, cliConfig, ca: nginx.ca }));
      }
    });
  });

  describeWith([program], `what ${program} providers mirror wrote`, () => {
    it('is imported beside a running server, and served with the hashes of the origin', PROCESSES, async () => {
      const registry = await UpstreamRegistry.start({ name: REGISTRY });
      afterTest(() => registry.stop());
      const published = await registry.addProvider(WIDGET);
      const setup = await larderSetup({ registries: [registry], config: CONFIG });
      const made = await workspaceUsing(true, false);
      const mirror = await directory();
      expectSuccess(
        await runClient({
          program,
          args: ['providers', 'mirror', '-platform=linux_amd64', '-platform=darwin_arm64', mirror],
          directory: made.directory,
          // The client's own registry goes by a name of this process alone: it is told the way.
          cliConfig: `provider_installation {\n  direct {}\n}\nhost "${REGISTRY}" {\n  services = {\n    "providers.v1" = "https://localhost:${registry.port}/v1/providers/"\n  }\n}\n`,
          ca: setup.ca,
        }),
      );
      await registry.stop();
      const larder = await startLarder({ setup });
      const http = startClient(larder);
      const versionJson = `${larder.url}/providers/${REGISTRY}/acme/widget/1.2.3.json`;

      const imported = good(await runLarder(['import', mirror, '--json', '--config', setup.configFile]));
      expect(imported.lines()).toHaveLength(2);
      expect(imported.lines()).toMatchObject([
        { kind: 'archive', address: `${REGISTRY}/acme/widget`, platform: 'darwin_arm64', outcome: 'imported' },
        { kind: 'archive', platform: 'linux_amd64', outcome: 'imported' },
      ]);
      const { archives } = (await http.get(versionJson)).json();
      for (const { platform, zh, h1 } of published.packages.values()) {
        expect(archives[platform].hashes).toEqual(expect.arrayContaining([zh, h1]));
      }
      const again = good(await runLarder(['import', mirror, '--json', '--config', setup.configFile]));
      expect(again.lines().map(({ outcome }) => outcome)).toEqual(['present', 'present']);

      const after = await workspaceUsing(true, false);
      const cliConfig = `provider_installation {\n  network_mirror {\n    url = "${larder.url}/providers/"\n  }\n}\n`;
      expectSuccess(
        await runClient({ program, args: ['init', '-no-color'], directory: after.directory, cliConfig, ca: larder.ca }),
      );
    });
  });
}

async function moduleOnly(program: 'terraform' | 'tofu', { ca }: { ca: string }, cliConfig: string) {
  const made = await workspaceUsing(false, true);
  expectSuccess(await runClient({ program, args: ['init', '-no-color'], directory: made.directory, cliConfig, ca }));
  return made;
}

describe('larder export and larder import', () => {
  it('carry everything to another Larder, which serves the same bytes and remembers the same', PROCESSES, async () => {
    const { registry, published, larder, there } = await begin();
    const target = await directory();
    const first = good(await runLarder(['export', target, '--json', ...there]));
    expect(first.lines().map(({ outcome }) => outcome)).toEqual(['copied', 'copied', 'copied']);
    const again = good(await runLarder(['export', target, '--json', '--config', larder.setup.configFile]));
    expect(again.lines().map(({ outcome }) => outcome)).toEqual(['unchanged', 'unchanged', 'unchanged']);
    // Out of the server and out of its directory comes the same.
    const other = await directory();
    good(await runLarder(['export', other, '--config', larder.setup.configFile]));
    expect((await filesIn(target)).sort()).toEqual((await filesIn(other)).sort());
    expect((await filesIn(target)).filter((name) => !name.includes('/')).sort()).toEqual([
      'larder-export.json',
      'modules',
      'nginx-http.conf',
      'nginx-server.conf',
      'providers',
      'registry',
    ]);
    for (const name of ['larder-export.json', `modules/${REGISTRY}/acme/net/aws/1.0.0.json`]) {
      expect(await readFile(join(target, name), 'utf8'), name).toBe(await readFile(join(other, name), 'utf8'));
    }
    await larder.close();
    await registry.stop();

    const inside = await startLarder({ registries: [registry], config: CONFIG });
    const into = ['--server', inside.url, '--ca', inside.setup.caFile, '--token', TOKEN];
    const list = createHash('sha256')
      .update(await readFile(join(target, 'larder-export.json')))
      .digest('hex');
    const imported = good(await runLarder(['import', target, '--json', '--sha256', list, ...into]));
    expect(imported.lines().map(({ kind, outcome }) => `${kind} ${outcome}`)).toEqual([
      'archive imported',
      'archive imported',
      'checksums imported',
      'module imported',
    ]);
    const http = startClient(inside);
    // Their packages' hashes are computed once they are in.
    const hashes = async () =>
      (await http.get(`${inside.url}/providers/${REGISTRY}/acme/widget/1.2.3.json`)).json().archives;
    const ofOrigin = [...published.packages.values()].map(({ platform, zh, h1 }) => [
      platform,
      expect.objectContaining({ hashes: expect.arrayContaining([zh, h1]) }),
    ]);
    await eventually(hashes).toMatchObject(Object.fromEntries(ofOrigin));
    const before = await readFile(join(larder.setup.dataDirectory, `modules/${REGISTRY}/acme/net/aws/1.0.0.tar.gz`));
    const after = await readFile(join(inside.setup.dataDirectory, `modules/${REGISTRY}/acme/net/aws/1.0.0.tar.gz`));
    expect(after.equals(before)).toBe(true);
    const download = await http.get(`${inside.url}/registry/${REGISTRY}/v1/modules/Acme/net/aws/1.0.0/download`);
    expect(download.status).toBe(204);
    expect(download.headers['x-terraform-get']).toContain('//modules/vpc?checksum=sha256:');
    // The registry door verifies: SHA256SUMS, signature and keys came along.
    const document = await http.get(
      `${inside.url}/registry/${REGISTRY}/v1/providers/acme/widget/1.2.3/download/linux/amd64`,
    );
    expect(document.json().signing_keys.gpg_public_keys).toHaveLength(1);
    const audit = await readFile(join(inside.setup.dataDirectory, 'audit.jsonl'), 'utf8');
    expect(audit.match(/"event":"uploaded"/g) ?? audit.match(/uploaded/g)).not.toBeNull();

    const once = good(await runLarder(['import', target, '--json', ...into]));
    expect(new Set(once.lines().map(({ outcome }) => outcome))).toEqual(new Set(['present']));
  });

  it('refuse what was tampered with on its way, and take the rest', PROCESSES, async () => {
    const { larder, there, registry } = await begin();
    const target = await directory();
    good(await runLarder(['export', target, ...there]));
    const home = join(target, 'providers', REGISTRY, 'acme/widget');
    await flipByte(join(home, 'terraform-provider-widget_1.2.3_linux_amd64.zip'));
    await flipByte(join(target, 'modules', REGISTRY, 'acme/net/aws/1.0.0.tar.gz'));
    await larder.close();

    const inside = await larderSetup({ registries: [registry], config: CONFIG });
    const partly = await runLarder(['import', target, '--json', '--config', inside.configFile]);
    expect(partly.code, partly.stderr).toBe(1);
    expect(partly.lines()).toMatchObject([
      { platform: 'darwin_arm64', outcome: 'imported' },
      {
        platform: 'linux_amd64',
        outcome: 'refused',
        why: 'digest',
        reason: expect.stringContaining('SHA256SUMS says'),
      },
      { kind: 'checksums', outcome: 'imported' },
      { kind: 'module', outcome: 'refused', why: 'digest' },
    ]);

    const forged = await larderSetup({ registries: [registry], config: CONFIG });
    const sums = join(home, 'terraform-provider-widget_1.2.3_SHA256SUMS');
    await writeFile(sums, `${await readFile(sums, 'utf8')}${'0'.repeat(64)}  another.zip\n`);
    const refused = await runLarder(['import', target, '--json', '--config', forged.configFile]);
    expect(refused.lines().filter(({ why }) => why === 'signature')).toHaveLength(3);
    await expect(stat(join(forged.dataDirectory, 'providers', REGISTRY))).rejects.toThrow('ENOENT');
  });

  it('carry only what a lock file and a configuration need, and name what is missing', PROCESSES, async () => {
    const { larder, http, there } = await begin({ further: ['2.0.0'] });
    const file = 'terraform-provider-widget_2.0.0_linux_amd64.zip';
    expect((await http.get(`${larder.url}/providers/${REGISTRY}/acme/widget/${file}`)).status).toBe(200);
    const { directory: configured } = await workspaceUsing(true, true);
    await writeFile(
      join(configured, '.terraform.lock.hcl'),
      `provider "${REGISTRY}/acme/widget" {\n  version = "1.2.3"\n  hashes = []\n}\n` +
        `provider "${REGISTRY}/acme/gadget" {\n  version = "1.0.0"\n  hashes = []\n}\n`,
    );
    const target = await directory();
    const platform = ['--platform', 'linux_amd64', '--platform', 'windows_amd64'];
    const partly = await runLarder(['export', target, configured, ...platform, '--json', ...there]);
    expect(partly.code, partly.stderr).toBe(1);
    const lines = partly.lines();
    expect(lines.filter(({ kind }) => kind === 'archive')).toMatchObject([
      { version: '1.2.3', platform: 'linux_amd64', outcome: 'copied' },
    ]);
    expect(lines.filter(({ kind }) => kind === 'module')).toMatchObject([{ version: '1.0.0', outcome: 'copied' }]);
    expect(lines.flatMap(({ kind, what }) => (kind === 'missing' ? [what] : [])).sort()).toEqual([
      `${REGISTRY}/acme/gadget 1.0.0`,
      `${REGISTRY}/acme/widget 1.2.3 windows_amd64`,
    ]);

    await writeFile(
      join(configured, '.terraform.lock.hcl'),
      `provider "${REGISTRY}/acme/widget" {\n  version = "1.2.3"\n  hashes = []\n}\n`,
    );
    const whole = good(await runLarder(['export', await directory(), configured, '--json', ...there]));
    const carried = whole.lines().filter(({ kind }) => kind !== 'read');
    expect(carried.map(({ version, platform }) => `${version} ${platform ?? ''}`).sort()).toEqual([
      '1.0.0 ',
      '1.2.3 darwin_arm64',
      '1.2.3 linux_amd64',
    ]);
  });

  it('go on after they were killed in the middle, without beginning again', PROCESSES, async () => {
    const setup = await larderSetup({ config: CONFIG });
    const home = join(setup.dataDirectory, 'providers', REGISTRY, 'acme/large');
    await mkdir(home, { recursive: true });
    const archives: Record<string, unknown> = {};
    for (const platform of ['aix_ppc64', 'linux_amd64']) {
      const name = `terraform-provider-large_1.0.0_${platform}.zip`;
      const { bytes, sha256 } = await largeProviderZip({ type: 'large', version: '1.0.0', platform, sizeBytes: LARGE });
      const handle = await open(join(home, name), 'w');
      for (const chunk of bytes.read(0, bytes.size)) await handle.writeFile(chunk);
      await handle.close();
      archives[platform] = { url: name, size: LARGE, hashes: [`h1:${'A'.repeat(43)}=`, `zh:${sha256}`] };
    }
    await writeFile(join(home, '1.0.0.json'), JSON.stringify({ archives }));
    await writeFile(join(home, 'index.json'), JSON.stringify({ versions: { '1.0.0': {} } }));

    const target = await directory();
    const { child, ended } = await startCommand(['export', target, '--config', setup.configFile]);
    const carried = join(target, 'providers', REGISTRY, 'acme/large');
    const first = 'terraform-provider-large_1.0.0_aix_ppc64.zip';
    await eventually(() => stat(join(carried, first)).then(({ size }) => size)).toBe(LARGE);
    child.kill('SIGKILL');
    await ended;
    const before = await stat(join(carried, first));
    await expect(stat(join(target, 'larder-export.json'))).rejects.toThrow('ENOENT');

    const again = good(await runLarder(['export', target, '--json', '--config', setup.configFile]));
    expect(again.lines()).toMatchObject([
      { platform: 'aix_ppc64', outcome: 'unchanged' },
      { platform: 'linux_amd64', outcome: expect.stringMatching(/^(copied|unchanged)$/) },
    ]);
    expect((await stat(join(carried, first))).ino).toBe(before.ino);
    await expect(stat(join(target, 'partial'))).rejects.toThrow('ENOENT');

    const inside = await larderSetup({ config: CONFIG });
    const killed = await startCommand(['import', target, '--trust', '--config', inside.configFile]);
    const imported = join(inside.dataDirectory, 'providers', REGISTRY, 'acme/large');
    await eventually(() => stat(join(imported, first)).then(({ size }) => size)).toBe(LARGE);
    killed.child.kill('SIGKILL');
    await killed.ended;
    const rest = good(await runLarder(['import', target, '--json', '--config', inside.configFile]));
    const outcomes = rest.lines().map(({ outcome }) => outcome);
    // The first may have been killed between the archive and what is written down of it.
    expect(outcomes).toEqual([expect.stringMatching(/^(imported|present)$/), 'imported']);
    for (const name of Object.keys(archives).map((one) => `terraform-provider-large_1.0.0_${one}.zip`)) {
      expect((await stat(join(imported, name))).size).toBe(LARGE);
    }
    expect(await readdir(join(inside.dataDirectory, 'partial'))).toEqual([]);
  });
});

/** Bytes: long enough to be killed over. */
const LARGE = 64 * 1024 * 1024;

/** Starts a command, to be killed. */
async function startCommand(args: readonly string[]) {
  const child = spawn(process.execPath, await larderCommand(...args), {
    env: { PATH: process.env['PATH'] ?? '', HOME: tmpdir() },
    stdio: 'ignore',
  });
  const ended = once(child, 'close');
  afterTest(async () => void child.kill('SIGKILL'));
  return { child, ended };
}

async function flipByte(file: string): Promise<void> {
  const bytes = await readFile(file);
  const at = Math.floor(bytes.length / 2);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  await writeFile(file, bytes);
}
