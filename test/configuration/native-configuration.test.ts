// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is the syntax under test
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { HclConverter } from '../../src/configuration/hcl-converter.ts';
import { resolveModule } from '../../src/configuration/module-configuration.ts';
import { readNativeConfiguration } from '../../src/configuration/native-configuration.ts';
import { readOutline } from '../../src/configuration/native-outline.ts';
import { formatDiagnostic } from '../../src/configuration/requirements.ts';
import { DEFAULT, plain } from './plain.ts';

const converters: HclConverter[] = [];
function converterOf(options?: ConstructorParameters<typeof HclConverter>[0]): HclConverter {
  const converter = new HclConverter(options);
  converters.push(converter);
  return converter;
}
afterAll(() => Promise.all(converters.map((converter) => converter.close())));

const real = converterOf();

async function read(text: string, converter = real) {
  const { declarations, diagnostics } = await readNativeConfiguration(text, 'main.tf', converter);
  const module = resolveModule(declarations, DEFAULT);
  const { providers, registryCalls: modules } = module;
  return {
    plain: plain({ providers, modules }),
    told: [...diagnostics, ...module.diagnostics].map(formatDiagnostic),
    providers,
  };
}

/** A parser that is this program. */
function parser(program: string): string {
  return `data:text/javascript,${encodeURIComponent(program)}`;
}

const REQUIRED = 'terraform {\n  required_providers {\n    aws = {\n      source = "acme/aws"\n    }\n  }\n}\n';
const ROUGHLY = 'main.tf: warning: only the outline of this file is used: what it requires may not be complete';

describe('a file in native syntax', () => {
  it('R68: functions of providers, quotes and braces in heredocs, nested templates, aliases, CRLF', async () => {
    const text = `terraform {
  required_providers {
    aws = {
      source                = "hashicorp/aws"
      version               = "~> 5.0"
      configuration_aliases = [aws.a]
    }
  }
}

resource "random_id" "x" {
  arn    = provider::aws::arn_parse("x").account
  script = <<-EOT
    echo "it's" } } "
    \${join("}", [for k, v in var.m : "\${k}=\${"{"}"])}
  EOT
}

module "m" {
  source = "acme/net/aws"
}
`;
    const expected = { plain: ['hashicorp/aws ~> 5.0', 'hashicorp/random', 'module acme/net/aws'], told: [] };
    expect(await read(text)).toMatchObject(expected);
    expect(await read(text.replaceAll('\n', '\r\n'))).toMatchObject(expected);
  });

  it('says where things stand', async () => {
    const { providers } = await read(`${REQUIRED}\nresource "tls_x" "y" {}\nresource "tls_x" "z" {}\n`);
    expect(providers.map(({ origins }) => origins)).toEqual([
      [{ file: 'main.tf', at: '3:5' }],
      [{ file: 'main.tf', at: '9:1' }],
    ]);
  });

  it('R68: what the parser does not accept is told with line and column, and the rest is still required', async () => {
    const text = `resource "tls_x" "y" {\n  a = = 1\n}\n${REQUIRED}module "m" {\n  source = "acme/net/aws"\n}\n`;
    expect(await read(text)).toMatchObject({
      plain: ['acme/aws', 'hashicorp/tls', 'module acme/net/aws'],
      told: [expect.stringMatching(/^main\.tf:2:7: Invalid expression; .*[^.]$/), ROUGHLY],
    });
  });

  it.each([
    ['a text that is not closed', 'resource "tls_x" "y" {\n  a = "x\n}\n'],
    ['a block that is not closed', 'resource "tls_x" "y" {\n  b {\n}\n'],
    ['a brace too many', 'locals {\n}\n}\n'],
    ['a heredoc without an end in a block', 'locals {\n  a = <<EOT\n}\n'],
    ['something that is no HCL', '<<<<<<< HEAD\n'],
  ])('R68: %s costs no more than its block', async (_what, text) => {
    const { plain, told } = await read(text + REQUIRED);
    expect(plain).toContain('acme/aws');
    expect(told).toEqual(expect.arrayContaining([expect.stringMatching(/^main\.tf:\d+:\d+: [A-Z]/), ROUGHLY]));
  });

  it('a parser that is not installed is told, and how to have it', async () => {
    const { plain, told } = await read(REQUIRED, converterOf({ module: '@example/not-there' }));
    expect(plain).toEqual(['acme/aws']);
    expect(told).toEqual([
      'main.tf: warning: the optional package @example/not-there is not installed, and without it native syntax is only read roughly; run npm install',
      ROUGHLY,
    ]);
  });
});

