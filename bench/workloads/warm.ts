import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  archivePath,
  BROAD,
  COMMON,
  indexPath,
  LARGE_ARCHIVE,
  MANY,
  SMALL_ARCHIVE,
  versionPath,
} from '../published.ts';
import { compare, type Result } from '../rounds.ts';
import type { Upstream } from '../upstream.ts';
import { BYTE_COST, BYTES, REQUEST_COST, REQUESTS, underLoad } from '../warm-load.ts';
import { startWarmPair } from '../warm-pair.ts';

const JSON_CONNECTIONS = 32;

/** What is stored already, against a static file server on the same files. */
export async function warm(
  upstream: Upstream,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<Result[]> {
  const pair = await startWarmPair(upstream, [...COMMON, BROAD, ...MANY, SMALL_ARCHIVE, LARGE_ARCHIVE]);
  const results: Result[] = [];
  try {
    const [newest = BROAD] = COMMON.slice(-1);
    const documents = [
      ['VERSION.json, 2 platforms', versionPath(newest)],
      ['VERSION.json, 15 platforms', versionPath(BROAD)],
      [`index.json, ${COMMON.length} versions`, indexPath(newest)],
      [`index.json, ${MANY.length} versions`, indexPath(MANY[0] ?? BROAD)],
    ] as const;
    for (const [title, path] of documents) {
      const { length } = await readFile(join(pair.larder.setup.dataDirectory, path));
      results.push(
        ...(await compare(
          {
            workload: `warm ${title} (${length} bytes on disk), ${JSON_CONNECTIONS} connections`,
            metrics: [REQUESTS, REQUEST_COST],
            ...underLoad(pair, { larder: path, nginx: path }, { connections: JSON_CONNECTIONS, seconds }),
          },
          rounds,
        )),
      );
    }
    const idle = pair.larder.server.peakMemory();
    for (const [archive, connections] of [SMALL_ARCHIVE, LARGE_ARCHIVE].flatMap(
      (each) =>
        [
          [each, 1],
          [each, 50],
        ] as const,
    )) {
      const path = archivePath(archive);
      const { size } = await stat(join(pair.larder.setup.dataDirectory, path));
      results.push(
        ...(await compare(
          {
            workload: `warm archive of ${size / 1_000_000} MB, ${connections} ${connections === 1 ? 'client' : 'clients'}`,
            metrics: [BYTES, BYTE_COST],
            ...underLoad(pair, { larder: path, nginx: path }, { connections, seconds }),
          },
          rounds,
        )),
      );
    }
    const peak = pair.larder.server.peakMemory();
    const growth = { name: 'Larder', samples: [(peak - idle) / 1e6], median: (peak - idle) / 1e6, spread: 0 };
    const memory = { name: 'Larder', samples: [peak / 1e6], median: peak / 1e6, spread: 0 };
    const workload = 'all warm workloads above, one after the other';
    return [
      ...results,
      { workload, name: 'peak memory', unit: 'MB', better: 'less', larder: memory },
      { workload, name: 'growth over documents alone', unit: 'MB', better: 'less', larder: growth },
    ];
  } finally {
    await pair.stop();
  }
}
