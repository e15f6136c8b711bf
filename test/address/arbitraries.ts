import fc from 'fast-check';
import { InvalidAddress } from '../../src/errors.ts';

/** Strings that look nearly right, and strings that look like nothing. */
export const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.string({ unit: fc.constantFrom(...'aZ09.-_:/+~%=<>!,* vx@\\ß½ü\u00ad\u200b\n'.split('')), maxLength: 30 }),
  fc.string({ unit: fc.constantFrom('1', '0', '.', '-', '+', 'rc', '>=', ',', ' ', 'v'), maxLength: 12 }),
);

const identifier = fc.stringMatching(/^[0-9A-Za-z-]{1,8}$/);
const identifiers = fc.array(identifier, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('.'));
const number = fc.oneof(fc.nat(30), fc.nat());

export const releaseText = fc.tuple(number, number, number).map((numbers) => numbers.join('.'));

/** Canonical versions, some with `-rc.1` and `+b.1`. */
export const versionText = fc
  .tuple(releaseText, fc.option(identifiers), fc.option(identifiers))
  .map(([release, pre, build]) => release + (pre === null ? '' : `-${pre}`) + (build === null ? '' : `+${build}`));

const asciiPart = fc.stringMatching(/^[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,2}$/);

/** Canonical namespaces and types, such as `google-beta`. */
export const partText = fc.oneof(asciiPart, fc.constantFrom('bücher', 'straße', 'поставщик', '提供者'));

export const hostnameText = fc
  .tuple(
    fc.array(fc.oneof(fc.stringMatching(/^[a-z][a-z0-9]{0,8}$/), fc.constant('xn--bcher-kva')), {
      minLength: 1,
      maxLength: 4,
    }),
    fc.option(fc.integer({ min: 1, max: 65_535 }).filter((port) => port !== 443)),
  )
  .map(([labels, port]) => labels.join('.') + (port === null ? '' : `:${port}`));

export const platformText = fc
  .tuple(fc.stringMatching(/^[a-z0-9]{1,8}$/), fc.stringMatching(/^[a-z0-9]{1,8}$/))
  .map((parts) => parts.join('_'));

/** The spelling again when `parse` accepts, `undefined` when it refuses; anything else thrown is a bug. */
export function spellingOf(parse: (text: string) => { toString(): string }, text: string): string | undefined {
  try {
    return parse(text).toString();
  } catch (error) {
    if (error instanceof InvalidAddress) return undefined;
    throw error;
  }
}

/** For any text at all: refused with an InvalidAddress, or read into a spelling that reads as itself. */
export function normalisesOnce(parse: (text: string) => { toString(): string }): void {
  fc.assert(
    fc.property(anyText, (text) => {
      const spelling = spellingOf(parse, text);
      return spelling === undefined || parse(spelling).toString() === spelling;
    }),
    { numRuns: 1_000 },
  );
}
