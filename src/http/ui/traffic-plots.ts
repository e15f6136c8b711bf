import { scaleLinear, scaleUtc } from 'd3-scale';
import { area, line } from 'd3-shape';
import type { TrafficPoint, TrafficRange } from '../../mirror/traffic-history.ts';
import { html, type Markup } from '../html.ts';
import { duration, number, share, size } from './words.ts';

export const RANGES: readonly TrafficRange[] = ['hour', 'day', 'week'];

/** Units of the drawing. It is stretched to whatever width there is; the words stand beside it, and are not. */
const WIDTH = 600;
const HEIGHT = 160;
/** Between the lines of the grid. */
const INTERVALS = 4;
const MAX_ROWS = 60;
const MAX_STEPS = 168;

interface Series {
  readonly name: string;
  readonly look: 'first' | 'second';
  /** `undefined` where there is nothing to tell. */
  readonly read: (point: TrafficPoint) => number | undefined;
  readonly isFilled?: boolean;
}

interface Plot {
  readonly id: string;
  readonly title: string;
  /** In a sentence, for whoever does not see it. */
  readonly summary: string;
  readonly points: readonly TrafficPoint[];
  readonly series: readonly Series[];
  readonly highest: number;
  readonly labelOf: (value: number) => string;
}

/** Both plots, and the numbers behind them as a table. */
export function trafficPlots(points: readonly TrafficPoint[], range: TrafficRange): Markup {
  if (!points.some(isAnything)) {
    return html`<p class="empty">Nothing was asked for in the last ${range}. What goes through is drawn here.</p>`;
  }
  const total = sumOf(points);
  const steps = together(points, MAX_STEPS);
  const scale = `Each step is ${duration(stepOf(steps))}, times are in UTC.`;
  const most = Math.max(...steps.map(({ bytesServed, bytesFetched }) => Math.max(bytesServed, bytesFetched)));
  return html`<div class="plots">${plot({
    id: 'ratio',
    title: 'Answered from storage',
    summary: `${share(fromStorage(total), asked(total))} of look-ups in the last ${range} took no upstream. ${scale}`,
    points: steps,
    series: [{ name: 'Share of look-ups', look: 'first', read: ratioOf, isFilled: true }],
    highest: 1,
    labelOf: (value) => `${Math.round(value * 100)} %`,
  })}${plot({
    id: 'bytes',
    title: 'Bytes served and fetched',
    summary: `${size(total.bytesServed)} served and ${size(total.bytesFetched)} fetched in the last ${range}. ${scale}`,
    points: steps,
    series: [
      { name: 'Served to clients', look: 'first', read: (point) => point.bytesServed, isFilled: true },
      { name: 'Fetched from upstreams', look: 'second', read: (point) => point.bytesFetched },
    ],
    highest: niceBytes(most),
    labelOf: size,
  })}</div>
<details class="numbers"><summary>The same as a table</summary>${table(points, range)}</details>`;
}

/** All of them together. */
export function sumOf(points: readonly TrafficPoint[]): Omit<TrafficPoint, 'at'> {
  const sum = (key: keyof Omit<TrafficPoint, 'at'>) => points.reduce((total, point) => total + point[key], 0);
  return {
    requests: sum('requests'),
    hits: sum('hits'),
    misses: sum('misses'),
    stale: sum('stale'),
    failures: sum('failures'),
    bytesServed: sum('bytesServed'),
    bytesFetched: sum('bytesFetched'),
  };
}

/** Answers that took no upstream, be it that none answered. */
export function fromStorage({ hits, stale }: Pick<TrafficPoint, 'hits' | 'stale'>): number {
  return hits + stale;
}

export function asked({ hits, stale, misses }: Pick<TrafficPoint, 'hits' | 'stale' | 'misses'>): number {
  return hits + stale + misses;
}

function ratioOf(point: TrafficPoint): number | undefined {
  return asked(point) === 0 ? undefined : fromStorage(point) / asked(point);
}

