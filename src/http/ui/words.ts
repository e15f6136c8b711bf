import { html, type Markup } from '../html.ts';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** `512 B`, `1.5 MiB`. */
export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1023.95 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

const GROUPED = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

/** `12,345`. */
export function number(value: number): string {
  return GROUPED.format(value);
}

/** `1 archive`, `2,000 archives`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** `98.2 %`; nothing of nothing is no share. */
export function share(part: number, whole: number): string {
  if (whole <= 0) return 'none yet';
  const percent = (100 * part) / whole;
  // All is all: 99.96 is not.
  return `${percent === 100 ? '100' : Math.min(99.9, percent).toFixed(1)} %`;
}

const AGES: readonly (readonly [name: string, ms: number])[] = [
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
];
const DAY_MS = 86_400_000;

/** `3 min ago`, `12 days ago`. */
export function ago(at: Date, now = Date.now()): string {
  const passed = now - at.getTime();
  if (passed >= DAY_MS) return `${counted(Math.floor(passed / DAY_MS), 'day')} ago`;
  const [name, ms] = AGES.find(([, length]) => passed >= length) ?? ['moment', 0];
  return ms === 0 ? 'just now' : `${Math.floor(passed / ms)} ${name} ago`;
}

/** `1 h 4 min`, `15 min`, `12 s`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const parts =
    minutes < 60
      ? [
          [minutes, 'min'],
          [seconds % 60, 's'],
        ]
      : [
          [Math.floor(minutes / 60), 'h'],
          [minutes % 60, 'min'],
        ];
  return parts
    .filter(([count]) => count !== 0)
    .map((part) => part.join(' '))
    .join(' ');
}

/** As long ago as it is, with the moment itself for machines and for whoever points at it. */
export function time(at: Date): Markup {
  const exact = at.toISOString();
  return html`<time datetime="${exact}" title="${exact.slice(0, 19).replace('T', ' ')} UTC">${ago(at)}</time>`;
}

/** Long lines of letters, shown by their first ones. */
export function shortened(text: string, length = 12): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** A word with its mark: neither the mark nor the colour says anything that the word does not. */
export function tag(kind: 'good' | 'warn' | 'bad' | 'plain', word: string): Markup {
  return html`<span class="tag ${kind}">${word}</span>`;
}
