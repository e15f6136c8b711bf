import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { archivePath, BROAD, COMMON, indexPath, LARGE_ARCHIVE, SMALL_ARCHIVE, versionPath } from '../published.ts';
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
            ...underLoad(pair, { larder: path, nginx: path }, { connections: JSON_CONNECTIONS, seconds }),
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
            ...underLoad(pair, { larder: path, nginx: path }, { connections, seconds }),
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
