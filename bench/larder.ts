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
export async function startBuiltLarder(upstream: UpstreamLocation): Promise<BuiltLarder> {
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
  const directory = dirname(setup.configFile);
  await writeFile(join(directory, 'upstream.pem'), upstream.ca);
  try {
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
      env: { HOME: directory, HTTPS_PROXY: upstream.proxy },
      outputFile: join(directory, 'larder.log'),
      isReady: (output) => /"listening".*"url":"([^"]+)"/.exec(output)?.[1],
    });
    return {
      url: ready,
      setup,
      server,
      stop: async () => {
        await server.stop();
        await setup.remove();
      },
    };
  } catch (error) {
    await setup.remove();
    throw error;
  }
}

/** `BENCH_NODE_ARGS="--cpu-prof --cpu-prof-dir=profiles"` shows where Larder's time goes. */
function profilerArguments(): string[] {
  return (process.env['BENCH_NODE_ARGS'] ?? '').split(' ').filter(Boolean);
}