describe('the parser cannot harm anybody', () => {
  it('nesting that overflows its stack is reported, and the next file is read', async () => {
    const deep = `x = ${'['.repeat(20_000)}${']'.repeat(20_000)}\n${REQUIRED}`;
    expect(await read(deep)).toMatchObject({
      plain: ['acme/aws'],
      told: [expect.stringMatching(/^main\.tf: warning: the parser gave up on this file \(.*\)$/), ROUGHLY],
    });
    expect(await read(REQUIRED)).toMatchObject({ plain: ['acme/aws'], told: [] });
  });

  it.each([
    ['hangs', 'for (;;);', 'it took longer than 1 s'],
    ['ends its thread', 'process.exit(3);', 'the parser ended'],
    [
      'throws where nobody catches',
      'setTimeout(() => { throw new Error("late"); }); return new Promise(() => {});',
      'the parser ended: late',
    ],
    ['is dead already', 'throw new Error("Go program has already exited");', 'Go program has already exited'],
  ])('one that %s', async (_how, body, reason) => {
    const program = `export async function parse(file, text) { if (text.startsWith('#')) return {}; ${body} }`;
    const converter = converterOf({ module: parser(program), timeLimitMs: reason.includes('longer') ? 1_000 : 20_000 });
    // The thread itself has to start within the limit.
    for (let tries = 0; tries < 5 && 'failed' in (await converter.convert('#', 'x')); tries += 1);
    const conversions = await Promise.all(['x', 'y'].map((text) => converter.convert(text, 'a.tf')));
    expect(conversions).toEqual([{ failed: reason }, { failed: reason }]);
  });

  it('a file that kills the thread does not spoil the one after it', async () => {
    const program = `let dead = false; export async function parse(file, text) {
      if (dead) throw new Error('Go program has already exited');
      dead = true; return { text };
    }`;
    const converter = converterOf({ module: parser(program) });
    expect(await converter.convert('1', 'a.tf')).toEqual({ json: '{"text":"1"}' });
    expect(await converter.convert('2', 'a.tf')).toEqual({ json: '{"text":"2"}' });
  });

  it('a file beyond a megabyte is not given to it', async () => {
    const { plain, told } = await read(`${REQUIRED}#${' '.repeat(1024 * 1024)}`);
    expect(plain).toEqual(['acme/aws']);
    expect(told[0]).toBe('main.tf: warning: the parser gave up on this file (it is longer than 1048576 characters)');
  });

  it('once it is closed nothing starts it again', async () => {
    const converter = converterOf();
    await converter.close();
    expect(await converter.convert('a = 1', 'a.tf')).toEqual({ failed: 'Larder is shutting down' });
  });
});

describe('the outline', () => {
  it('whatever the text is, it is read without an exception', () => {
    const pieces = fc.constantFrom(
      'terraform',
      ' {',
      '}',
      '\n',
      ' = ',
      '"',
      '${',
      '<<E\n',
      'E\n',
      '[',
      ')',
      ',',
      '/*',
      '*/',
      '# x',
      '\\',
      '"a"',
      'a.b',
      ':',
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(pieces, { maxLength: 60 }).map((all) => all.join('')),
        ),
        (text) => {
          expect(readOutline(text).faults.length).toBeLessThanOrEqual(50);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('hostile texts take little time', () => {
    const start = performance.now();
    for (const piece of [
      'a {\n',
      'a = {\n',
      'a "b" ',
      '"${',
      'a = [',
      'a = <<E\n',
      'a = "',
      '/* ',
      'a {}\n',
      'a = b\n',
      '${"',
      'a b\n',
    ]) {
      expect(readOutline(piece.repeat(20_000)).faults.length).toBeLessThanOrEqual(50);
    }
    expect(performance.now() - start).toBeLessThan(15_000);
  });
});
