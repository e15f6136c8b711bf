import { readFile } from 'node:fs/promises';
import { Agent, fetch } from 'undici';
import { REGISTRY } from '../../test/support/internet.ts';
import { type BuiltLarder, startBuiltLarder } from '../larder.ts';
import { OWN_PLATFORM, WARMED } from '../published.ts';
import { compare, type Result } from '../rounds.ts';
import type { Upstream } from '../upstream.ts';

const ARCHIVES = { name: 'archives', unit: '1/s', better: 'more' } as const;
const TOKEN = 'bench-admin-token';
const TIME_LIMIT_MS = 120_000;
const LOOK_EVERY_MS = 50;

/** A job that brings in a hundred archives of 1 MB, from the request to its end. */
export function warmJob(upstream: Upstream, { rounds }: { rounds: number }): Promise<Result[]> {
  return compare(
    {
      workload: `warm job, ${WARMED.length} archives of 1 MB`,
      metrics: [ARCHIVES],
      larder: {
        name: 'Larder',
        measure: async () => {
          const larder = await startBuiltLarder(upstream, { LARDER_ADMIN_TOKEN: TOKEN });
          try {
            return { [ARCHIVES.name]: WARMED.length / (await timeJob(larder)) };
          } finally {
            await larder.stop();
          }
        },
      },
    },
    rounds,
  );
}

/** Seconds. @throws unless everything was stored */
async function timeJob({ url, setup }: BuiltLarder): Promise<number> {
  const dispatcher = new Agent({ connect: { ca: await readFile(setup.caFile) } });
  const ask = async (path: string, body?: object) => {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
    const request = body ? { method: 'POST', body: JSON.stringify(body) } : {};
    const response = await fetch(url + path, { ...request, headers, dispatcher });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json();
  };
  const look = async (id: string) =>
    (await ask(`/admin/jobs/${id}?items=1`)) as { state: string; totals: { stored?: number } };
  try {
    const providers = WARMED.map(({ namespace, type, version }) => `${REGISTRY}/${namespace}/${type}@${version}`);
    const startedAt = performance.now();
    const begun = (await ask('/admin/warm', { providers, platforms: [OWN_PLATFORM] })) as { job: string };
    let job = await look(begun.job);
    while (['planning', 'running'].includes(job.state)) {
      if (performance.now() - startedAt > TIME_LIMIT_MS) throw new Error(`the job is still ${job.state}`);
      await new Promise((resume) => setTimeout(resume, LOOK_EVERY_MS));
      job = await look(begun.job);
    }
    const seconds = (performance.now() - startedAt) / 1000;
    if (job.totals.stored !== WARMED.length) throw new Error(`the job ended with ${JSON.stringify(job)}`);
    return seconds;
  } finally {
    await dispatcher.close();
  }
}
