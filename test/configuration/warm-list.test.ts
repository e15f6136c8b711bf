import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readWarmList } from '../../src/configuration/warm-list.ts';
import { DEFAULT, plain, told } from './plain.ts';

function read(text: string) {
  const list = readWarmList(text, 'list', DEFAULT);
  return { plain: plain(list), told: told(list), platforms: list.platforms.map(String) };
}

describe('a plain list', () => {
  it('R69: is read line by line, and what cannot be used is told with its line', () => {
    const text = `registry.terraform.io/-/aws
terraform.io/builtin/terraform
 hashicorp/AWS@~>5.0 
up.example.test:8443/acme/gadget@2.3.1-RC1
acme/net/aws

#comment
hashicorp/hcloud # implied
local.example.invalid/x/y
`;
    const expected = {
      plain: [
        'hashicorp/aws ~> 5.0',
        'hashicorp/hcloud',
        'local.example.invalid/x/y',
        'up.example.test:8443/acme/gadget 2.3.1-RC1',
      ],
      told: [
        'list:1: note: -/aws stands for no provider of today and is left out; write NAMESPACE/TYPE',
        'list:5: acme/net/aws may be the provider net/aws of the host acme or the module net of acme: write HOST/NAMESPACE/NAME/SYSTEM for the module; the host of a provider has a dot or a port',
      ],
    };
    expect(read(text)).toMatchObject(expected);
    expect(read(`\uFEFF${text.replaceAll('\n', '\r\n')}`)).toMatchObject(expected);
  });

  it('R57: the same provider of two registries is two providers', () => {
    expect(read('registry.terraform.io/a/b@1.0.0\nregistry.opentofu.org/a/b@1.0.0').plain).toHaveLength(2);
  });

  it('two constraints for one provider are two wishes; the same one twice is one', () => {
    expect(read('a/b @ >= 1.0, < 2.0\na/b@~> 3.0\na/b@~>3.0').plain).toEqual(['a/b >= 1.0, < 2.0', 'a/b ~> 3.0']);
  });

  it('four parts are a module', () => {
    expect(read('up.example.test/Acme/net/aws//modules/x@~> 1.0 // sub\nup.example.test/Acme/net/aws').plain).toEqual([
      'module up.example.test/acme/net/aws',
      'module up.example.test/acme/net/aws//modules/x ~> 1.0',
    ]);
  });

  it.each([
    [
      'random',
      'list:1: write NAMESPACE/TYPE for a provider (perhaps hashicorp/random), HOST/NAMESPACE/NAME/SYSTEM for a module',
    ],
    ['a/b@latest', 'list:1: "latest" is not a valid version constraint: "latest" is not a version'],
    ['a/b@^1', 'list:1: "^1" is not a valid version constraint: "^" is no operator; did you mean "~>"?'],
    ['a/b/c/d/e', 'list:1: "a/b/c/d/e" is not a valid provider source: write it as [HOSTNAME/]NAMESPACE/TYPE'],
    [
      'a/terraform-provider-b',
      'list:1: "a/terraform-provider-b" is not a valid provider source: write the type without its prefix: b',
    ],
    [
      'a b/c',
      'list:1: "a b" is not a valid provider namespace: only letters, digits and dashes are allowed, and no dash at the beginning or end',
    ],
  ])('%s is told', (line, expected) => {
    expect(read(line)).toEqual({ plain: [], told: [expected], platforms: [] });
  });
});

