/**
 * `npm run demo`: a small signed registry, a Larder in front of it, and the real CLI, all on this machine.
 *
 * The registry has a public name that only an egress proxy knows the way to, as in a company: Larder goes out through the
 * proxy, the CLI knows nothing but Larder.
 */
import { createApp } from '../src/app.ts';
import { loadConfig } from '../src/config.ts';
import { hostConfiguration } from '../src/http/cli-snippets.ts';
import { createLogger } from '../src/logger.ts';
import { runClient, workspace } from './support/client.ts';
import { Internet, REGISTRY } from './support/internet.ts';
import { larderSetup } from './support/larder-setup.ts';
import { requirement } from './support/requirements.ts';

const program = (['terraform', 'tofu'] as const).find((name) => requirement(name).present);
if (!program) {
  console.error('The demo runs the real CLI: put terraform or tofu on the PATH, then run it again.');
  process.exit(1);
}

const say = (text: string) => console.log(`\n— ${text}`);
const show = (text: string) => console.log(text.trimEnd().replace(/^/gm, '    '));
const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
const version = '1.4.0';

say(`A registry called ${REGISTRY} starts, with a signed provider acme/widget (three platforms of 5 MB).`);
const internet = await Internet.start();
await internet.registry.addProvider({
  namespace: 'acme',
  type: 'widget',
  version,
  platforms: ['linux_amd64', 'linux_arm64', 'darwin_arm64'],
  sizeBytes: 5_000_000,
});

say('Larder starts in front of it, with an empty data directory.');
const setup = await larderSetup({ config: internet.larderConfig() });
const config = await loadConfig({ file: setup.configFile, env: internet.env, cwd: setup.dataDirectory });
const logger = createLogger({ level: 'warn', format: 'text' });
const app = await createApp(config, { logger, version: 'demo' });
const { url } = await app.listen();
const upstreams = config.upstreams.hosts.map(({ hostname }) => hostname);
const cliConfig = hostConfiguration({ baseUrl: url, upstreams });
show(cliConfig);

async function init(): Promise<void> {
  const before = {
    requests: internet.registry.requests.all.length,
    files: internet.registry.releases.requests.all.length,
  };
  const project = await workspace({ providers: { widget: { source: `${REGISTRY}/acme/widget`, version } } });
  try {
    const run = { args: ['init', '-no-color'], directory: project.directory, cliConfig, ca: setup.ca };
    const { code, output, durationMs } = await runClient({ ...run, program: program ?? 'terraform' });
    show(
      output
        .split('\n')
        .filter((line) => /installed|installing|error|success/i.test(line))
        .join('\n'),
    );
    const asked = internet.registry.requests.all.length - before.requests;
    const files = internet.registry.releases.requests.all.length - before.files;
    const upstream =
      asked + files === 0
        ? 'nothing was asked upstream'
        : `upstream: ${asked} requests at the registry, ${files} at its file host`;
    console.log(`  → exit code ${code} after ${seconds(durationMs)}; ${upstream}`);
    if (code !== 0) {
      show(output);
      process.exitCode = 1;
    }
  } finally {
    await project.remove();
  }
}

say(`${program} init, cold: Larder fetches, verifies and keeps what is asked for.`);
await init();
say(`${program} init in another directory, warm: the archive comes from Larder's disk.`);
await init();
await internet.stop();
say('The registry, its file host and the way out are stopped.');
say(`${program} init in a third directory, with no upstream at all.`);
await init();

await app.close();
await setup.remove();
say(process.exitCode ? 'Something failed: see above.' : 'Done. Everything that was made for this is removed again.');
