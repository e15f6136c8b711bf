// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is the syntax under test
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseHcl } from '../../src/configuration/hcl.ts';
import type { HclItem, HclValue } from '../../src/configuration/hcl-syntax.ts';

/** The body as plain data; blocks as `[type, ...labels, body]`. */
function plain(body: readonly HclItem[]): unknown[] {
  return body.map((item) =>
    item.kind === 'attribute'
      ? { [item.name]: plainValue(item.value) }
      : [item.type, ...item.labels.map(({ value }) => value), plain(item.body)],
  );
}

function plainValue(value: HclValue): unknown {
  if (value.kind === 'list') return value.items.map(plainValue);
  if (value.kind === 'object')
    return Object.fromEntries(value.entries.map((entry) => [entry.key, plainValue(entry.value)]));
  return value.kind === 'null' ? null : value.value;
}

function read(text: string): unknown[] {
  const { body, diagnostics } = parseHcl(text);
  expect(diagnostics).toEqual([]);
  return plain(body);
}

/** `LINE:COLUMN message (item)` */
function problems(text: string): string[] {
  return parseHcl(text).diagnostics.map(({ message, position, item }) => {
    const about = item ? ` (${[item.type, ...item.labels].join(' ')})` : '';
    return `${position.line}:${position.column} ${message}${about}`;
  });
}

const LOCK = `# generated
provider "registry.terraform.io/acme/widget" { 
  version = "1.0.0"
  hashes = ["h1:FrOpWuh2q5vyQkmu1mNewlXrXoBIxoOTA/oT4cQYiiU="]
}
provider "registry.opentofu.org/acme/widget" {
  version     = "1.0.0"
  constraints = "!= 0.9.0, >= 0.8.0, <= 1.0.0"
}
provider "up.example.test:8443/acme/gadget" {
  version = "2.3.1-RC1" // comment
}
module "x" {}
`;

const LOCK_READ = [
  [
    'provider',
    'registry.terraform.io/acme/widget',
    [{ version: '1.0.0' }, { hashes: ['h1:FrOpWuh2q5vyQkmu1mNewlXrXoBIxoOTA/oT4cQYiiU='] }],
  ],
  [
    'provider',
    'registry.opentofu.org/acme/widget',
    [{ version: '1.0.0' }, { constraints: '!= 0.9.0, >= 0.8.0, <= 1.0.0' }],
  ],
  ['provider', 'up.example.test:8443/acme/gadget', [{ version: '2.3.1-RC1' }]],
  ['module', 'x', []],
];

