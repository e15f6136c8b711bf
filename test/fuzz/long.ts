import { parseArgs } from 'node:util';
import { type FuzzOutcome, runTarget } from './target.ts';
import { TARGETS } from './targets.ts';

const { values } = parseArgs({
  options: {
    inputs: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    /** Parts of names; all targets unless given. */
    only: { type: 'string', multiple: true },
    /** Ends by then whatever is left. */
    minutes: { type: 'string' },
  },
});

const chosen = TARGETS.filter(({ name }) => values.only?.some((part) => name.includes(part)) ?? true);
const weights = chosen.reduce((sum, { weight }) => sum + weight, 0);
const total = Number(values.inputs);
const seed = Number(values.seed);
const ends = values.minutes === undefined ? undefined : Date.now() + Number(values.minutes) * 60_000;
const outcomes: FuzzOutcome[] = [];

console.log(`seed ${seed}\n\n| target | inputs | seconds | failures |\n| --- | ---: | ---: | ---: |`);
for (const target of chosen) {
  const inputs = Math.ceil((total * target.weight) / weights);
  const outcome = await runTarget(target, { inputs, seed, ...(ends !== undefined && { until: ends }) });
  outcomes.push(outcome);
  row(outcome.name, outcome.inputs, outcome.ms, outcome.failure === undefined ? 0 : 1);
}
const sum = (of: (outcome: FuzzOutcome) => number) => outcomes.reduce((all, outcome) => all + of(outcome), 0);
const failed = outcomes.filter(({ failure }) => failure !== undefined);
row(
  '**all**',
  sum(({ inputs }) => inputs),
  sum(({ ms }) => ms),
  failed.length,
);
for (const { name, failure } of failed) console.error(`\n${name}:\n${failure}`);
process.exit(failed.length === 0 ? 0 : 1);

function row(name: string, inputs: number, ms: number, failures: number): void {
  console.log(`| ${name} | ${inputs} | ${(ms / 1000).toFixed(1)} | ${failures} |`);
}
