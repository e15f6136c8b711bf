import { createHash } from 'node:crypto';

/** Words of the made-up language, the common ones first. */
const VOCABULARY = 4_000;
const SYLLABLES = [
  'con',
  'fig',
  'ser',
  'net',
  'a',
  'work',
  'to',
  're',
  'sub',
  'in',
  'ter',
  'pol',
  'i',
  'cy',
  'ex',
  'ed',
];
/** The larger, the more often the common words come. */
const SKEW = 3;
/** So many lines have stood there before, among those just written. */
const REPEATED = 0.3;
const REPEATED_FROM = 500;

/** Of one file of `sourceFiles`, bytes; and how far they are apart from each other. */
const SMALLEST_FILE = 2_000;
const SIZES = 16_001;

/** So many files, 10 kB on average, in directories of twenty. The same for the same seed. */
export function sourceFiles(seed: string, count: number): Record<string, string> {
  const files: Record<string, string> = {};
  for (let index = 0; index < count; index += 1) {
    const path = `modules/part${Math.floor(index / 20)}/file${index}.tf`;
    files[path] = sourceText(`${seed} ${path}`, SMALLEST_FILE + ((index * 7_919) % SIZES));
  }
  return files;
}

/**
 * Text that compresses like source text, to about a quarter: lines of HCL in a made-up language. The same bytes for the same
 * seed, all of them ASCII.
 */
function sourceText(seed: string, bytes: number): string {
  const random = generator(seed);
  const word = () => wordOf(Math.floor(VOCABULARY * random() ** SKEW));
  const lines: string[] = [];
  let length = 0;
  while (length < bytes) {
    const earlier = random() < REPEATED ? lines.at(-1 - Math.floor(random() * REPEATED_FROM)) : undefined;
    const line = earlier ?? makeLine(random, word);
    lines.push(line);
    length += line.length;
  }
  return lines.join('').slice(0, bytes);
}

function makeLine(random: () => number, word: () => string): string {
  const kind = random();
  if (kind < 0.08) return `}\n\nresource "${word()}_${word()}" "${word()}" {\n`;
  if (kind < 0.3) return `  # ${Array.from({ length: 10 }, word).join(' ')}.\n`;
  if (kind < 0.6) return `  ${word()}_${word()} = var.${word()}.${word()}_${word()}\n`;
  if (kind < 0.8) return `  ${word()} = "${word()}-${word()}-\${local.${word()}}"\n`;
  return `    ${word()} = ${Math.floor(random() * 65_536)}\n`;
}

function wordOf(index: number): string {
  const parts: string[] = [];
  for (let rest = index + 1; rest > 0; rest = Math.floor(rest / SYLLABLES.length)) {
    parts.push(SYLLABLES[rest % SYLLABLES.length] ?? '');
  }
  return parts.join('');
}

/** Numbers from 0 up to 1: mulberry32, the same on every machine. */
function generator(seed: string): () => number {
  let state = createHash('sha256').update(seed).digest().readUInt32LE();
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
