import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { type ClientResult, configuration, hostCliConfig, mirrorCliConfig, runClient } from '../support/client.ts';
import { HttpClient } from '../support/http.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { startLarder } from '../support/larder.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { describeWith } from '../support/requirements.ts';
import { startS3 } from '../support/s3.ts';
import { serveDirectory } from '../support/static-site.ts';

const WIDGET = { namespace: 'acme', type: 'widget', version: '1.2.3', platforms: ['linux_amd64', 'darwin_arm64'] };
const HOME = `providers/${REGISTRY}/acme/widget`;
const ARCHIVE = `${HOME}/terraform-provider-widget_1.2.3_linux_amd64.zip`;

for (const program of ['terraform', 'tofu'] as const) {
  describeWith([program], `a bucket and ${program}`, () => {
    const configure = (text: string, cliConfig: string, ca: string) => async () => {
      const made = await configuration({ 'main.tf': text });
      return runClient({ program, args: ['init', '-no-color'], directory: made.directory, cliConfig, ca });
    };
    const provider = `terraform {\n  required_providers {\n    widget = { source = "${REGISTRY}/acme/widget" }\n  }\n}\n`;
    const module = `module "net" {\n  source  = "${REGISTRY}/acme/net/aws"\n  version = "1.0.0"\n}\n`;

    it('cold, warm, with upstream gone, and after the data directory was lost', async () => {
      const server = await startS3();
      const internet = await Internet.start();
      await internet.registry.addProvider(WIDGET);
      const { url } = internet.registry.addModuleArchive(
        '/net.tar.gz',
        moduleTarGz({ 'main.tf': 'output "it" { value = 1 }\n' }),
      );
      internet.registry.addModule({ namespace: 'acme', name: 'net', system: 'aws', version: '1.0.0', location: url });
      const config = internet.larderConfig({ s3: server.settings });
      const first = await startLarder({ config, env: { ...internet.env, NO_PROXY: 'localhost' } });
      const { ca, setup } = first;

      const install = async (larder: { url: string }) => {
        expectSuccess(await configure(provider, mirrorCliConfig(larder.url), ca)());
        expectSuccess(await configure(module, hostCliConfig(larder.url, REGISTRY), ca)());
      };
      await install(first);
      expect(server.has(ARCHIVE)).toBe(true);
      expect(server.has(`modules/${REGISTRY}/acme/net/aws/1.0.0.tar.gz`)).toBe(true);
      await install(first);
      expect(internet.registry.releases.requests.count('GET', /linux_amd64\.zip$/)).toBe(1);
      await internet.stop();
      await install(first);
      await first.close();

      await rm(setup.dataDirectory, { recursive: true });
      await mkdir(setup.dataDirectory);
      const second = await startLarder({ setup, env: internet.env });
      await install(second);
      expect(await readdir(join(setup.dataDirectory, 'partial'))).toEqual([]);
      expect(second.log.filter(({ level }) => level === 'error')).toEqual([]);
    });

    it('the bucket itself is a static network mirror', async () => {
      const server = await startS3();
      const internet = await Internet.start();
      await internet.registry.addProvider(WIDGET);
      const config = internet.larderConfig({ s3: { ...server.settings, prefix: 'mirrors/larder' } });
      const larder = await startLarder({ config, env: internet.env });
      expectSuccess(await configure(provider, mirrorCliConfig(larder.url), larder.ca)());
      // The package hash comes in behind it.
      await larder.close();
      await internet.stop();

      const directory = await mkdtemp(join(tmpdir(), 'larder-bucket-'));
      afterTest(() => rm(directory, { recursive: true, force: true }));
      for (const key of await server.keys('mirrors/larder/')) {
        await mkdir(dirname(join(directory, key)), { recursive: true });
        await writeFile(join(directory, key), await server.get(key));
      }
      const site = await serveDirectory(join(directory, 'mirrors/larder/providers'));
      afterTest(() => site.stop());
      const served = `provider_installation {\n  network_mirror {\n    url = "${site.url}/"\n  }\n}\n`;
      expectSuccess(await configure(provider, served, larder.ca)());
    });

    it('clients fetch what is stored from the bucket where they are sent there', async () => {
      const server = await startS3();
      const internet = await Internet.start();
      await internet.registry.addProvider(WIDGET);
      const { url } = internet.registry.addModuleArchive(
        '/net.tar.gz',
        moduleTarGz({ 'main.tf': 'output "it" { value = 1 }\n' }),
      );
      internet.registry.addModule({ namespace: 'acme', name: 'net', system: 'aws', version: '1.0.0', location: url });
      const config = internet.larderConfig({ s3: { ...server.settings, redirect: true } });
      const larder = await startLarder({ config, env: { ...internet.env, NO_PROXY: 'localhost' } });
      const { ca } = larder;
      const signed = (end: string) =>
        server.requests.filter(({ key, query }) => key.endsWith(end) && query.has('X-Amz-Signature')).length;

      // Cold: while it arrives, as ever.
      expectSuccess(await configure(provider, mirrorCliConfig(larder.url), ca)());
      const http = new HttpClient({ ca });
      afterTest(() => http.close());
      await expect.poll(async () => (await http.get(`${larder.url}/${ARCHIVE}`)).status).toBe(307);
      for (const cliConfig of [mirrorCliConfig(larder.url), hostCliConfig(larder.url, REGISTRY)]) {
        const before = signed('.zip');
        expectSuccess(await configure(provider, cliConfig, ca)());
        expect(signed('.zip')).toBeGreaterThan(before);
      }
      expectSuccess(await configure(module, hostCliConfig(larder.url, REGISTRY), ca)());
      expectSuccess(await configure(module, hostCliConfig(larder.url, REGISTRY), ca)());
      expect(signed('.tar.gz')).toBeGreaterThan(0);

      const head = await http.send(`${larder.url}/${ARCHIVE}`, { method: 'HEAD' });
      expect(head.status).toBe(200);
      expect(Number(head.headers['content-length'])).toBe((await server.get(ARCHIVE)).length);
      const sent = await http.get(`${larder.url}/${ARCHIVE}`);
      expect(sent.status).toBe(307);
      expect(sent.headers['cache-control']).toBe('no-store');
      const lines = JSON.stringify(larder.log);
      expect(lines).not.toContain('X-Amz-Signature');
    });
  });
}

/** When it did not, what the client said is the first thing one wants to know. */
function expectSuccess(result: ClientResult): void {
  expect(result.code, result.output).toBe(0);
}
