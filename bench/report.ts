import type { Machine } from './machine.ts';
import type { Result, Samples } from './rounds.ts';

export interface Report {
  readonly measuredAt: string;
  readonly machine: Machine;
  readonly settings: {
    readonly rounds: number;
    readonly seconds: number;
    readonly latencyMs: number;
    readonly upstreamBytesPerSecond: number;
  };
  /** Load average of the machine before and after. */
  readonly load: { readonly before: number; readonly after: number };
  readonly results: readonly Result[];
}

const BEGIN = '<!-- results: written by `npm run bench` -->';
const END = '<!-- end of results -->';

/** The document with the results between its two markers replaced. @throws if it has no such markers */
export function withResults(document: string, report: Report): string {
  const begin = document.indexOf(BEGIN);
  const end = document.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`there is no place for results: ${BEGIN} … ${END}`);
  return `${document.slice(0, begin)}${BEGIN}\n\n${asMarkdown(report)}\n${document.slice(end)}`;
}

export function asMarkdown({ measuredAt, machine, settings, load, results }: Report): string {
  const { cpu, cores, memoryGiB, kernel, node, nginx, wrk, curl, terraform } = machine;
  return [
    `Measured on ${measuredAt.slice(0, 10)}: ${cores} cores of ${cpu}, ${memoryGiB} GiB of memory, Linux ${kernel}, ` +
      `Node ${node}, nginx ${nginx}, wrk ${wrk}, curl ${curl}, Terraform ${terraform}. ` +
      `${settings.rounds} rounds, ${settings.seconds} s each where time is given, ${settings.latencyMs} ms of latency and ${settings.upstreamBytesPerSecond / 2 ** 20} MiB/s for an archive upstream. ` +
      `Load average before ${load.before.toFixed(1)}, after ${load.after.toFixed(1)}.`,
    '',
    '| workload | measured | Larder | reference | ratio | spread |',
    '| --- | --- | ---: | ---: | ---: | ---: |',
    ...results.map(row),
    '',
  ].join('\n');
}

function row({ workload, name, unit, better, larder, reference, ratio }: Result): string {
  const cells = [
    workload,
    `${name}, ${unit} (${better} is better)`,
    number(larder.median),
    reference ? `${number(reference.median)} (${reference.name})` : '',
    ratio === undefined ? '' : ratio.toFixed(2),
    [larder, reference].flatMap((side) => (side ? percent(side) : [])).join(' / '),
  ];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function number(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3);
}

function percent({ spread }: Samples): string {
  // Of a median of nothing there is no part.
  return Number.isFinite(spread) ? `${Math.round(spread * 100)} %` : '–';
}
