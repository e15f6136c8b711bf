/**
 * `npm run demo`: a small signed registry, a Larder in front of it, and the real CLI, all on this machine.
 *
 * The registry has a public name that only an egress proxy knows the way to, as in a company: Larder goes out through the
 * proxy, the CLI knows nothing but Larder. It finds no git either: whatever is in git, Larder has to fetch.
 */
import { createApp } from '../src/app.ts';
import { loadConfig } from '../src/config.ts';
import { hostConfiguration } from '../src/http/cli-snippets.ts';
import { createLogger } from '../src/logger.ts';
import { configuration, runClient } from './support/client.ts';
import { GitHost } from './support/git-host.ts';
import { Internet, REGISTRY } from './support/internet.ts';
import { larderSetup } from './support/larder-setup.ts';
import { moduleTarGz } from './support/module-archive.ts';
import { requirement } from './support/requirements.ts';

const program = (['terraform', 'tofu'] as const).find((name) => requirement(name).present);
if (!program) {
  console.error('The demo runs the real CLI: put terraform or tofu on the PATH, then run it again.');
  process.exit(1);
}

const say = (text: string) => console.log(`\n— ${text}`);
const show = (text: string) => console.log(text.trimEnd().replace(/^/gm, '    '));
const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
const providerVersion = '1.4.0';
const moduleVersion = '2.1.0';

const internet = await Internet.start();
const { registry } = internet;
await registry.addProvider({
  namespace: 'acme',
  type: 'widget',
  version: providerVersion,
  platforms: ['linux_amd64', 'linux_arm64', 'darwin_arm64'],
  sizeBytes: 5_000_000,
});
const git = requirement('git').present ? await GitHost.start() : undefined;
registry.addModule({
  namespace: 'acme',
  name: 'network',
  system: 'aws',
  version: moduleVersion,
  location: await moduleLocation({ 'main.tf': 'output "it" { value = "a network" }\n' }),
});
say(
  `A registry called ${REGISTRY} starts. It has the signed provider acme/widget (three platforms of 5 MB) and the module\n` +
    `  acme/network/aws, which is ${git ? 'in a git repository' : 'in an archive, since there is no git on this machine'}.`,
);

say('Larder starts in front of it, with an empty data directory. All that the CLI is told:');
const setup = await larderSetup({ config: internet.larderConfig() });
const env = { ...internet.env, NO_PROXY: 'localhost', PATH: process.env['PATH'] };
const config = await loadConfig({ file: setup.configFile, env, cwd: setup.dataDirectory });
const logger = createLogger({ level: 'warn', format: 'text' });
const app = await createApp(config, { logger, version: 'demo' });
const { url } = await app.listen();
const upstreams = config.upstreams.hosts.map(({ hostname }) => hostname);
const cliConfig = hostConfiguration({ baseUrl: url, upstreams });
show(cliConfig);

async function moduleLocation(files: Readonly<Record<string, string>>): Promise<string> {
  const tag = `v${moduleVersion}`;
  if (!git) return registry.addModuleArchive(`/network-${tag}.tar.gz`, moduleTarGz(files)).url;
  await git.addRepository('acme/network.git', files, { tags: [tag] });
  return `git::${git.url}/acme/network.git?ref=${tag}`;
}

/** How much was asked upstream so far, by what was asked. */
function requests(): Record<string, number> {
  return {
    'the registry': registry.requests.all.length,
    'its file host': registry.releases.requests.all.length,
    ...(git && { 'the git host': git.requests.all.length }),
  };
}

const MAIN = `terraform {
  required_providers {
    widget = {
      source  = "${REGISTRY}/acme/widget"
      version = "${providerVersion}"
    }
  }
}
module "network" {
  source  = "${REGISTRY}/acme/network/aws"
  version = "${moduleVersion}"
}
`;

async function init(): Promise<void> {
  const before = requests();
  const project = await configuration({ 'main.tf': MAIN });
  try {
    const { code, output, durationMs } = await runClient({
      program: program ?? 'terraform',
      args: ['init', '-no-color'],
      directory: project.directory,
      cliConfig,
      ca: setup.ca,
      env: { PATH: '/nowhere' },
    });
    const isTelling = (line: string) => /^(Downloading|- Installed)|success/.test(line);
    show(code === 0 ? output.split('\n').filter(isTelling).join('\n') : output);
    const asked = Object.entries(requests())
      .map(([host, count]) => ({ host, count: count - (before[host] ?? 0) }))
      .filter(({ count }) => count > 0)
      .map(({ host, count }) => `${count} of ${host}`);
    const upstream = asked.length === 0 ? 'no requests upstream' : `requests upstream: ${asked.join(', ')}`;
    console.log(`  → exit code ${code} after ${seconds(durationMs)}; ${upstream}`);
    if (code !== 0) process.exitCode = 1;
  } finally {
    await project.remove();
  }
}

say(`${program} init, cold: Larder fetches, verifies and keeps what is asked for.`);
await init();
say(`${program} init in another directory, warm: both come from Larder's disk.`);
await init();
await internet.stop();
await git?.stop();
say(`The registry, its file host${git ? ', the git host' : ''} and the way out are stopped.`);
say(`${program} init in a third directory, with no upstream at all.`);
await init();

await app.close();
await setup.remove();
await git?.repositories.remove();
say(process.exitCode ? 'Something failed: see above.' : 'Done. Everything that was made for this is removed again.');