function plot({ id, title, summary, points, series, highest, labelOf }: Plot): Markup {
  const first = points[0]?.at ?? new Date(0);
  const last = points.at(-1)?.at ?? first;
  const end = new Date(last.getTime() + stepOf(points));
  const x = scaleUtc([first, end], [0, WIDTH]);
  const y = scaleLinear([0, highest], [HEIGHT, 0]);
  const grid = Array.from({ length: INTERVALS + 1 }, (_, index) => (index * HEIGHT) / INTERVALS);
  const labels = Array.from({ length: INTERVALS + 1 }, (_, index) => labelOf(highest * (1 - index / INTERVALS)));
  return html`<figure class="plot">
<figcaption id="${id}-title">${title}</figcaption>
<div class="frame">
<div class="scale" aria-hidden="true">${labels.map((label) => html`<span>${label}</span>`)}</div>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-labelledby="${id}-title" aria-describedby="${id}-summary">
<g class="grid">${grid.map((at) => html`<line x1="0" x2="${WIDTH}" y1="${at}" y2="${at}"/>`)}</g>
${series.map((one) => drawn(one, points, x, y))}
</svg>
<div class="times" aria-hidden="true">${timesBetween(first, end).map((label) => html`<span>${label}</span>`)}</div>
</div>
<ul class="legend">${series.map(({ name, look }) => html`<li><svg class="swatch" viewBox="0 0 24 8" aria-hidden="true"><line class="line ${look}" x1="0" x2="24" y1="4" y2="4"/></svg>${name}</li>`)}</ul>
<p id="${id}-summary" class="note">${summary}</p>
</figure>`;
}

function drawn(
  { look, read, isFilled }: Series,
  points: readonly TrafficPoint[],
  x: (at: Date) => number,
  y: (value: number) => number,
): Markup {
  const step = stepOf(points);
  // Each holds for as long as it was counted: a single one is a line, too.
  const values = points.flatMap((point) => {
    const value = read(point);
    return [point.at, new Date(point.at.getTime() + step)].map((at) => ({ at: x(at), value }));
  });
  const isTold = ({ value }: { value: number | undefined }) => value !== undefined;
  const height = ({ value }: { value: number | undefined }) => y(value ?? 0);
  const path = line<(typeof values)[number]>(({ at }) => at, height)
    .defined(isTold)
    .digits(1)(values);
  const ground = area<(typeof values)[number]>(({ at }) => at, HEIGHT, height)
    .defined(isTold)
    .digits(1)(values);
  return html`${isFilled && ground !== null && html`<path class="ground ${look}" d="${ground}"/>`}${path !== null && html`<path class="line ${look}" d="${path}"/>`}`;
}

function table(points: readonly TrafficPoint[], range: TrafficRange): Markup {
  const rows = together(points, MAX_ROWS).filter(isAnything).toReversed();
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Traffic of the last ${range} as a table"><table>
<caption class="away">Traffic of the last ${range}, newest first; times in UTC</caption>
<thead><tr><th scope="col">Time (UTC)</th>${[
    'Requests',
    'From storage',
    'Fetched first',
    'Stale',
    'Failed',
    'Served',
    'Fetched',
  ].map((name) => html`<th scope="col" class="number">${name}</th>`)}</tr></thead>
<tbody>${rows.map(
    (point) => html`<tr><th scope="row"><time datetime="${point.at.toISOString()}">${stamp(point.at)}</time></th>
<td class="number">${number(point.requests)}</td><td class="number">${number(point.hits)}</td><td class="number">${number(point.misses)}</td><td class="number">${number(point.stale)}</td><td class="number">${number(point.failures)}</td><td class="number">${size(point.bytesServed)}</td><td class="number">${size(point.bytesFetched)}</td></tr>`,
  )}</tbody>
</table></div>`;
}

/** Milliseconds that each of them stands for. */
function stepOf([one, next]: readonly TrafficPoint[]): number {
  return one && next ? next.at.getTime() - one.at.getTime() : 60_000;
}

/** Neighbours added up, so that there are no more of them than somebody can tell apart. */
function together(points: readonly TrafficPoint[], most: number): TrafficPoint[] {
  const each = Math.ceil(points.length / most);
  return Array.from({ length: Math.ceil(points.length / each) }, (_, index) => {
    const part = points.slice(index * each, (index + 1) * each);
    return { at: part[0]?.at ?? new Date(0), ...sumOf(part) };
  });
}

function isAnything(point: TrafficPoint): boolean {
  return point.requests + asked(point) + point.bytesFetched > 0;
}

const DAY_MS = 86_400_000;
const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** At even distances. */
function timesBetween(first: Date, last: Date): string[] {
  const span = last.getTime() - first.getTime();
  return Array.from({ length: INTERVALS + 1 }, (_, index) => {
    const at = new Date(first.getTime() + (span * index) / INTERVALS);
    const clock = at.toISOString().slice(11, 16);
    return span > 1.5 * DAY_MS ? `${DAYS[at.getUTCDay()]} ${clock}` : clock;
  });
}

function stamp(at: Date): string {
  return at.toISOString().slice(0, 16).replace('T', ' ');
}

/** The least of 1, 2, 5, 10… of a unit that is no less, at every line of the grid a whole number of it. */
function niceBytes(most: number): number {
  for (let unit = 1; ; unit *= 1024) {
    for (const step of [1, 2, 5, 10, 20, 50, 100, 200, 500]) {
      if (unit * step * INTERVALS >= most) return unit * step * INTERVALS;
    }
  }
}