describe('what is read', () => {
  it.each([
    ['a lock file', LOCK],
    ['with CRLF', LOCK.replaceAll('\n', '\r\n')],
    ['with a byte order mark', `\uFEFF${LOCK}`],
    ['without a line end at its end', LOCK.trimEnd()],
  ])('R56: %s', (_what, text) => {
    expect(read(text)).toEqual(LOCK_READ);
  });

  it.each([
    [
      'the same block twice',
      'a "x" {}\na "x" {}',
      [
        ['a', 'x', []],
        ['a', 'x', []],
      ],
    ],
    ['an empty text and an empty list', 'a {\n  c = ""\n  h = []\n}', [['a', [{ c: '' }, { h: [] }]]]],
    ['all comments', '# a\n// b\n/* c\n d */ a = 1 # e\nb = /* f */ 2 // g\n/**/', [{ a: 1 }, { b: 2 }]],
    [
      'one-line blocks',
      'a { b = "c" }\nd "e" f {}',
      [
        ['a', [{ b: 'c' }]],
        ['d', 'e', 'f', []],
      ],
    ],
    ['a list over lines with a comma at its end', 'a = [\n  1, # one\n  "2",\n\n]', [{ a: [1, '2'] }]],
    ['an object in every spelling', 'a = { b = 1, "c.d": [2]\n e = null\n}', [{ a: { b: 1, 'c.d': [2], e: null } }]],
    ['numbers', 'a = [0, -1, 1.5, 2e3, -0.5E-1]', [{ a: [0, -1, 1.5, 2000, -0.05] }]],
    ['booleans', 'a = true\nb = false', [{ a: true }, { b: false }]],
    ['blocks within blocks', 'a {\n  b "c" {\n    d = 1\n  }\n}', [['a', [['b', 'c', [{ d: 1 }]]]]]],
    ['escapes', 'a = "\\"\\\\\\n\\r\\t\\u00e9\\U0001F600 $${b} %%{c}"', [{ a: '"\\\n\r\té😀 ${b} %{c}' }]],
    ['a lone dollar and percent', 'a = "$HOME 100% $"', [{ a: '$HOME 100% $' }]],
    ['a heredoc', 'a = <<EOT\n  b\n\n    c "d"\nEOT\ne = 1', [{ a: '  b\n\n    c "d"\n' }, { e: 1 }]],
    ['a heredoc with CRLF', 'a = <<EOT\r\n  b\r\nEOT\r\ne = 1', [{ a: '  b\n' }, { e: 1 }]],
    ['an indented heredoc', 'a {\n  b = <<-EOT\n    c\n\n      d\n  EOT\n}', [['a', [{ b: 'c\n\n  d\n' }]]]],
    ['dashes and letters of other scripts in names', 'größe-2 = 1', [{ 'größe-2': 1 }]],
    ['nothing', '', []],
    ['nothing but space', ' \t\r\n\n', []],
    ['keys that objects have anyway', 'a = { __proto__ = 1 }', [{ a: JSON.parse('{"__proto__":1}') }]],
  ])('%s', (_what, text, expected) => {
    const [first] = read(text) as [{ a?: object }];
    expect(JSON.stringify(read(text))).toBe(JSON.stringify(expected));
    expect(first?.a ?? {}).not.toHaveProperty('polluted');
  });

  it('templates are kept as written, and marked', () => {
    const { body } = parseHcl('a = "x${lookup("}", {b = 1})}y"\nb = <<EOT\n%{ if c }\nEOT\nc = "$${d}"');
    const values = body.map((item) => (item.kind === 'attribute' ? item.value : undefined));
    expect(values).toMatchObject([
      { value: 'x${lookup("}", {b = 1})}y', isTemplate: true },
      { value: '%{ if c }\n', isTemplate: true },
      { value: '${d}', isTemplate: false },
    ]);
  });

  it('everything knows where it stands, for tools that change it in place', () => {
    const text = '\uFEFFa = 1\r\n  b "c" {\r\n    d = ["é", "f"]\r\n}';
    const [a, b] = parseHcl(text).body;
    const cut = ({ start, end }: { start: { offset: number }; end: { offset: number } }) =>
      text.slice(start.offset, end.offset);
    if (a?.kind !== 'attribute' || b?.kind !== 'block') throw new Error('an attribute and a block were expected');
    const [d] = b.body;
    if (d?.kind !== 'attribute' || d.value.kind !== 'list') throw new Error('a list was expected');
    expect(cut(a.range)).toBe('a = 1');
    expect(a.range.start).toEqual({ offset: 1, line: 1, column: 1 });
    expect(cut(b.range)).toBe(text.slice(text.indexOf('b')));
    expect(b.range.start).toMatchObject({ line: 2, column: 3 });
    expect(b.labels.map(({ range }) => cut(range))).toEqual(['"c"']);
    expect(cut(b.bodyRange)).toBe('\r\n    d = ["é", "f"]\r\n');
    expect(d.value.items.map(({ range }) => cut(range))).toEqual(['"é"', '"f"']);
    expect(d.value.range.start).toMatchObject({ line: 3, column: 9 });
  });
});

