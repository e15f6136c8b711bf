// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is the syntax under test
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lockRequirements, readLockFile } from '../../src/configuration/lock-file.ts';
import { DEFAULT, plain, told } from './plain.ts';

const H1 = 'h1:FrOpWuh2q5vyQkmu1mNewlXrXoBIxoOTA/oT4cQYiiU=';
const ZH = `zh:${'ab'.repeat(32)}`;

function read(text: string) {
  const lock = readLockFile(text, 'x.lock.hcl', DEFAULT);
  return { lock, requirements: plain(lockRequirements(lock)), told: told(lock) };
}

const MIXED = `# generated
provider "registry.terraform.io/acme/widget" { 
  version = "1.0.0"
  hashes = ["${H1}"]
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

describe('what says nothing', () => {
  it.each([
    [
      'with its comment',
      `# Made by "tofu init".# Edits may be lost.provider "h.test/acme/widget" {  version = "1.0.0"}`,
    ],
    ['with a byte order mark and a line end', `\uFEFF// provider "h.test/acme/widget" {}\r\n`],
  ])('is an error where its line ends were lost: %s', (_how, text) => {
    expect(read(text).told).toEqual([
      'x.lock.hcl:1:1: the whole file is one comment with provider blocks in it: its line ends were lost on the way (curl -d drops them, --data-binary does not)',
    ]);
  });

  it.each([
    ['nothing', ''],
    ['a header', '# This file is maintained automatically by "tofu init".\n# Manual edits may be lost.\n'],
    ['blocks that somebody took out', '# provider "h.test/acme/widget" {\n#   version = "1.0.0"\n# }\n'],
  ])('is none where nothing was lost: %s', (_what, text) => {
    expect(read(text)).toMatchObject({ told: [], requirements: [] });
  });

  it('is an error in what is no lock file at all', () => {
    expect(read('terraform {}\nmodule "m" {}\n').told.at(-1)).toBe(
      'x.lock.hcl:1:1: this is no lock file: it locks no provider, and holds other things',
    );
  });
});

