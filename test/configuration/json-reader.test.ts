import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type JsonNode, readJson } from '../../src/configuration/json-reader.ts';

function plain(node: JsonNode): unknown {
  if (node.kind === 'array') return node.items.map(plain);
  if (node.kind === 'object') {
    return Object.fromEntries(node.entries.map(({ key, value }) => [key, plain(value)]));
  }
  return node.kind === 'null' ? null : node.value;
}

/** `LINE:COLUMN message` */
function problems(text: string): string[] {
  return readJson(text).problems.map(({ at, message }) => `${at} ${message}`);
}

describe('what is read', () => {
  it('every JSON document is read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, 2, '\t'), (json, indent) => {
        const text = JSON.stringify(JSON.parse(json), undefined, indent);
        const { root, problems } = readJson(text);
        expect(problems).toEqual([]);
        expect(JSON.stringify(root && plain(root))).toBe(JSON.stringify(JSON.parse(text)));
      }),
      { numRuns: 150 },
    );
  });

  it.each([
    ['a byte order mark', '\uFEFF{"a":1}', { a: 1 }],
    ['escapes', String.raw`["\u00e9\n\"\\\/\ud83d\ude00"]`, ['é\n"\\/😀']],
    ['DEL and the like, which JSON allows', '["\u007f\u0085"]', ['\u007f\u0085']],
    ['CRLF', '{\r\n"a":\r\n[]}\r\n', { a: [] }],
    ['__proto__ as any other key', '{"__proto__":{"x":1}}', JSON.parse('{"__proto__":{"x":1}}')],
  ])('%s', (_what, text, expected) => {
    const { root, problems } = readJson(text);
    expect(problems).toEqual([]);
    expect(root && plain(root)).toEqual(expected);
  });

  it('it knows where everything stands', () => {
    const { root, at } = readJson('\uFEFF{\n  "a": [1,\n 2]}');
    const [entry] = root?.kind === 'object' ? root.entries : [];
    const list = entry?.value.kind === 'array' ? entry.value.items : [];
    expect([root, entry, entry?.value, ...list].map((node) => node && at(node))).toEqual([
      '1:1',
      '2:3',
      '2:8',
      '2:9',
      '3:2',
    ]);
  });
});

describe('what is wrong is told with line and column', () => {
  it.each([
    ['', '1:1 there is nothing in it; the least is {}'],
    ['{"a" 1}', '1:6 a colon is missing here'],
    ['{"a": }', '1:7 a value must stand here: a text in double quotes, a number, true, false, null, [ ] or { }'],
    ['{\n "a": 1\n "b": 2}', '3:2 a comma or } is missing here'],
    ["{'a': 1}", '1:2 a key in double quotes must stand here'],
    ['[010]', '1:2 this is not a number as JSON writes them'],
    ['[1.]', '1:2 this is not a number as JSON writes them'],
    ['[nul]', '1:2 a value must stand here: a text in double quotes, a number, true, false, null, [ ] or { }'],
    ['["a\nb"]', '1:2 the text that begins here is not closed on its line'],
    ['["a\tb"]', '1:4 control characters must be escaped in a text, a tab as \\t'],
    [String.raw`["\x"]`, '1:3 this escape is unknown; known are \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uNNNN'],
    ['{"a": [1, 2', '1:12 a comma or ] is missing here'],
    ['{} {}', '1:4 something follows here, behind the end of the document'],
    ['{"a":1,\n"a":2}', '2:1 "a" is given twice in this object, first in line 1; keep one'],
    ['[&x 1, *x]', '1:2 a value must stand here: a text in double quotes, a number, true, false, null, [ ] or { }'],
  ])('%j', (text, expected) => {
    expect(problems(text)).toEqual([expected]);
  });

  it('a comma too many and comments do not keep the rest from being read', () => {
    const { root, problems } = readJson('{ // c\n"a": [1,], /* d */ "b": 2, # e\n}');
    expect(root && plain(root)).toEqual({ a: [1], b: 2 });
    expect(problems.map(({ at, severity }) => `${at} ${severity}`)).toEqual(['1:3 error', '2:8 error', '2:26 error']);
  });

  it('what stands before an error is kept, and what it cuts through is marked', () => {
    const { root } = readJson('{"a": {"b": 1}, "c": {"d": 2,');
    expect(root && plain(root)).toEqual({ a: { b: 1 }, c: { d: 2 } });
    const objects = root?.kind === 'object' ? root.entries.map(({ value }) => value) : [];
    expect(objects.map((node) => node.kind === 'object' && node.isCut)).toEqual([false, true]);
  });

  it('the comment property may be repeated', () => {
    expect(problems('{"//":1,"//":2}')).toEqual([]);
  });
});

describe('nothing makes it throw or hang', () => {
  it('whatever the text is', () => {
    const pieces = fc.constantFrom('{', '}', '[', ']', ':', ',', '"', '\\', 'a', '1', '-', 'null', '//', '/*', '\n');
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.array(pieces).map((all) => all.join('')),
        ),
        (text) => {
          expect(readJson(text).problems.length).toBeGreaterThanOrEqual(0);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('nesting half a million deep, a megabyte of text and a hundred thousand repeated keys take little time', () => {
    const start = performance.now();
    expect(problems('['.repeat(500_000))).toHaveLength(1);
    expect(problems(`${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`)).toEqual([]);
    expect(problems(JSON.stringify('x\\"'.repeat(300_000)))).toEqual([]);
    expect(problems(`{${Array(100_000).fill('"a":1').join(',')}}`)).toHaveLength(200);
    expect(problems(`[${' '.repeat(17 * 1024 * 1024)}`)[0]).toContain('is longer than');
    expect(performance.now() - start).toBeLessThan(10_000);
  });
});
