import { expect, it } from 'vitest';
import { doorsFor, OPS } from '../mirror/warm-scene.ts';
import { afterTest } from '../support/after-test.ts';
import { configuration, hostCliConfig, runClient } from '../support/client.ts';
import { HttpClient } from '../support/http.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { describeWith } from '../support/requirements.ts';

/** The client and Larder start several times. */
const PATIENCE = { timeout: 180_000 };
const access = { tokens: [{ name: 'ops', token: OPS, roles: ['admin'] }] };

const requiring = (type: string, version: string) =>
  `terraform {\n  required_providers {\n    ${type} = {\n      source  = "${REGISTRY}/acme/${type}"\n      version = "${version}"\n    }\n  }\n}\n`;

for (const program of ['terraform', 'tofu'] as const) {
  describeWith([program], `a sealed Larder, gaps and ${program}`, () => suite(program));
}

function suite(program: 'terraform' | 'tofu'): void {
  const init = (larder: Larder, files: Readonly<Record<string, string>>) =>
    configuration(files).then(async (made) => {
      const result = await runClient({
        program,
        args: ['init', '-no-color'],
        directory: made.directory,
        cliConfig: hostCliConfig(larder.url, REGISTRY),
        ca: larder.ca,
      });
      return { ...result, lockFile: await made.lockFile() };
    });

  it(
    'without gaps init passes when upstream is gone, and what is removed is named before init fails',
    PATIENCE,
    async () => {
      const internet = await Internet.start();
      const { registry } = internet;
      for (const [type, version] of [
        ['widget', '1.2.3'],
        ['gadget', '2.0.0'],
        ['gadget', '2.1.0'],
      ] as const) {
        await registry.addProvider({
          namespace: 'acme',
          type,
          version,
          platforms: ['linux_amd64', 'linux_arm64', 'darwin_arm64'],
        });
      }
      const archive = registry.addModuleArchive(
        '/net.tar.gz',
        moduleTarGz({ 'main.tf': requiring('gadget', '~> 2.0') }),
      );
      const location = archive.url.replace(registry.releases.url, 'https://releases.example.test');
      registry.addModule({ namespace: 'acme', name: 'net', system: 'aws', version: '1.0.0', location });
      const files = {
        'main.tf': `${requiring('widget', '~> 1.2')}\nmodule "net" {\n  source  = "${REGISTRY}/acme/net/aws"\n  version = "~> 1.0"\n}\n`,
      };
      const open = await startLarder({ config: internet.larderConfig({ access }), env: internet.env });
      const platform = `linux_${process.arch === 'arm64' ? 'arm64' : 'amd64'}`;
      const wish = { files: Object.entries(files).map(([path, text]) => ({ path, text })), platforms: [platform] };

      // Nobody has asked for anything yet.
      expect((await gaps(open, wish)).gaps).toMatchObject([
        { kind: 'provider', address: `${REGISTRY}/acme/widget` },
        { kind: 'module', address: `${REGISTRY}/acme/net/aws` },
      ]);
      const { warm, ended } = doorsFor(getFrom(open));
      const job = await ended(await warm(wish));
      expect(job.totals, JSON.stringify(job)).toMatchObject({ stored: 3, failed: 0, unsupported: 0 });
      expect(await gaps(open, wish)).toMatchObject({ gaps: [], present: { archives: 2, packages: 1 } });
      await open.close();
      await internet.stop();

      const config = internet.larderConfig({ access, sealed: true, data: open.setup.dataDirectory });
      const sealed = await startLarder({ config, env: internet.env });
      const first = await init(sealed, files);
      expect(first.code, first.output).toBe(0);
      expect(first.lockFile).toContain('2.1.0');
      const locked = { ...files, '.terraform.lock.hcl': first.lockFile as string };
      const lockedWish = { ...wish, files: Object.entries(locked).map(([path, text]) => ({ path, text })) };
      expect((await gaps(sealed, lockedWish)).gaps).toEqual([]);
      const again = await init(sealed, locked);
      expect(again.code, again.output).toBe(0);

      const removed = await getFrom(sealed)('/admin/purge', {
        method: 'POST',
        headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' },
        body: JSON.stringify({ address: `${REGISTRY}/acme/gadget`, version: '2.1.0', platform }),
      });
      expect(removed.status, removed.text()).toBe(200);
      expect((await gaps(sealed, lockedWish)).gaps).toMatchObject([
        { kind: 'archive', address: `${REGISTRY}/acme/gadget`, version: '2.1.0', platforms: [platform] },
      ]);
      const failed = await init(sealed, locked);
      expect(failed.code, failed.output).toBe(1);
      expect(failed.output).toContain('acme/gadget');
    },
  );
}

function getFrom(larder: Larder) {
  const client = new HttpClient({ ca: larder.ca });
  afterTest(() => client.close());
  return (path: string, options?: Parameters<HttpClient['get']>[1]) => client.get(`${larder.url}${path}`, options);
}

async function gaps(larder: Larder, wish: unknown) {
  const answer = await getFrom(larder)('/admin/gaps', {
    method: 'POST',
    headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' },
    body: JSON.stringify(wish),
  });
  expect(answer.status, answer.text()).toBe(200);
  return answer.json();
}
