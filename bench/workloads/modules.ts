import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Packing } from '../packing.ts';
import { runPinned } from '../processes.ts';
import {
  LARGE_MODULE,
  MODULES,
  modulePackagePath,
  moduleVersionsPath,
  RELEASED_MODULE,
  SMALL_MODULE,
  storedModulePath,
} from '../published.ts';
import { compare, type Result } from '../rounds.ts';
import type { Upstream } from '../upstream.ts';
import { REQUEST_COST, REQUESTS, underLoad } from '../warm-load.ts';
import { fetchAll, startFilledPair, type WarmPair } from '../warm-pair.ts';

const JSON_CONNECTIONS = 32;
const PACKAGE_CONNECTIONS = [1, 8];
/** 20 MB of them. */
const PACKED_FILES = 2_000;

const WALL_TIME = { name: 'wall time', unit: 'ms', better: 'less' } as const;
const CPU_TIME = { name: 'CPU time', unit: 'ms', better: 'less' } as const;
const SIZE = { name: 'size of the package', unit: 'MB', better: 'less' } as const;

interface Settings {
  readonly rounds: number;
  readonly seconds: number;
}

/** Module packages and lists that are stored already, against a static file server; and making a package. */
export async function modules(upstream: Upstream, settings: Settings): Promise<Result[]> {
  return [...(await warmModules(upstream, settings)), ...(await packing(settings))];
}

async function warmModules(upstream: Upstream, { rounds, seconds }: Settings): Promise<Result[]> {
  const pair = await startFilledPair(upstream, (larder) => fetchAll(larder, MODULES.map(modulePackagePath)));
  const results: Result[] = [];
  try {
    const compared = async (what: string, paths: { larder: string; nginx: string }, connections: number) => {
      const comparison = {
        workload: `warm ${what}, ${connections} ${connections === 1 ? 'client' : 'clients'}`,
        metrics: [REQUESTS, REQUEST_COST],
        ...underLoad(pair, paths, { connections, seconds }),
      };
      results.push(...(await compare(comparison, rounds)));
    };
    for (const module of [SMALL_MODULE, LARGE_MODULE]) {
      const paths = { larder: modulePackagePath(module), nginx: storedModulePath(module) };
      const { size } = await stat(join(pair.larder.setup.dataDirectory, paths.nginx));
      const title = `module package of ${Math.round(size / 1000)} kB`;
      for (const connections of PACKAGE_CONNECTIONS) await compared(title, paths, connections);
    }
    const { paths, bytes } = await versionsFor(pair);
    await compared(`module versions, ${RELEASED_MODULE.length} versions (${bytes} bytes)`, paths, JSON_CONNECTIONS);
    return results;
  } finally {
    await pair.stop();
  }
}

/** Larder has no such document on disk: nginx is given a copy of what Larder answers. */
async function versionsFor({ larder }: WarmPair) {
  const [module = SMALL_MODULE] = RELEASED_MODULE;
  const paths = { larder: moduleVersionsPath(module), nginx: '/versions.json' };
  const options = ['--silent', '--show-error', '--fail', '--cacert', larder.setup.caFile, '--noproxy', '*'];
  const document = await runPinned('curl', [...options, larder.url + paths.larder]);
  await writeFile(join(larder.setup.dataDirectory, paths.nginx), document);
  return { paths, bytes: Buffer.byteLength(document) };
}

async function packing({ rounds }: Settings): Promise<Result[]> {
  const packing = await Packing.prepare(PACKED_FILES);
  const of = `${PACKED_FILES} files, ${Math.round(packing.bytes / 1e6)} MB`;
  const measured = ({ wallMs, cpuMs, size }: { wallMs: number; cpuMs: number; size: number }) => ({
    [WALL_TIME.name]: wallMs,
    [CPU_TIME.name]: cpuMs,
    [SIZE.name]: size / 1e6,
  });
  try {
    const whole = await compare(
      {
        workload: `from a commit to its package, ${of}`,
        metrics: [WALL_TIME, CPU_TIME, SIZE],
        larder: { name: 'Larder', measure: async () => measured(await packing.withLarder()) },
        reference: { name: 'git archive, gzip', measure: async () => measured(await packing.withGitArchive()) },
      },
      rounds,
    );
    const alone = await compare(
      {
        workload: `packing alone, ${of}`,
        metrics: [WALL_TIME, CPU_TIME],
        larder: {
          name: 'Larder',
          measure: async () => {
            const { packMs, packCpuMs, size } = await packing.withLarder();
            return measured({ wallMs: packMs, cpuMs: packCpuMs, size });
          },
        },
        reference: { name: 'gzip', measure: async () => measured(await packing.withGzip()) },
      },
      rounds,
    );
    return [...whole, ...alone];
  } finally {
    await packing.remove();
  }
}
