import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProviderOptions } from '../../test/support/published-provider.ts';
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
import { restartPair, startWarmPair, type WarmPair } from '../warm-pair.ts';

const JSON_CONNECTIONS = 32;
const CLIENTS = [1, 50];

/** What is stored already, against a static file server on the same files. */
export async function warm(
  upstream: Upstream,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<Result[]> {
  let pair = await startWarmPair(upstream, [...COMMON, BROAD, ...MANY, SMALL_ARCHIVE, LARGE_ARCHIVE]);
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
    pair = await restartPair(pair, upstream, { isPlain: false });
    for (const archive of [LARGE_ARCHIVE, SMALL_ARCHIVE]) {
      for (const connections of CLIENTS) {
        results.push(...(await archives(pair, archive, { connections, rounds, seconds })));
      }
    }
    const peak = pair.larder.server.peakMemory() / 1e6;
    results.push({
      workload: 'all warm archives above, since the start',
      ...{ name: 'peak memory', unit: 'MB', better: 'less' },
      larder: { name: 'Larder', samples: [peak], median: peak, spread: 0 },
    });
    pair = await restartPair(pair, upstream, { isPlain: true });
    for (const connections of CLIENTS) {
      results.push(...(await archives(pair, LARGE_ARCHIVE, { connections, rounds, seconds }, ', without TLS')));
    }
    return results;
  } finally {
    await pair.stop();
  }
}

async function archives(
  pair: WarmPair,
  archive: ProviderOptions,
  { connections, rounds, seconds }: { connections: number; rounds: number; seconds: number },
  how = '',
): Promise<Result[]> {
  const path = archivePath(archive);
  const { size } = await stat(join(pair.larder.setup.dataDirectory, path));
  return compare(
    {
      workload: `warm archive of ${size / 1_000_000} MB, ${connections} ${connections === 1 ? 'client' : 'clients'}${how}`,
      metrics: [BYTES, BYTE_COST],
      ...underLoad(pair, { larder: path, nginx: path }, { connections, seconds }),
    },
    rounds,
  );
}
