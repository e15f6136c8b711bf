// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is the syntax under test
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readJsonConfiguration } from '../../src/configuration/json-configuration.ts';
import { resolveModule } from '../../src/configuration/module-configuration.ts';
import { DEFAULT, plain, told } from './plain.ts';

function read(text: string) {
  const { declarations, diagnostics } = readJsonConfiguration(text, 'main.tf.json');
  const module = resolveModule(declarations, DEFAULT);
  const { providers, registryCalls: modules } = module;
  return {
    plain: plain({ providers, modules }),
    told: told({ diagnostics: [...diagnostics, ...module.diagnostics] }),
    providers,
  };
}

describe('JSON configuration', () => {
  it('R22: comments at every level, a short source, several provider blocks', () => {
    const text =
      '{"//":{"m":1},"terraform":{"required_providers":{"aws":{"version":"~> 2.70.0","source":"aws"}}},"provider":{"aws":[{"alias":"a"},{"alias":"b"}]},"resource":{"random_id":{"x":{"//":{"p":1}}}}}';
    expect(read(text)).toMatchObject({ plain: ['hashicorp/aws ~> 2.70.0', 'hashicorp/random'], told: [] });
  });

  it('comments where labels, blocks and entries stand', () => {
    const comment = { '//': 'x' };
    const text = JSON.stringify({
      terraform: [comment, { ...comment, required_providers: { ...comment, w: { ...comment, source: 'acme/w' } } }],
      provider: { ...comment, w: comment },
      module: { ...comment, m: { ...comment, source: 'acme/net/aws' } },
      resource: { ...comment, random_id: { ...comment, x: comment } },
    });
    expect(read(text)).toMatchObject({ plain: ['acme/w', 'hashicorp/random', 'module acme/net/aws'], told: [] });
  });

  const required = (value: unknown) => JSON.stringify({ terraform: { required_providers: value } });
  const source = { source: 'acme/w', version: '1.0.0' };
  it.each([
    ['the whole document', JSON.stringify([{ terraform: { required_providers: { w: source } } }, {}])],
    ['terraform', JSON.stringify({ terraform: [{}, null, { required_providers: { w: source } }] })],
    ['required_providers', required([{ w: source }])],
    ['an entry', required({ w: [source] })],
    [
      'provider',
      JSON.stringify({
        terraform: { required_providers: { w: source } },
        provider: [{ w: {} }, { w: [{ alias: 'a' }] }],
      }),
    ],
    [
      'the resource types',
      JSON.stringify({
        terraform: { required_providers: { w: source } },
        resource: [{ w_x: { a: {} } }, { w_y: [{ b: {} }, { c: [{}] }] }],
      }),
    ],
  ])('a list in place of the object of %s', (_where, text) => {
    expect(read(text)).toMatchObject({ plain: ['acme/w 1.0.0'], told: [] });
  });

  it.each(['', '\uFEFF'])('`"terraform": null` requires nothing, and says nothing %j', (mark) => {
    expect(
      read(`${mark}{"terraform":null,"module":null,"provider":{"aws":null},"resource":{"a_b":null}}`),
    ).toMatchObject({
      plain: [],
      told: [],
    });
  });

  it('a key that is given twice is told with its line; blocks of both are read, of arguments the first', () => {
    const text =
      '{"module":{"a":{"source":"acme/a/aws"}},\n"module":{"b":{"source":"acme/b/aws",\n"source":"acme/c/aws"}}}';
    expect(read(text)).toMatchObject({
      plain: ['module acme/a/aws', 'module acme/b/aws'],
      told: [
        'main.tf.json:2:1: warning: "module" is given twice in this object, first in line 1; keep one',
        'main.tf.json:3:1: warning: "source" is given twice in this object, first in line 2; keep one',
      ],
    });
  });

  it('a module that is called twice is called once, with an error', () => {
    const text = '{"module":[{"a":{"source":"acme/a/aws"}},\n{"a":{"source":"acme/b/aws"}}]}';
    const { declarations } = readJsonConfiguration(text, 'main.tf.json');
    expect(declarations.moduleCalls.map(({ source, origin }) => [source, origin.at])).toEqual([
      ['acme/a/aws', '1:17'],
      ['acme/b/aws', '2:6'],
    ]);
  });

  it.each([
    ['{"terraform": "x"}', '1:15: an object or a list of objects must stand here'],
    ['{"module": {"a": [[{}]]}}', '1:19: module "a" has no source; write where it comes from'],
    ['{"module": {"a": 7}}', '1:18: an object or a list of objects must stand here'],
    ['{"module": [[{}]]}', '1:13: this list stands within another one; write an object here'],
    ['{"terraform":{"required_providers":{"w":7}}}', '1:41: w must be an object with source and version'],
    ['{"terraform":{"required_providers":{"w":{"source":7}}}}', '1:51: source must be a text'],
    ['{"resource":{"a_b":{"c":{"provider":["x"]}}}}', '1:37: provider must be NAME or NAME.ALIAS'],
    [
      '{"module":{"a":{"source":"acme/net"}}}',
      '1:16: the source of module "a": write [HOSTNAME/]NAMESPACE/NAME/SYSTEM, or ./DIRECTORY for a module beside this one',
    ],
    ['7', '1:1: an object or a list of objects must stand here'],
    [
      '{"terraform": ]',
      '1:15: a value must stand here: a text in double quotes, a number, true, false, null, [ ] or { }',
    ],
  ])('%s is told with its place', (text, expected) => {
    const { told } = read(text);
    expect(told).toEqual([`main.tf.json:${expected}`]);
  });

  it('what stands before an error is required all the same; what it cuts through is not guessed', () => {
    const text =
      '{"terraform":{"required_providers":{"w":{"source":"acme/w"},"v":{"source":"acme/v",}}},\n"module":{"m":{"source":"acme/net/aws", oops';
    expect(read(text)).toMatchObject({
      plain: ['acme/v', 'acme/w'],
      told: [
        'main.tf.json:1:83: there must be no comma before }; remove it',
        'main.tf.json:2:41: a key in double quotes must stand here',
      ],
    });
  });

  it('sources that hold secrets are not quoted', () => {
    const text = required({ w: { source: 'https://user:hunter2@up.example.test/w' } });
    const module = JSON.stringify({
      module: { m: { source: 'https://user:hunter2@up.example.test/m.zip' }, n: { source: 'up:hunter2@x/y/z' } },
    });
    expect([...read(text).told, ...read(module).told]).toHaveLength(3);
    expect([...read(text).told, ...read(module).told].join()).not.toContain('hunter2');
  });

  it('twenty thousand resources say once who needs them', () => {
    const resources = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`r${index}`, {}]));
    const { plain, providers } = read(JSON.stringify({ resource: { random_id: resources } }));
    expect(plain).toEqual(['hashicorp/random']);
    expect(providers[0]?.origins).toHaveLength(1);
  });

  it('whatever the document is, it is read without an exception', () => {
    const key = fc.constantFrom(
      'terraform',
      'required_providers',
      'provider',
      'module',
      'resource',
      'source',
      'version',
      '//',
      '__proto__',
      'a_b',
      '',
    );
    const text = fc.constantFrom(
      'acme/w',
      '~> 1.0',
      'a/b/c',
      './x',
      '${x}',
      '',
      '/',
      '//',
      '-/x',
      'a/b/c/d/e',
      '\u0000',
    );
    const { document } = fc.letrec((tie) => ({
      document: fc.oneof(
        { maxDepth: 7 },
        text,
        fc.constant(null),
        fc.integer(),
        fc.array(tie('document'), { maxLength: 3 }),
        fc.dictionary(key, tie('document'), { maxKeys: 4 }),
      ),
    }));
    fc.assert(
      fc.property(document, fc.nat(200), (value, cut) => {
        const json = JSON.stringify(value);
        expect(read(json).told.length).toBeLessThan(500);
        expect(read(json.slice(0, cut)).told.length).toBeLessThan(500);
      }),
      { numRuns: 200 },
    );
  });
});
