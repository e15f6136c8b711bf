import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { larderSetupFor, startOn } from '../larder.ts';
import { runPinned } from '../processes.ts';
import { archivePath, indexPath, OWN_PLATFORM } from '../published.ts';
import { compare, type Result } from '../rounds.ts';
import type { Upstream } from '../upstream.ts';

const READY = { name: 'until it listens', unit: 'ms', better: 'less' } as const;
const FIRST_ANSWER = { name: 'until a list was answered', unit: 'ms', better: 'less' } as const;
const MEMORY = { name: 'peak memory', unit: 'MB', better: 'less' } as const;

const PROVIDERS = 500;
const VERSIONS = 100;

/** A start with 50,000 archives in the data directory, each in its place with its record. */
export async function start(upstream: Upstream, { rounds }: { rounds: number }): Promise<Result[]> {
  // Made once: each round starts a Larder on it.
  const setup = await larderSetupFor(upstream);
  await fill(setup.dataDirectory);
  try {
    return await compare(
      {
        workload: `start with ${PROVIDERS * VERSIONS} archives`,
        metrics: [READY, FIRST_ANSWER, MEMORY],
        larder: {
          name: 'Larder',
          measure: async () => {
            const startedAt = performance.now();
            const { url, server } = await startOn(setup, upstream);
            const readyMs = performance.now() - startedAt;
            const list = url + indexPath(stored(0, 0));
            await runPinned('curl', ['--silent', '--fail', '--cacert', setup.caFile, '--noproxy', '*', list]);
            const answeredMs = performance.now() - startedAt;
            const peak = server.peakMemory();
            await server.stop();
            return { [READY.name]: readyMs, [FIRST_ANSWER.name]: answeredMs, [MEMORY.name]: peak / 1e6 };
          },
        },
      },
      rounds,
    );
  } finally {
    await setup.remove();
  }
}

function stored(provider: number, version: number) {
  return { namespace: 'stored', type: `many${provider}`, version: `1.${version}.0` };
}

/** As Larder itself leaves them: the archive, VERSION.json with its digest and size, index.json. */
async function fill(directory: string): Promise<void> {
  const bytes = Buffer.from('a small archive');
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  for (let provider = 0; provider < PROVIDERS; provider += 1) {
    const versions = Array.from({ length: VERSIONS }, (_, version) => stored(provider, version));
    const home = dirname(join(directory, archivePath(stored(provider, 0))));
    await mkdir(home, { recursive: true });
    await Promise.all(
      versions.map(async (of) => {
        const archive = join(directory, archivePath(of));
        const url = archive.slice(home.length + 1);
        const record = { [OWN_PLATFORM]: { hashes: [`zh:${sha256}`], size: bytes.length, url } };
        await writeFile(archive, bytes);
        await writeFile(join(home, `${of.version}.json`), JSON.stringify({ archives: record }));
      }),
    );
    const names = Object.fromEntries(versions.map(({ version }) => [version, {}]));
    await writeFile(join(home, 'index.json'), JSON.stringify({ versions: names }));
  }
}
