import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { type ClientResult, mirrorCliConfig, runClient, workspace } from '../support/client.ts';
import { HttpClient } from '../support/http.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { startLarder } from '../support/larder.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { describeWith } from '../support/requirements.ts';
import { serveDirectory } from '../support/static-site.ts';

const WIDGET = { namespace: 'acme', type: 'widget', version: '1.2.3', platforms: ['linux_amd64', 'darwin_arm64'] };

for (const program of ['terraform', 'tofu'] as const) {
  describeWith([program], `the data directory and ${program}`, () => {
    const init = async (options: { cliConfig: string; ca: string; source?: string }) => {
      const made = await workspace({ providers: { widget: { source: options.source ?? `${REGISTRY}/acme/widget` } } });
      const { cliConfig, ca } = options;
      return runClient({ program, args: ['init', '-no-color'], directory: made.directory, cliConfig, ca });
    };

    it('is a filesystem_mirror and a static network mirror of what is stored', async () => {
      const internet = await Internet.start();
      await internet.registry.addProvider(WIDGET);
      const larder = await startLarder({ config: internet.larderConfig(), env: internet.env });
      const { ca } = larder;
      expectSuccess(await init({ cliConfig: mirrorCliConfig(larder.url), ca }));
      await larder.close();
      await internet.stop();

      const directory = join(larder.setup.dataDirectory, 'providers');
      const onDisk = `provider_installation {\n  filesystem_mirror {\n    path = "${directory}"\n  }\n}\n`;
      expectSuccess(await init({ cliConfig: onDisk, ca }));

      const site = await serveDirectory(directory);
      afterTest(() => site.stop());
      const served = `provider_installation {\n  network_mirror {\n    url = "${site.url}/"\n  }\n}\n`;
      expectSuccess(await init({ cliConfig: served, ca }));
      expect(site.requests.count('GET', /\.zip$/)).toBe(1);
    });

    it('is a filesystem_mirror also for registries with a port and international names', async () => {
      const names = ['xn--bcher-kva.example.test'];
      const internet = await Internet.start(names);
      await internet.registry.addProvider(WIDGET);
      const { registry } = internet;
      const hosts = [...names, registry.hostname];
      const env = { ...internet.env, NO_PROXY: 'localhost' };
      const larder = await startLarder({ config: internet.larderConfig({}, hosts), env });
      const http = new HttpClient({ ca: larder.ca });
      afterTest(() => http.close());
      for (const host of hosts) {
        const archive = `${larder.url}/providers/${host}/acme/widget/terraform-provider-widget_1.2.3_linux_amd64.zip`;
        expect((await http.get(archive)).status).toBe(200);
      }
      await internet.stop();

      const directory = join(larder.setup.dataDirectory, 'providers');
      const cliConfig = `provider_installation {\n  filesystem_mirror {\n    path = "${directory}"\n  }\n}\n`;
      expectSuccess(await init({ cliConfig, ca: larder.ca, source: 'bücher.example.test/acme/widget' }));
      expectSuccess(await init({ cliConfig, ca: larder.ca, source: `${registry.hostname}/acme/widget` }));
    });

    it(`takes over what \`${program} providers mirror\` made, and serves it without any upstream`, async () => {
      const internet = await Internet.start();
      const published = await internet.registry.addProvider(WIDGET);
      const setup = await larderSetup({ config: internet.larderConfig() });
      const made = await workspace({ providers: { widget: { source: `${REGISTRY}/acme/widget` } } });
      const mirror = await mkdtemp(join(tmpdir(), 'larder-mirror-'));
      afterTest(() => rm(mirror, { recursive: true, force: true }));
      const mirrored = await runClient({
        program,
        args: ['providers', 'mirror', '-platform=linux_amd64', '-platform=darwin_arm64', mirror],
        directory: made.directory,
        cliConfig: 'provider_installation {\n  direct {}\n}\n',
        ca: setup.ca,
        env: internet.env,
      });
      expectSuccess(mirrored);
      await internet.stop();

      const providers = join(setup.dataDirectory, 'providers');
      await mkdir(providers, { recursive: true });
      await cp(mirror, providers, { recursive: true });
      const larder = await startLarder({ setup, env: internet.env });
      expectSuccess(await init({ cliConfig: mirrorCliConfig(larder.url), ca: larder.ca }));

      const http = new HttpClient({ ca: larder.ca });
      afterTest(() => http.close());
      const { archives } = (await http.get(`${larder.url}/providers/${REGISTRY}/acme/widget/1.2.3.json`)).json();
      for (const { platform, zh, h1 } of published.packages.values()) {
        expect(archives[platform].hashes).toEqual(expect.arrayContaining([zh, h1]));
      }
    });
  });
}

/** When it did not, what the client said is the first thing one wants to know. */
function expectSuccess(result: ClientResult): void {
  expect(result.code, result.output).toBe(0);
}
