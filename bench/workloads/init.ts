import { mirrorCliConfig, runClient, workspace } from '../../test/support/client.ts';
import { REGISTRY } from '../../test/support/internet.ts';
import { startBuiltLarder } from '../larder.ts';
import { WORKSPACE } from '../published.ts';
import { type Contender, compare, type Result } from '../rounds.ts';
import type { Upstream } from '../upstream.ts';

const WALL_TIME = { name: 'wall time', unit: 'ms', better: 'less' } as const;
const DIRECT_CLI_CONFIG = 'disable_checkpoint = true\nprovider_installation {\n  direct {}\n}\n';

/** The whole `terraform init` of a fresh workspace, through Larder against straight from the upstream. */
export async function init(upstream: Upstream, { rounds }: { rounds: number }): Promise<Result[]> {
  const direct: Contender = { name: 'direct', measure: () => timeInit(upstream, DIRECT_CLI_CONFIG, upstream.ca) };

  const cold = await compare(
    {
      workload: `cold init, ${WORKSPACE.length} providers of 10 MB`,
      metrics: [WALL_TIME],
      larder: {
        name: 'Larder',
        measure: async () => {
          const larder = await startBuiltLarder(upstream);
          try {
            return await timeInit(upstream, mirrorCliConfig(larder.url), larder.setup.ca);
          } finally {
            await larder.stop();
          }
        },
      },
      reference: direct,
    },
    rounds,
  );

  const larder = await startBuiltLarder(upstream);
  try {
    // The round that does not count fills it.
    const measure = () => timeInit(upstream, mirrorCliConfig(larder.url), larder.setup.ca);
    const warm = await compare(
      {
        workload: `warm init, ${WORKSPACE.length} providers of 10 MB`,
        metrics: [WALL_TIME],
        larder: { name: 'Larder', measure },
        reference: direct,
      },
      rounds,
    );
    return [...cold, ...warm];
  } finally {
    await larder.stop();
  }
}

async function timeInit(upstream: Upstream, cliConfig: string, ca: string) {
  const providers = WORKSPACE.map(({ namespace, type, version }) => {
    return [type, { source: `${REGISTRY}/${namespace}/${type}`, version }] as const;
  });
  const made = await workspace({ providers: Object.fromEntries(providers) });
  try {
    const { code, output, durationMs } = await runClient({
      args: ['init', '-no-color'],
      directory: made.directory,
      cliConfig,
      ca,
      env: { HTTPS_PROXY: upstream.proxy },
    });
    if (code !== 0) throw new Error(`terraform init failed:\n${output}`);
    return { [WALL_TIME.name]: durationMs };
  } finally {
    await made.remove();
  }
}