describe('what is wrong is told with its place, and never quoted', () => {
  it.each([
    ['a = s3cret', '1:5 a value must stand here: a text in quotes, a number, true, false, null, [ ] or { } (a)'],
    ['a = s3cret.b', '1:5 a value must stand here'],
    ['a = 1 + 2', '1:7 something follows here that should be on a line of its own (a)'],
    ['a = 1.0.0', '1:5 a value must stand here'],
    ['a = 12s3cret', '1:5 a value must stand here'],
    ['a = null()', '1:5 a value must stand here'],
    ['a = "s3cret\nb = 1', '1:5 the text that begins here is not closed on its line (a)'],
    ['a = "s3cret', '1:5 the text that begins here is not closed'],
    ['a = "s3cret${b"', '1:12 the template that begins here is not closed'],
    [String.raw`a = "\q"`, '1:6 this escape is unknown'],
    [String.raw`a = "\ud800"`, '1:6 this escape is unknown'],
    ['a = <<EOT\ns3cret\n', '1:5 the text that begins here is not ended by its marker (a)'],
    ['a = [1 2]', '1:8 a comma or ] is missing here (a)'],
    ['a = [1,\n', '1:5 the list that begins here is not closed (a)'],
    ['a = { b 1 }', '1:9 = or : is missing here (a)'],
    ['a = { b = 1 c = 2 }', '1:13 something follows here'],
    ['a = { b = 1, b = 2 }', '1:14 this key is set twice'],
    ['a = { "${b}" = 1 }', '1:7 a key must be'],
    ['a = 1\na = 2', '2:1 a is set twice (a)'],
    ['a {\n  b = 1\n  b = 2\n}', '3:3 b is set twice (a)'],
    ['a "b" {\n  c = 1\n', '1:1 the block that begins here is not closed (a b)'],
    ['a "b"\n{}', '1:6 = or { is missing here (a b)'],
    ['a "${b}" {}', '1:3 the label of a block cannot be a template (a)'],
    ['"a" = 1', '1:1 the name of an attribute or block must stand here'],
    ['}', '1:1 the name of an attribute or block must stand here'],
    ['a = 1 /* b', '1:7 the comment that begins here is not closed (a)'],
    ['/* b', '1:1 the comment that begins here is not closed'],
    ['a = 1\rb = 2', '1:6 something follows here'],
    ['a {} b {}', '1:6 something follows here'],
    [`a = ${'['.repeat(5_000)}`, 'things are nested too deeply here (a)'],
    [`${'a {\n'.repeat(100)}`, 'things are nested too deeply here (a)'],
    [`a = "${'x'.repeat(1024 * 1024)}"`, '1:1 this is longer than 1048576 characters, and is not read'],
  ])('%#: …', (text, expected) => {
    const told = problems(text);
    expect(told[0]).toContain(expected);
    expect(told.join()).not.toContain('s3cret');
  });

  it('R56: a broken block costs only itself', () => {
    const text = `provider "a" {\n  version = v1\n  hashes = []\n}\nprovider "b" {\n  version = "1"\n}\nprovider "c" {\n  version = "1\n}\nprovider "d" {}\n`;
    expect(plain(parseHcl(text).body)).toEqual([
      ['provider', 'b', [{ version: '1' }]],
      ['provider', 'd', []],
    ]);
    expect(problems(text)).toEqual([
      expect.stringMatching(/^2:13 a value must stand here.* \(provider a\)$/),
      '9:13 the text that begins here is not closed on its line (provider c)',
    ]);
  });

  it('R56: a block that is not closed does not swallow the ones after it', () => {
    const text = 'provider "a" {\n  version = "1"\n\nprovider "b" {\n  version = "2"\n}\n';
    expect(plain(parseHcl(text).body)).toEqual([['provider', 'b', [{ version: '2' }]]]);
    expect(problems(text)).toEqual(['1:1 the block that begins here is not closed (provider a)']);
  });

  it('a broken attribute costs only itself', () => {
    const { body } = parseHcl('a = b\nc = 1\nd {\n  e = f\n}\ng = 2\nh {}\n');
    expect(plain(body)).toEqual([{ c: 1 }, ['h', []]]);
  });

  it('ends after so many problems, however many there are', () => {
    const started = performance.now();
    const { diagnostics } = parseHcl('a = <<EOT\n'.repeat(100_000));
    expect(diagnostics).toHaveLength(51);
    expect(diagnostics.at(-1)?.message).toContain('too many problems');
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  it('markers of any length and kind end their text', () => {
    for (const marker of ['m'.repeat(200_000), 'a-b', '_', 'é']) {
      const { body, diagnostics } = parseHcl(`a = <<${marker}\n${marker}x\n ${marker} y\n\t${marker} \r\nb = 1`);
      expect(diagnostics).toEqual([]);
      expect(plain(body)).toEqual([{ a: `${marker}x\n ${marker} y\n` }, { b: 1 }]);
    }
  });
});

describe('whatever comes', () => {
  const text = fc.string({ unit: 'binary', maxLength: 60 });
  const name = fc.stringMatching(/^[a-z_][a-z0-9_-]{0,8}$/);
  const leaf = fc.oneof(
    text,
    fc.boolean(),
    fc.constant(null),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
  );
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      leaf,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.uniqueArray(fc.tuple(text, tie('value')), { maxLength: 4, selector: ([key]) => key }).map(Object.fromEntries),
    ),
  }));
  const attribute = fc.tuple(name, value).map(([key, given]) => ({ [key]: given }));
  const body = fc.uniqueArray(attribute, { maxLength: 4, selector: (one) => Object.keys(one)[0] });
  const block = fc
    .tuple(name, fc.array(text, { maxLength: 2 }), body)
    .map(([type, labels, items]) => [type, ...labels, items]);

  const quoted = (given: string) =>
    JSON.stringify(given)
      .replaceAll(/[\b\f]/g, '')
      .replaceAll(/([$%])\{/g, '$1$1{')
      .replaceAll(/\\b|\\f/g, (found) => ({ '\\b': '\\u0008', '\\f': '\\u000c' })[found] ?? found);
  const written = (given: unknown): string => {
    if (typeof given === 'string') return quoted(given);
    if (Array.isArray(given)) return `[${given.map(written).join(', ')}]`;
    if (typeof given === 'object' && given !== null) {
      return `{ ${Object.entries(given)
        .map(([key, inner]) => `${quoted(key)} = ${written(inner)}`)
        .join(',\n')} }`;
    }
    return String(given);
  };
  const writtenItem = (item: unknown): string => {
    if (!Array.isArray(item)) {
      const [[key, given]] = Object.entries(item as object) as [[string, unknown]];
      return `${key} = ${written(given)}\n`;
    }
    const [type, ...labels] = item.slice(0, -1) as string[];
    const inner = (item.at(-1) as unknown[]).map(writtenItem).join('');
    return `${type} ${labels.map(quoted).join(' ')} {\n${inner}}\n`;
  };
  // Backslashes before b and f make the JSON escapes ambiguous for the writer above; halves of pairs are no characters.
  const isWritable = (given: unknown) =>
    !/\\\\|\\ud[89a-f]|\$\$|%%/i.test(JSON.stringify(given)) && !JSON.stringify(given).includes('-0');

  it('what was written is what is read', () => {
    fc.assert(
      fc.property(fc.array(block, { maxLength: 4 }).filter(isWritable), (items) => {
        expect(JSON.stringify(read(items.map(writtenItem).join('')))).toBe(JSON.stringify(items));
      }),
    );
  });

  it('nothing throws, and every place is within the text', () => {
    const pieces = fc.array(
      fc.constantFrom(...'{}[]="\\\n\r,:#$%<-a1 \t.'.split(''), '${', '<<E\n', '/*', '*/', 'a "b" {\n', 'é', '\uFEFF'),
      {
        maxLength: 60,
      },
    );
    fc.assert(
      fc.property(
        fc.oneof(
          pieces.map((parts) => parts.join('')),
          text,
        ),
        (given) => {
          const { body: items, diagnostics } = parseHcl(given);
          for (const { position } of diagnostics) {
            expect(position.offset).toBeLessThanOrEqual(given.length);
            expect(position.line).toBeGreaterThan(0);
          }
          for (const { range } of items) expect(range.start.offset).toBeLessThan(range.end.offset);
          const lines = given.split('\n').length;
          for (const { range } of items) expect(range.end.line).toBeLessThanOrEqual(lines);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('cut anywhere, what was whole before the cut is still read', () => {
    fc.assert(
      fc.property(fc.nat(LOCK.length), (length) => {
        const { body: items } = parseHcl(LOCK.slice(0, length));
        const whole = parseHcl(LOCK).body.filter(({ range }) => range.end.offset <= length);
        expect(plain(items)).toEqual(plain(whole));
      }),
    );
  });
});
