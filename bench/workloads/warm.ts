import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { burst } from '../clients.ts';
import type { ServerProcess } from '../processes.ts';
import { archivePath, BROAD, COMMON, indexPath, LARGE_ARCHIVE, SMALL_ARCHIVE, versionPath } from '../published.ts';
import { compare, type Measurement, type Result } from '../rounds.ts';
import type { Upstream } from '../upstream.ts';
import { startWarmPair, type WarmPair } from '../warm-pair.ts';

const JSON_CONNECTIONS = 32;

const REQUESTS = { name: 'requests', unit: '1/s', better: 'more' } as const;
const REQUEST_COST = { name: 'server CPU per request', unit: 'µs', better: 'less' } as const;
const BYTES = { name: 'bytes', unit: 'MB/s', better: 'more' } as const;
const BYTE_COST = { name: 'server CPU per GB', unit: 'ms', better: 'less' } as const;

/** What is stored already, against a static file server on the same files. */
export async function warm(
  upstream: Upstream,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<Result[]> {
  const pair = await startWarmPair(upstream, [...COMMON, BROAD, SMALL_ARCHIVE, LARGE_ARCHIVE]);
  const results: Result[] = [];
  try {
    const [newest = BROAD] = COMMON.slice(-1);
    const documents = [
      ['VERSION.json, 2 platforms', versionPath(newest)],
      ['VERSION.json, 15 platforms', versionPath(BROAD)],
      [`index.json, ${COMMON.length} versions`, indexPath(newest)],
    ] as const;
    for (const [title, path] of documents) {
      const { length } = await readFile(join(pair.larder.setup.dataDirectory, path));
      results.push(
        ...(await compare(
          {
            workload: `warm ${title} (${length} bytes on disk), ${JSON_CONNECTIONS} connections`,
            metrics: [REQUESTS, REQUEST_COST],
            ...contenders(pair, path, { connections: JSON_CONNECTIONS, seconds }),
          },
          rounds,
        )),
      );
    }
    for (const [archive, connections] of [SMALL_ARCHIVE, LARGE_ARCHIVE].flatMap(
      (each) =>
        [
          [each, 1],
          [each, 8],
        ] as const,
    )) {
      const path = archivePath(archive);
      const { size } = await stat(join(pair.larder.setup.dataDirectory, path));
      results.push(
        ...(await compare(
          {
            workload: `warm archive of ${size / 1_000_000} MB, ${connections} ${connections === 1 ? 'client' : 'clients'}`,
            metrics: [BYTES, BYTE_COST],
            ...contenders(pair, path, { connections, seconds }),
          },
          rounds,
        )),
      );
    }
    return results;
  } finally {
    await pair.stop();
  }
}

function contenders({ larder, nginx }: WarmPair, path: string, load: { connections: number; seconds: number }) {
  const contender = (name: string, { url, server }: { url: string; server: ServerProcess }) => ({
    name,
    measure: async (): Promise<Measurement> => {
      const before = server.cpuSeconds();
      const { requests, bytes, requestsPerSecond, bytesPerSecond } = await burst(url + path, load);
      const cpuSeconds = server.cpuSeconds() - before;
      return {
        [REQUESTS.name]: requestsPerSecond,
        [REQUEST_COST.name]: (cpuSeconds / requests) * 1e6,
        [BYTES.name]: bytesPerSecond / 1e6,
        [BYTE_COST.name]: (cpuSeconds / bytes) * 1e12,
      };
    },
  });
  return { larder: contender('Larder', larder), reference: contender('nginx', nginx) };
}
