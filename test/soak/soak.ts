import { setTimeout as passed } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startLarderProcess } from '../support/larder-process.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { startRedis } from '../support/redis.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';
import { Clients } from './clients.ts';
import { type Sample, sample, slopePerHour } from './measuring.ts';
import { Random } from './random.ts';
import { publishAll } from './wares.ts';
import { Weather } from './weather.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    clients: { type: 'string', default: '500' },
    seed: { type: 'string', default: '1' },
  },
});
const minutes = Number(values.minutes);
const clientCount = Number(values.clients);
const seed = Number(values.seed);

/** Of everything that is asked for: evictions never end. */
const DISK_SHARE = 0.5;
const SAMPLE_MS = 5_000;
/** A client thinks for at most so long between two requests, in milliseconds. */
const THINKING_MS = 400;
/** After the last client is gone: connections to upstream may be kept for so long, and some more. Milliseconds. */
const SETTLING_MS = 45_000;
/** Descriptors that may be open at the end beside those of the beginning: pools, files of the metadata store. */
const SPARE_DESCRIPTORS = 12;
/** By so much memory may grow from the second quarter to the last: heaps are collected late. */
const GROWTH_SHARE = 0.25;
const GROWTH_BYTES = 32 * 1024 * 1024;
const EXAMPLES = 8;

const random = new Random(seed);
const registry = await UpstreamRegistry.start();
const redis = await startRedis();
const wares = await publishAll(registry, random);
const setup = await larderSetup({
  registries: [registry],
  config: {
    ...(redis && { redis: { url: redis.url } }),
    limits: { disk: `${Math.round(wares.bytes * DISK_SHARE)}B` },
    // Short, so that upstream is asked again and again.
    freshness: { versions: '2s', packages: '5s', discovery: '5s', absent: '1s' },
    log: { level: 'info', format: 'json' },
  },
});
const larder = await startLarderProcess(setup);
const host = registry.hostname;
const clients = new Clients({ ca: setup.ca, clients: clientCount, origin: larder.url, host, wares, random });
const weather = new Weather({ random, registry, redis });

const counts = new Map<string, Map<string, number>>();
const examples: Record<'wrong' | 'unexplained' | 'defects', string[]> = { wrong: [], unexplained: [], defects: [] };
let evictions = 0;

await clients.once();
const began = performance.now();
const until = began + minutes * 60_000;
const samples: Sample[] = [await sample(larder.pid, began)];
const measuring = setInterval(() => void measure(), SAMPLE_MS);
weather.begin();
await Promise.all(Array.from({ length: clientCount }, (_, nth) => client(nth)));
await weather.end();
await clients.close();
const last = await settled();
clearInterval(measuring);
readLog();
const verdict = report();
larder.signal('SIGTERM');
const end = await larder.ended;
if (end.code !== 0) verdict.push(`Larder ended with ${end.signal ?? end.code}`);
await Promise.all([registry.stop(), redis?.stop()]);
await setup.remove();
for (const line of verdict) console.log(`WRONG: ${line}`);
process.exit(verdict.length === 0 ? 0 : 1);

async function client(nth: number): Promise<void> {
  await passed((THINKING_MS * nth) / clientCount);
  while (performance.now() < until) {
    const asked = performance.now();
    const outcome = await clients.once();
    const { kind, result } = outcome;
    if (result !== 'failed') count(kind, result);
    else count(kind, weather.explains(asked) ? 'failed, explained' : 'unexplained');
    if ('why' in outcome && (result === 'wrong' || !weather.explains(asked))) {
      const list = examples[result === 'wrong' ? 'wrong' : 'unexplained'];
      list.push(
        `${kind} at ${Math.round((asked - began) / 1000)} s, after ${Math.round(performance.now() - asked)} ms: ${outcome.why}`,
      );
    }
    await passed(random.between(0, THINKING_MS));
  }
}