describe('a lock file', () => {
  it.each([
    ['as it is', MIXED],
    ['with CRLF', MIXED.replaceAll('\n', '\r\n')],
    ['with a byte order mark', `\uFEFF${MIXED}`],
    ['with all kinds of comments', `/* a\n b */ ${MIXED.replaceAll('version', '/* c */ version')}// end\n# end`],
  ])('R57: gives three providers and one warning, %s', (_how, text) => {
    const { requirements, told } = read(text);
    expect(requirements).toEqual([
      'registry.opentofu.org/acme/widget != 0.9.0, >= 0.8.0, <= 1.0.0 =1.0.0 (0)',
      'registry.terraform.io/acme/widget =1.0.0 (1)',
      'up.example.test:8443/acme/gadget =2.3.1-RC1 (0)',
    ]);
    expect(told).toEqual([
      expect.stringMatching(
        /^x\.lock\.hcl:\d+:1: warning: "module" means nothing in a lock file and is ignored; it locks providers only$/,
      ),
    ]);
  });

  it('R55: needs neither constraints nor hashes', () => {
    const text = `provider "a.test/b/c" {\n version = "1.0.0"\n hashes = ["${ZH}"]\n}\nprovider "a.test/b/d" {\n version = "2.0.0"\n}`;
    expect(read(text)).toMatchObject({ requirements: ['a.test/b/c =1.0.0 (1)', 'a.test/b/d =2.0.0 (0)'], told: [] });
  });

  it('R58: keeps the hash of one platform, whatever platforms are wanted', () => {
    const { lock } = read(`provider "a.test/b/c" {\n version = "1.0.0"\n hashes = [\n "${H1}",\n ]\n}`);
    expect(lock.entries.map(({ hashes }) => hashes)).toEqual([[H1]]);
  });

  it.each([
    ['constraints = ""', 'version = "1.0.0"\nconstraints = ""', ['a.test/b/c =1.0.0 (0)'], []],
    ['hashes = []', 'version = "1.0.0"\nhashes = []', ['a.test/b/c =1.0.0 (0)'], []],
    ['a list on one line', `version = "1.0.0"\nhashes = ["${H1}", "${ZH}"]`, ['a.test/b/c =1.0.0 (2)'], []],
    [
      'version = "v1.2.3"',
      'version = "v1.2.3"',
      ['a.test/b/c =1.2.3 (0)'],
      ['2:11: warning: the CLI accepts this version only when it is written as 1.2.3'],
    ],
    [
      'no version',
      'constraints = "~> 1.0"',
      [],
      ['1:1: a.test/b/c has no version, and is left out; run init to have it locked again'],
    ],
    [
      'nonsense for a version',
      'version = "latest"',
      [],
      ['2:11: "latest" is not a version; write it as MAJOR.MINOR.PATCH'],
    ],
    ['a number for a version', 'version = 1', [], ['2:11: version must be a plain text in quotes']],
    ['a template', 'version = "${x}"', [], ['2:11: version must be a plain text in quotes']],
    [
      'an expression',
      'version = var.x',
      [],
      [
        '2:11: provider "a.test/b/c" is left out: a value must stand here: a text in quotes, a number, true, false, null, [ ] or { }',
      ],
    ],
    [
      'a constraint nobody understands',
      'version = "1.0.0"\nconstraints = "^1.0"',
      ['a.test/b/c =1.0.0 (0)'],
      ['3:15: "^1.0" is not a valid version constraint: "^" is no operator; did you mean "~>"?'],
    ],
    [
      'hashes that are none',
      `version = "1.0.0"\nhashes = ["h1:short", 7, "h9:later", "${ZH}"]`,
      ['a.test/b/c =1.0.0 (1)'],
      [
        '3:11: "h1:short" is not a valid hash: write h1: and 44 base64 characters, or zh: and 64 lower-case hex digits',
        '3:23: a hash must be a text in quotes',
        '3:26: note: hashes of this scheme are not known here',
      ],
    ],
    [
      'hashes that are no list',
      'version = "1.0.0"\nhashes = "x"',
      ['a.test/b/c =1.0.0 (0)'],
      ['3:10: hashes must be a list of texts'],
    ],
  ])('R56: %s', (_what, body, requirements, problems) => {
    const result = read(`provider "a.test/b/c" {\n${body}\n}`);
    expect(result.requirements).toEqual(requirements);
    expect(result.told).toEqual(problems.map((problem) => `x.lock.hcl:${problem}`));
  });

  it('R56: the second of two blocks for one provider is left out, in whatever case it is written', () => {
    const text = 'provider "a.test/b/c" {\n version = "1.0.0"\n}\nprovider "A.test/B/c" {\n version = "2.0.0"\n}';
    expect(read(text)).toMatchObject({
      requirements: ['a.test/b/c =1.0.0 (0)'],
      told: ['x.lock.hcl:4:1: a.test/b/c is locked in line 1 already; remove one of the blocks'],
    });
  });

  it('R69: providers that are built in are skipped silently, those of old with a note', () => {
    const block = (label: string) => `provider "${label}" {\n version = "1.0.0"\n}\n`;
    const labels = [
      'builtin/terraform',
      'terraform.io/builtin/terraform',
      'registry.terraform.io/-/aws',
      'acme/w',
      'a b',
    ];
    expect(read(labels.map(block).join(''))).toMatchObject({
      requirements: ['acme/w =1.0.0 (0)'],
      told: [
        'x.lock.hcl:7:1: note: -/aws stands for no provider of today and is left out',
        'x.lock.hcl:10:1: warning: the CLI writes this address as registry.example.test/acme/w, and accepts no other',
        expect.stringContaining('x.lock.hcl:13:1: "a b" is not a valid provider type'),
      ],
    });
  });

  it('a broken block does not take its neighbours with it', () => {
    const text = 'provider "a.test/b/c" {\n version = "1.0.0\n}\nprovider "a.test/b/d" {\n version = "1.0.0"\n}\n}';
    expect(read(text)).toMatchObject({
      requirements: ['a.test/b/d =1.0.0 (0)'],
      told: [expect.stringContaining(':2:12: provider "a.test/b/c" is left out'), expect.stringContaining(':7:1:')],
    });
  });

  it('whatever the text is, it is read without an exception', () => {
    const pieces = fc.constantFrom(
      'provider',
      ' "a.test/b/c" ',
      '{',
      '}',
      'version = "1.0.0"',
      'hashes = [',
      ']',
      '\n',
      '"',
      '<<E',
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(pieces).map((all) => all.join('')),
        ),
        (text) => {
          expect(read(text).requirements.length).toBeLessThan(20);
        },
      ),
      { numRuns: 300 },
    );
  });
});