describe('a list in JSON or YAML', () => {
  const LIST = {
    providers: ['hashicorp/aws@~> 5.0', { source: 'up.example.test/acme/w', version: '>= 1.0' }, 'random'],
    modules: ['acme/net/aws@1.10', { source: 'up.example.test/acme/net/aws' }],
    platforms: ['linux_amd64', 'darwin_arm64', 'linux_amd64'],
  };
  const READ = {
    plain: [
      'hashicorp/aws ~> 5.0',
      'hashicorp/random',
      'module acme/net/aws 1.10',
      'module up.example.test/acme/net/aws',
      'up.example.test/acme/w >= 1.0',
    ],
    told: [],
    platforms: ['linux_amd64', 'darwin_arm64'],
  };
  const YAML = `# what we need
platforms: [linux_amd64, darwin_arm64]
providers:
  - hashicorp/aws@~> 5.0
  - { source: up.example.test/acme/w, version: ">= 1.0" }
  - random # of hashicorp
modules:
  - source: acme/net/aws
    version: 1.10
  - source: up.example.test/acme/net/aws
`;

  it.each([
    ['JSON', JSON.stringify(LIST)],
    ['JSON on many lines', JSON.stringify({ '//': 'comment', ...LIST }, undefined, 2)],
    ['YAML', YAML],
    ['YAML of Windows', `\uFEFF---\n${YAML}`.replaceAll('\n', '\r\n')],
  ])('is read as %s; versions are texts even without quotes', (_how, text) => {
    expect(read(text)).toEqual(READ);
  });

  it.each([
    ['providers:', []],
    ['providers: null\nmodules: []', []],
    ['providers: a/b', ['list:1:12: a list must stand here']],
    ['providers:\n  - [a/b]', ['list:2:5: write ADDRESS@CONSTRAINT, or an object with source and version']],
    ['providers:\n  - version: 1.0', ['list:2:5: source is missing: the address of what is wanted']],
    [
      '{"providers": [{"source": "a/b", "versions": "1"}]}',
      ['list:1:34: this key is unknown; known here are source and version'],
    ],
    ['provders:\r\n - a/b', ['list:1:1: this key is unknown; known are providers, modules and platforms']],
    ['provders: [a/b]', ['list:1:1: this key is unknown; known are providers, modules and platforms']],
    ['providers: []\nprovider: []', ['list:2:1: this key is unknown; known are providers, modules and platforms']],
    [
      'platforms: [linux]',
      ['list:1:13: "linux" is not a valid platform: write it as OS_ARCH, for example linux_amd64'],
    ],
    [
      'modules: [./x]',
      ['list:1:11: this is a directory; only modules of registries are mirrored: HOST/NAMESPACE/NAME/SYSTEM'],
    ],
    [
      'modules: ["git::https://u:secret@x.test/y"]',
      ['list:1:11: this is a git repository; only modules of registries are mirrored: HOST/NAMESPACE/NAME/SYSTEM'],
    ],
    [
      '{"providers": [',
      [expect.stringMatching(/^list:1:\d+: this is neither JSON nor YAML|^list:1:\d+: the indentation/)],
    ],
    [
      '- a\nproviders: []',
      [
        expect.stringMatching(/^list:\d:\d+: /),
        'list:1:1: an object with providers, modules and platforms must stand here',
      ],
    ],
    ['---\nproviders: [a/b]\n---\nproviders: [a/c]', ['list:3:1: there is a second document; remove the --- line']],
    ['providers: [*x, !!binary aGk=]', expect.arrayContaining([expect.stringMatching(/^list:1:13: /)])],
  ])('%j', (text, expected) => {
    expect(read(text).told).toEqual(expected);
  });
});

describe('nothing makes it throw or hang', () => {
  it('whatever the text is', () => {
    const pieces = fc.constantFrom(
      'providers:',
      '\n',
      '  - ',
      'a/b',
      '@',
      '~> 1',
      '{',
      '}',
      '[',
      ']',
      '"',
      '&x',
      '*x',
      '!!t ',
      '? ',
      ': ',
      '|',
      '>',
      '#',
      '---',
      '<<: ',
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(pieces, { maxLength: 40 }).map((all) => `providers: ${all.join('')}`),
        ),
        (text) => {
          expect(read(text).told.length).toBeLessThanOrEqual(101);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('deep nesting, many keys, many aliases and many lines take little time', () => {
    const start = performance.now();
    const many = (piece: (index: number) => string, count: number) =>
      Array.from({ length: count }, (_, index) => piece(index)).join('');
    expect(read(`providers: ${'['.repeat(20_000)}`).told).not.toEqual([]);
    expect(read(`providers:\n${'- '.repeat(20_000)}`).told).not.toEqual([]);
    expect(read(`providers:\n${many((index) => `k${index}: 1\n`, 10_000)}`).told).toHaveLength(101);
    expect(read(`providers: &a []\n${many(() => 'modules: *a\n', 1_000)}`).told).not.toEqual([]);
    expect(read(many((index) => `a/b${index}@1.0.${index}\n`, 10_000)).plain).toHaveLength(10_000);
    expect(read('a/b\n'.repeat(300_000)).told).toEqual([
      'list: this is longer than 1048576 characters, and is not read',
    ]);
    expect(performance.now() - start).toBeLessThan(15_000);
  });

  it('brackets that used up the stack of the parser, and the process with it, are told of', () => {
    for (const text of [
      '{'.repeat(32_000),
      `providers:\n${'[{'.repeat(100_000)}`,
      `providers:\n${'? '.repeat(100_000)}`,
    ]) {
      expect(read(text).told).toEqual([expect.stringContaining('brackets are nested too deeply')]);
    }
    const indented = Array.from({ length: 1_000 }, (_, level) => `${' '.repeat(level)}a:\n`).join('');
    expect(read(`providers:\n${indented}`).told).toEqual([expect.stringContaining('brackets are nested too deeply')]);
  });

  it('a long list in one line is not nested deeply', () => {
    const items = Array.from({ length: 5_000 }, (_, index) => ({ source: `a/b${index}`, version: '1.0.0' }));
    expect(read(JSON.stringify({ providers: items })).told).toEqual([]);
  });

  it.each([' \n', '\n', ' ', '\r', '\n '])('much of nothing takes little time: %j', (piece) => {
    const start = performance.now();
    read(piece.repeat(500_000 / piece.length));
    // Looked for from each place of it to its end, it took hours.
    expect(performance.now() - start).toBeLessThan(10_000);
  });
});