function count(kind: string, result: string): void {
  const row = counts.get(kind) ?? new Map<string, number>();
  counts.set(kind, row.set(result, (row.get(result) ?? 0) + 1));
}

async function measure(): Promise<void> {
  readLog();
  samples.push(await sample(larder.pid, began));
}

/** Takes the lines away, of which there are millions. */
function readLog(): void {
  for (const line of (larder.lines as string[]).splice(0)) {
    if (line.includes('"level":"error"')) examples.defects.push(line.slice(0, 600));
    if (line.includes('evicted')) evictions += 1;
  }
}

/** Once everything that clients had opened is closed, or should be. */
async function settled(): Promise<Sample> {
  const limit = performance.now() + SETTLING_MS;
  for (;;) {
    const now = await sample(larder.pid, began);
    const isBack = now.descriptors <= (samples[0]?.descriptors ?? 0) + SPARE_DESCRIPTORS;
    if (isBack || performance.now() > limit) return now;
    await passed(1_000);
  }
}

/** @returns what is wrong */
function report(): string[] {
  const results = ['200', '204', '206', '304', 'failed, explained', 'unexplained', 'wrong'];
  const total = (result: string) => [...counts.values()].reduce((sum, row) => sum + (row.get(result) ?? 0), 0);
  const line = (cells: readonly (string | number)[]) => console.log(`| ${cells.join(' | ')} |`);
  console.log(`\n${minutes} min, ${clientCount} clients, seed ${seed}, Redis: ${redis ? 'yes' : 'none here'}\n`);
  line(['asked for', ...results]);
  line(['---', ...results.map(() => '---:')]);
  for (const [kind, row] of [...counts].sort()) line([kind, ...results.map((result) => row.get(result) ?? 0)]);
  line(['**all**', ...results.map(total)]);

  const [first] = samples as [Sample];
  const mib = (bytes: number) => (bytes / 1024 / 1024).toFixed(0);
  console.log('\n| at | memory, MiB | descriptors |\n| ---: | ---: | ---: |');
  const step = Math.max(1, Math.floor(samples.length / 10));
  for (const [nth, { seconds, rssBytes, descriptors }] of samples.entries()) {
    if (nth % step === 0) line([`${seconds} s`, mib(rssBytes), descriptors]);
  }
  line([`${last.seconds} s, no clients`, mib(last.rssBytes), last.descriptors]);
  const memorySlope = slopePerHour(samples, ({ rssBytes }) => rssBytes);
  console.log(
    `\nSlope of the second half: ${mib(memorySlope)} MiB and ${slopePerHour(samples, (one) => one.descriptors).toFixed(0)} descriptors an hour.`,
  );
  console.log(`\nEvictions told of in the log: ${evictions}. Befell:`);
  for (const [what, times] of [...weather.befell].sort()) console.log(`- ${what}: ${times}`);
  for (const [what, list] of Object.entries(examples)) {
    for (const example of list.slice(0, EXAMPLES)) console.log(`\n${what}: ${example}`);
  }

  const quarter = Math.floor(samples.length / 4);
  const [early, late] = [samples.slice(quarter, 2 * quarter), samples.slice(-quarter)].map(medianMemory) as [
    number,
    number,
  ];
  return [
    ...(total('wrong') > 0 ? [`${total('wrong')} answers were wrong`] : []),
    ...(total('unexplained') > 0 ? [`${total('unexplained')} failures that nothing explains`] : []),
    ...(examples.defects.length > 0 ? [`${examples.defects.length} errors in the log`] : []),
    ...(late > early * (1 + GROWTH_SHARE) + GROWTH_BYTES ? [`memory grew from ${mib(early)} to ${mib(late)} MiB`] : []),
    ...(last.descriptors > first.descriptors + SPARE_DESCRIPTORS
      ? [`${last.descriptors} descriptors are open at the end, ${first.descriptors} were at the beginning`]
      : []),
  ];
}

function medianMemory(some: readonly Sample[]): number {
  const sorted = some.map(({ rssBytes }) => rssBytes).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
