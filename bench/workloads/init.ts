import { configuration, runClient } from '../../test/support/client.ts';
import { REGISTRY } from '../../test/support/internet.ts';
import { startBuiltLarder } from '../larder.ts';
import { WORKSPACE, WORKSPACE_MODULES } from '../published.ts';
import { type Contender, compare, type Result } from '../rounds.ts';
import type { Upstream } from '../upstream.ts';

const WALL_TIME = { name: 'wall time', unit: 'ms', better: 'less' } as const;
const WHAT = `${WORKSPACE.length} providers of 10 MB and ${WORKSPACE_MODULES.length} modules`;
const DIRECT_CLI_CONFIG = 'disable_checkpoint = true\nprovider_installation {\n  direct {}\n}\n';

/** The whole `terraform init` of a fresh workspace, through Larder against straight from the upstream. */
export async function init(upstream: Upstream, { rounds }: { rounds: number }): Promise<Result[]> {
  const direct: Contender = { name: 'direct', measure: () => timeInit(upstream, DIRECT_CLI_CONFIG, upstream.ca) };

  const cold = await compare(
    {
      workload: `cold init, ${WHAT}`,
      metrics: [WALL_TIME],
      larder: {
        name: 'Larder',
        measure: async () => {
          const larder = await startBuiltLarder(upstream);
          try {
            return await timeInit(upstream, cliConfigFor(larder.url), larder.setup.ca);
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
    const measure = () => timeInit(upstream, cliConfigFor(larder.url), larder.setup.ca);
    const warm = await compare(
      {
        workload: `warm init, ${WHAT}`,
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
  const made = await configuration({ 'main.tf': `${requirements()}${calls()}` });
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

/** Providers come through the mirror, modules through the registry. */
function cliConfigFor(url: string): string {
  return `disable_checkpoint = true
provider_installation {
  network_mirror {
    url = "${url}/providers/"
  }
}
host "${REGISTRY}" {
  services = {
    "modules.v1" = "${url}/registry/${REGISTRY}/v1/modules/"
  }
}
`;
}

function requirements(): string {
  const providers = WORKSPACE.map(
    ({ namespace, type, version }) =>
      `    ${type} = {\n      source = "${REGISTRY}/${namespace}/${type}"\n      version = "${version}"\n    }\n`,
  );
  return `terraform {\n  required_providers {\n${providers.join('')}  }\n}\n`;
}

function calls(): string {
  const modules = WORKSPACE_MODULES.map(
    ({ namespace, name, system, version }) =>
      `module "${name}" {\n  source = "${REGISTRY}/${namespace}/${name}/${system}"\n  version = "${version}"\n}\n`,
  );
  return modules.join('');
}
