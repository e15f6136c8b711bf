import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ProviderOptions } from '../../test/support/published-provider.ts';
import { downloadAll, timeDownload } from '../clients.ts';
import { type BuiltLarder, startBuiltLarder } from '../larder.ts';
import { runPinned } from '../processes.ts';
import { archivePath, BROAD, MIDDLING_ARCHIVE, originUrls, SMALL_ARCHIVE, versionPath } from '../published.ts';
import { type Contender, compare, type Measurement, type Result } from '../rounds.ts';
import type { Upstream } from '../upstream.ts';

const FIRST_BYTE = { name: 'first byte', unit: 'ms', better: 'less' } as const;
const LAST_BYTE = { name: 'last byte', unit: 'ms', better: 'less' } as const;
const PEAK_MEMORY = { name: 'peak memory', unit: 'MB', better: 'less' } as const;
const MEMORY_GROWTH = { name: 'growth over idle', unit: 'MB', better: 'less' } as const;

const SIZE = MIDDLING_ARCHIVE.sizeBytes ?? 0;
const CLIENTS = 50;

/** An archive that Larder does not have yet: how long one client waits for it, and what fifty at once cost. */
export async function coldArchive(upstream: Upstream, { rounds }: { rounds: number }): Promise<Result[]> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-bench-'));
  const upstreamCa = join(directory, 'upstream.pem');
  await writeFile(upstreamCa, upstream.ca);
  try {
    const direct: Contender = {
      name: 'direct',
      measure: async () => {
        const options = { caFile: upstreamCa, proxy: upstream.proxy };
        return asMeasurement(await timeDownload(originUrls(MIDDLING_ARCHIVE), options, SIZE));
      },
    };
    const alone = await compare(
      {
        workload: `cold archive of ${SIZE / 1e6} MB, 1 client`,
        metrics: [FIRST_BYTE, LAST_BYTE],
        larder: {
          name: 'Larder',
          measure: () =>
            withColdLarder(upstream, async (larder) => {
              await timeCold(larder, SMALL_ARCHIVE);
              return timeCold(larder, MIDDLING_ARCHIVE);
            }),
        },
        reference: direct,
      },
      rounds,
    );
    const first = await compare(
      {
        workload: `the same as the first request since the start`,
        metrics: [FIRST_BYTE, LAST_BYTE],
        larder: {
          name: 'Larder',
          measure: () => withColdLarder(upstream, (larder) => timeCold(larder, MIDDLING_ARCHIVE)),
        },
        reference: direct,
      },
      rounds,
    );
    const list = await compare(
      {
        workload: `cold VERSION.json, ${BROAD.platforms?.length} platforms`,
        metrics: [LAST_BYTE],
        larder: {
          name: 'Larder',
          measure: () =>
            withColdLarder(upstream, async (larder) => {
              await timeCold(larder, SMALL_ARCHIVE);
              const { lastByteMs } = await timeDownload([larder.url + versionPath(BROAD)], larder.setup);
              return { [LAST_BYTE.name]: lastByteMs };
            }),
        },
      },
      rounds,
    );
    const crowd = await compare(
      {
        workload: `cold archive of ${SIZE / 1e6} MB, ${CLIENTS} clients at once`,
        metrics: [PEAK_MEMORY, MEMORY_GROWTH],
        larder: {
          name: 'Larder',
          measure: () =>
            withColdLarder(upstream, async (larder) => {
              await askForPackages(larder);
              const idle = larder.server.peakMemory();
              const urls = Array.from({ length: CLIENTS }, () => archiveUrl(larder));
              await downloadAll(urls, { caFile: larder.setup.caFile }, CLIENTS);
              const peak = larder.server.peakMemory();
              return { [PEAK_MEMORY.name]: peak / 1e6, [MEMORY_GROWTH.name]: (peak - idle) / 1e6 };
            }),
        },
      },
      rounds,
    );
    return [...alone, ...first, ...list, ...crowd];
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function withColdLarder(
  upstream: Upstream,
  measure: (larder: BuiltLarder) => Promise<Measurement>,
): Promise<Measurement> {
  const larder = await startBuiltLarder(upstream);
  try {
    return await measure(larder);
  } finally {
    await larder.stop();
  }
}

/** Clients always ask for the version first. */
async function timeCold({ url, setup }: BuiltLarder, wanted: ProviderOptions): Promise<Measurement> {
  const urls = [url + versionPath(wanted), url + archivePath(wanted)];
  return asMeasurement(await timeDownload(urls, { caFile: setup.caFile }, wanted.sizeBytes ?? 0));
}

function archiveUrl({ url }: BuiltLarder): string {
  return url + archivePath(MIDDLING_ARCHIVE);
}

async function askForPackages({ url, setup }: BuiltLarder): Promise<void> {
  const target = url + versionPath(MIDDLING_ARCHIVE);
  await runPinned('curl', ['--silent', '--show-error', '--fail', '--cacert', setup.caFile, '--noproxy', '*', target]);
}

function asMeasurement({ firstByteMs, lastByteMs }: { firstByteMs: number; lastByteMs: number }): Measurement {
  return { [FIRST_BYTE.name]: firstByteMs, [LAST_BYTE.name]: lastByteMs };
}
