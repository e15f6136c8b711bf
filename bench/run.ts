import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine, load } from './machine.ts';
import { requirePrograms, runProgram } from './processes.ts';
import { EVERYTHING, MODULES } from './published.ts';
import { asMarkdown, type Report, withResults } from './report.ts';
import type { Result } from './rounds.ts';
import { startUpstream, type Upstream } from './upstream.ts';
import { coldArchive } from './workloads/cold-archive.ts';
import { hashing } from './workloads/hashing.ts';
import { init } from './workloads/init.ts';
import { modules } from './workloads/modules.ts';
import { start } from './workloads/start.ts';
import { warm } from './workloads/warm.ts';
import { warmJob } from './workloads/warm-job.ts';

const LATENCY_MS = 40;
/** A good line to the internet, for one download. */
const UPSTREAM_BYTES_PER_SECOND = 25 * 1024 * 1024;
const MIN_ROUNDS = 3;

const WORKLOADS: Readonly<
  Record<string, (upstream: Upstream, settings: { rounds: number; seconds: number }) => Promise<Result[]>>
> = { warm, init, 'cold-archive': coldArchive, modules, hashing, start, 'warm-job': warmJob };

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    only: { type: 'string' },
  },
});
const settings = { rounds: Number(options.rounds), seconds: Number(options.seconds) };
const chosen = options.only?.split(',') ?? Object.keys(WORKLOADS);
const unknown = chosen.filter((name) => !Object.hasOwn(WORKLOADS, name));
if (unknown.length > 0) throw new Error(`--only takes ${Object.keys(WORKLOADS).join(', ')}; not ${unknown.join(', ')}`);

await requirePrograms({
  nginx: 'apt-get install nginx-light',
  wrk: 'apt-get install wrk',
  curl: 'apt-get install curl',
  git: 'apt-get install git',
  gzip: 'apt-get install gzip',
  unzip: 'apt-get install unzip',
  taskset: 'apt-get install util-linux',
  terraform: 'install Terraform 1.x from developer.hashicorp.com/terraform/install',
});
await runProgram('npm', ['run', '--silent', 'build']);

const machine = await describeMachine();
const before = load();
const upstream = await startUpstream({
  latencyMs: LATENCY_MS,
  bytesPerSecond: UPSTREAM_BYTES_PER_SECOND,
  providers: EVERYTHING,
  modules: MODULES,
});
const results: Result[] = [];
try {
  for (const name of chosen) {
    const startedAt = performance.now();
    results.push(...((await WORKLOADS[name]?.(upstream, settings)) ?? []));
    console.error(`${name}: ${Math.round((performance.now() - startedAt) / 1000)} s`);
  }
} finally {
  await upstream.stop();
}

const report: Report = {
  measuredAt: new Date().toISOString(),
  machine,
  settings: { ...settings, latencyMs: LATENCY_MS, upstreamBytesPerSecond: UPSTREAM_BYTES_PER_SECOND },
  load: { before, after: load() },
  results,
};
console.log(asMarkdown(report));

// Parts and quick looks are not for the record.
if (options.only === undefined && settings.rounds >= MIN_ROUNDS) {
  const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
  await writeFile(file('results.json'), `${JSON.stringify(report, null, 2)}\n`);
  await writeFile(file('README.md'), withResults(await readFile(file('README.md'), 'utf8'), report));
  await runProgram('npx', ['biome', 'format', '--write', file('results.json'), file('README.md')]);
}
