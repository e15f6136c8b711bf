import { InvalidConfiguration } from '../errors.ts';
import { formatPath, type KeyPath, type Origin, Origins } from './layers.ts';

/** Nobody mends more at a time. Of a file that is no configuration at all, every line would be a problem. */
export const MAX_TOLD = 100;

/** Everything that is wrong with a configuration, told at once: nobody wants to mend it one start at a time. */
export class Problems {
  readonly #found: { readonly path: KeyPath; readonly line: string }[] = [];
  #areMore = false;

  /** What follows from an earlier problem at the same path, or inside of it, is noise and left out. */
  add(path: KeyPath, message: string, where: Origin | Origins | undefined): void {
    if (this.#areMore) return;
    const origin = where instanceof Origins ? where.of(path) : where;
    const place = [origin?.label, formatPath(path)].filter(Boolean).join(': ');
    const isNoise = this.#found.some((earlier) =>
      path.length > 0
        ? path.every((part, index) => part === earlier.path[index])
        : earlier.line.startsWith(`${place}: `),
    );
    if (isNoise) return;
    if (this.#found.length < MAX_TOLD) this.#found.push({ path, line: `${place}: ${message}` });
    else this.#areMore = true;
  }

  /** @throws InvalidConfiguration when there are any */
  throwIfAny(): void {
    if (this.#found.length === 0) return;
    const told = this.#found.map(({ line }) => line);
    const more = this.#areMore ? ['there are more: mend these first, or look whether this is the right file'] : [];
    throw new InvalidConfiguration(['the configuration cannot be used:', ...told, ...more].join('\n  '));
  }
}

/** Longer words are no slip of the finger, and comparing them takes long. */
const MAX_COMPARED = 60;

/** ` (did you mean "port"?)` or the names there are. */
export function suggestion(given: string, known: readonly string[]): string {
  if (given.length > MAX_COMPARED) return `known here: ${known.join(', ')}`;
  const [nearest] = known
    .map((name) => ({ name, distance: distance(given.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  if (nearest && nearest.distance <= Math.max(1, Math.floor(nearest.name.length / 3))) {
    return `did you mean "${nearest.name}"?`;
  }
  return `known here: ${known.join(', ')}`;
}

/** Insertions, deletions, replacements and swaps of neighbours between two words (optimal string alignment). */
function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number) => rows[row]?.[column] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= a.length; i += 1) {
    rows[i] = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      (rows[i] as number[])[j] = Math.min(
        at(i - 1, j) + 1,
        at(i, j - 1) + 1,
        at(i - 1, j - 1) + Number(a[i - 1] !== b[j - 1]),
        isSwap ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY,
      );
    }
  }
  return at(a.length, b.length);
}
