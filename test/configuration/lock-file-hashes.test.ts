import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Hash, parseHash } from '../../src/address/hash.ts';
import { readLockFile } from '../../src/configuration/lock-file.ts';
import { withHashes } from '../../src/configuration/lock-file-hashes.ts';
import { DEFAULT } from './plain.ts';

const h1 = (letter: string) => parseHash(`h1:${letter.repeat(43)}=`);
const zh = (digit: string) => parseHash(`zh:${digit.repeat(64)}`);
const [A, B, Z0, Z1] = [h1('A'), h1('B'), zh('0'), zh('1')];

function change(text: string, hashes: readonly Hash[], address = 'a.test/b/c'): string {
  return withHashes(text, readLockFile(text, 'x', DEFAULT), new Map([[address, hashes]]));
}

/** As the CLI writes it. */
function written(hashes: readonly Hash[]): string {
  return `# This file is maintained automatically by "terraform init".
# Manual edits may be lost in future updates.

provider "a.test/b/c" {
  version     = "1.0.0"
  constraints = "~> 1.0"
  hashes = [
${hashes.map((hash) => `    "${hash}",\n`).join('')}  ]
}

provider "a.test/b/d" {
  version = "2.0.0"
}
`;
}

describe('hashes put into a lock file', () => {
  it('look as the CLI writes them, sorted by bytes', () => {
    expect(change(written([B]), [Z1, B, Z0, A])).toBe(written([A, B, Z0, Z1]));
  });

  it('have the line ends of the file, and its byte order mark stays', () => {
    const windows = (text: string) => `\uFEFF${text.replaceAll('\n', '\r\n')}`;
    expect(change(windows(written([B])), [A, B])).toBe(windows(written([A, B])));
  });

  it('leave the file as it is when they are there already, however they are written', () => {
    for (const text of [
      written([B, A]),
      written([A, B]).replaceAll('\n  ', '\n\t'),
      `provider "a.test/b/c" {\nversion="1.0.0"\nhashes=["${B}","${A}"]}`,
    ]) {
      expect(change(text, [A, B])).toBe(text);
    }
  });

  it.each([
    ['a list on one line', `hashes      = ["${A}"]`],
    ['an empty list', 'hashes      = []'],
    ['a list without a comma at its end', `hashes = [\n    "${A}"\n  ]`],
    ['a list with odd indentation', `hashes = [ "${A}"\n,]`],
  ])('replace %s', (_what, list) => {
    const text = written([]).replace('hashes = [\n  ]', list);
    expect(change(text, [A, Z0])).toBe(written([A, Z0]));
  });

  it.each([
    [
      'provider "a.test/b/c" {\n  version = "1.0.0"\n}\n',
      `provider "a.test/b/c" {\n  version = "1.0.0"\n  hashes = [\n    "${A}",\n  ]\n}\n`,
    ],
    [
      'provider "a.test/b/c" {\n\tversion = "1.0.0" # pinned, /* see */ below\n\n  # the end\n}',
      `provider "a.test/b/c" {\n\tversion = "1.0.0" # pinned, /* see */ below\n\thashes = [\n\t  "${A}",\n\t]\n\n  # the end\n}`,
    ],
    [
      'provider "a.test/b/c" { version = "1.0.0" } # one',
      `provider "a.test/b/c" {\n  version = "1.0.0"\n  hashes = [\n    "${A}",\n  ]\n} # one`,
    ],
    [
      'provider "a.test/b/c" {\n  version = "1.0.0" }',
      `provider "a.test/b/c" {\n  version = "1.0.0"\n  hashes = [\n    "${A}",\n  ]\n}`,
    ],
  ])('are inserted where there are none: %j', (text, expected) => {
    expect(change(text, [A])).toBe(expected);
  });

  it('keep comments within the list, and the order of its items', () => {
    const text = (more: string) => `provider "a.test/b/c" {
  version = "1.0.0"
  hashes = [
    # the build machines
    "${B}", # linux
${more}    /* signed */ "${Z0}" // all
  ]
}`;
    expect(change(text(''), [B, Z0, h1('C')])).toBe(text('').replace('/* signed */', `/* signed */ "${h1('C')}",`));
    expect(change(text(''), [A, B, Z0])).toBe(text('').replace(`    "${B}"`, `    "${A}",\n    "${B}"`));
    expect(change(text(''), [B, Z0, Z1])).toBe(text('').replace(`"${Z0}"`, `"${Z0}",\n    "${Z1}"`));
    expect(change(text(`    "${h1('D')}",\n`), [B, Z0])).toBe(text(''));
  });

  it('keep what is in the list and is no hash of today', () => {
    const text = written([A]).replace('  ]', '    "h9:later",\n  ]');
    expect(change(text, [A, Z0])).toBe(written([A, Z0]).replace(`    "${Z0}"`, `    "h9:later",\n    "${Z0}"`));
  });

  it('do not touch other providers, blocks that cannot be read, or lists that are none', () => {
    const text = `${written([A])}provider "x" {\n}\nprovider "a.test/b/e" {\n  version = "1.0.0"\n  hashes = "?"\n}\n`;
    expect(change(text, [Z0], 'a.test/b/nobody')).toBe(text);
    expect(change(text, [Z0], 'a.test/b/e')).toBe(text);
  });

  it('change many blocks at once', () => {
    const text = written([A]);
    const changes = new Map([
      ['a.test/b/d', [Z1]],
      ['a.test/b/c', [A, B]],
    ]);
    const end = '\n  version = "2.0.0"\n';
    expect(withHashes(text, readLockFile(text, 'x', DEFAULT), changes)).toBe(
      written([A, B]).replace(end, `${end}  hashes = [\n    "${Z1}",\n  ]\n`),
    );
  });

  it('are what is read afterwards, in every form of list, and nothing else changes', () => {
    const hash = fc.constantFrom(A, B, h1('C'), h1('D'), Z0, Z1, zh('2'));
    const gap = fc.constantFrom('', ' ', '\n', '\n    ', ' # c\n', ' /* c */ ', '\n // c\n  ');
    const list = fc.tuple(
      fc.uniqueArray(fc.tuple(gap, hash, gap, gap), { selector: ([, one]) => one }),
      gap,
      fc.boolean(),
    );
    fc.assert(
      fc.property(
        list,
        fc.uniqueArray(hash, { minLength: 1 }),
        fc.constantFrom('\n', '\r\n'),
        ([items, last, hasComma], wanted, lineEnd) => {
          const between = items.map(
            ([before, one, behind, comma], index) =>
              `${before}"${one}"${behind}${index < items.length - 1 || hasComma ? `,${comma}` : ''}`,
          );
          const text =
            `# begin\nprovider "a.test/b/c" {\n  version = "1.0.0"\n  hashes = [${between.join('')}${last}]\n}\n# end\n`.replaceAll(
              '\n',
              lineEnd,
            );
          const changed = change(text, wanted);
          const { entries, diagnostics } = readLockFile(changed, 'x', DEFAULT);
          expect(diagnostics).toEqual([]);
          expect([...(entries[0]?.hashes ?? [])].sort()).toEqual([...wanted].sort());
          expect(changed.match(/# c|\/\* c|\/\/ c/g)).toEqual(text.match(/# c|\/\* c|\/\/ c/g));
          expect(change(changed, wanted)).toBe(changed);
        },
      ),
      { numRuns: 400 },
    );
  });
});
