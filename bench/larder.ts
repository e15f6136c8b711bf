import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { REGISTRY } from '../test/support/internet.ts';
import { type LarderSetup, larderSetup } from '../test/support/larder-setup.ts';
import { type ServerProcess, startServer } from './processes.ts';
import type { UpstreamLocation } from './upstream.ts';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));

/** A Larder as built, in a process of its own, with a data directory of its own. */
export interface BuiltLarder {
  readonly url: string;
  readonly setup: LarderSetup;
  readonly server: ServerProcess;
  /** Also removes its data. */
  stop(): Promise<void>;
}

/** Starts one that has nothing yet. Its log goes into a file at level info, as in production. */
export async function startBuiltLarder(
  upstream: UpstreamLocation,
  env: Readonly<Record<string, string>> = {},
): Promise<BuiltLarder> {
  const setup = await larderSetupFor(upstream);
  try {
    const { url, server } = await startOn(setup, upstream, env);
    const stop = async () => {
      await server.stop();
      await setup.remove();
    };
    return { url, setup, server, stop };
  } catch (error) {
    await setup.remove();
    throw error;
  }
}

/** Configuration and an empty data directory, to start a Larder on. */
export async function larderSetupFor(upstream: UpstreamLocation): Promise<LarderSetup> {
  const setup = await larderSetup({
    config: {
      upstreams: {
        default: REGISTRY,
        hosts: {
          'registry.opentofu.org': null,
          'registry.terraform.io': null,
          [REGISTRY]: { ca: 'upstream.pem', privateNetwork: true },
        },
      },
      log: { level: 'info', format: 'json' },
    },
  });
  await writeFile(join(dirname(setup.configFile), 'upstream.pem'), upstream.ca);
  return setup;
}

/** Starts one on what is there. It is the caller's to stop, and the setup the caller's to remove. */
export async function startOn(
  setup: LarderSetup,
  upstream: UpstreamLocation,
  env: Readonly<Record<string, string>> = {},
): Promise<Pick<BuiltLarder, 'url' | 'server'>> {
  const directory = dirname(setup.configFile);
  const outputFile = join(directory, 'larder.log');
  // What an earlier one said is not about this one.
  await writeFile(outputFile, '');
  const { server, ready } = await startServer({
    command: [
      process.execPath,
      '--max-semi-space-size=8',
      ...profilerArguments(),
      MAIN,
      'serve',
      '--config',
      setup.configFile,
    ],
    env: { HOME: directory, HTTPS_PROXY: upstream.proxy, ...env },
    outputFile,
    isReady: (output) => /"listening".*"url":"([^"]+)"/.exec(output)?.[1],
  });
  return { url: ready, server };
}

/** `BENCH_NODE_ARGS="--cpu-prof --cpu-prof-dir=profiles"` shows where Larder's time goes. */
function profilerArguments(): string[] {
  return (process.env['BENCH_NODE_ARGS'] ?? '').split(' ').filter(Boolean);
}
