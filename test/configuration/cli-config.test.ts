// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is the syntax under test
import { mkdtemp, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readCliConfig } from '../../src/configuration/cli-config.ts';
import { CliConfigFile } from '../../src/configuration/cli-config-file.ts';
import { hasCode } from '../../src/errors.ts';
import { type LogEntry, recordingLogger } from '../support/larder.ts';

function read(text: string) {
  const { credentials, helper, diagnostics } = readCliConfig(text);
  return { credentials: Object.fromEntries(credentials), helper, problems: diagnostics.map(({ message }) => message) };
}

const FULL = `plugin_cache_dir = "$HOME/.terraform.d/plugin-cache"
disable_checkpoint = true

provider_installation {
  network_mirror {
    url     = "https://larder.corp.example/providers/"
    include = ["registry.terraform.io/*/*"]
  }
  direct {
    exclude = ["registry.terraform.io/*/*"]
  }
}

host "registry.corp.example" {
  services = { "modules.v1" = "https://registry.corp.example/v1/modules/" }
}

credentials "Registry.Corp.Example:443" {
  token = "one"
}
credentials "registry.corp.example:8443" { token = "two" }
credentials "bücher.example" {
  # rotated in May
  token = "three"
}

credentials_helper "corp-vault" {
  args = ["--mount", "terraform"]
}
`;

const FOUND = {
  'registry.corp.example': 'one',
  'registry.corp.example:8443': 'two',
  'xn--bcher-kva.example': 'three',
};

describe('a CLI configuration file', () => {
  it.each([FULL, FULL.replaceAll('\n', '\r\n'), `\uFEFF${FULL}`])(
    'R29: gives its tokens by exact host and port',
    (text) => {
      expect(read(text)).toEqual({
        credentials: FOUND,
        helper: { name: 'corp-vault', args: ['--mount', 'terraform'] },
        problems: [],
      });
    },
  );

  it.each([
    [
      'as the clients write it',
      {
        credentials: {
          'registry.corp.example': { token: 'one' },
          'registry.corp.example:8443': { token: 'two' },
          'bücher.example': { token: 'three' },
        },
      },
    ],
    [
      'with lists of blocks',
      {
        credentials: [
          { 'Registry.corp.example': [{ token: 'one' }] },
          { 'registry.corp.example:8443': { token: 'two' }, 'xn--bcher-kva.example:443': { token: 'three' } },
        ],
      },
    ],
  ])('JSON is understood, too: %s', (_what, document) => {
    expect(read(JSON.stringify(document))).toEqual({ credentials: FOUND, helper: undefined, problems: [] });
    expect(read(`\uFEFF\n ${JSON.stringify(document)}`).credentials).toEqual(FOUND);
  });

  it('a helper in JSON', () => {
    expect(read('{"credentials_helper": {"corp": {"args": ["a"]}}}').helper).toEqual({ name: 'corp', args: ['a'] });
    expect(read('{"credentials_helper": {"corp": {}}, "provider_installation": [1]}').helper).toEqual({
      name: 'corp',
      args: [],
    });
  });

  it('nothing in it is nothing', () => {
    for (const text of ['', '# nothing yet\n', '{}'])
      expect(read(text)).toEqual({ credentials: {}, helper: undefined, problems: [] });
  });

  it('what is broken elsewhere does not matter', () => {
    expect(
      read('provider_installation {\n  direct = foo(s3cret)\n}\ncredentials "a.example" { token = "t" }\n'),
    ).toEqual({
      credentials: { 'a.example': 't' },
      helper: undefined,
      problems: [],
    });
  });

  it.each([
    ['credentials "a.example" { token = s3cret }', 'a value must stand here'],
    ['credentials "a.example" { token = "s3cret }', 'not closed on its line'],
    ['credentials "a.example" { token = "s3cret${x}" }', 'must have a token'],
    ['credentials "a.example" { token = "s3cret two" }', 'must have a token'],
    ['credentials "a.example" { token = "" }', 'must have a token'],
    ['credentials "a.example" {}', 'must have a token'],
    ['credentials "https://a.example/s3cret" { token = "x" }', 'must be HOST or HOST:PORT'],
    ['credentials { token = "s3cret" }', 'must be a block with one label'],
    ['credentials "a" "b" { token = "s3cret" }', 'must be a block with one label'],
    ['credentials = "s3cret"', 'must be a block with one label'],
    ['credentials "A.example" { token = "x" }\ncredentials "a.example:443" { token = "s3cret" }', 'already'],
    ['credentials_helper "../../bin/s3cret" {}', 'must be a name'],
    ['credentials_helper "a" {}\ncredentials_helper "b" {}', 'there can be but one'],
    ['credentials_helper "a" { args = "s3cret" }', 'must be a list'],
    ['credentials_helper "a" { args = [1] }', 'must be a list'],
    ['}', 'the name of an attribute'],
    ['{"credentials": {"a.example": {"token": "s3cret"}}', 'not valid JSON'],
    ['{"credentials": "s3cret"}', 'must be an object'],
    ['{"credentials": {"a.example": "s3cret"}}', 'must be an object'],
    ['{"credentials": {"a.example": {"token": ["s3cret"]}}}', 'must have a token'],
    [`${'{"a":'.repeat(100_000)}`, 'not valid JSON'],
  ])('case %#: what is wrong is told, never quoted', (text, message) => {
    const { problems } = read(text);
    expect(problems).toEqual([expect.stringContaining(message)]);
    expect(problems.join()).not.toContain('s3cret');
  });
});

describe('the file of it', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'larder-cli-config-'));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  async function open(text: string) {
    const file = path.join(directory, 'cli.tfrc');
    await writeFile(file, text);
    const log: LogEntry[] = [];
    const opened = await CliConfigFile.open({ file, logger: recordingLogger(log) });
    const token = async () => (await opened.read()).credentials.get('a.example');
    return { file, log, token };
  }
  const block = (token: string) => `credentials "a.example" { token = "${token}" }\n`;

  it('is read again when it has changed, even within the same second and to the same length', async () => {
    const { file, log, token } = await open(block('one'));
    expect(await token()).toBe('one');
    await writeFile(`${file}.new`, block('two'));
    await rename(`${file}.new`, file);
    expect(await token()).toBe('two');
    await writeFile(file, block('three'));
    expect(await token()).toBe('three');
    expect(log).toEqual([]);
  });

  it('stays in use as it was while it cannot be used, and this is said once', async () => {
    const { file, log, token } = await open(block('one'));
    await writeFile(file, `${block('two')}credentials "b.example" { token = s3cret }\n`);
    for (let time = 0; time < 3; time += 1) expect(await token()).toBe('one');
    expect(log.map(({ level }) => level)).toEqual(['warn']);
    expect(String(log[0]?.fields['error'])).toContain('cli.tfrc:2:35: a value must stand here');
    await rm(file);
    for (let time = 0; time < 3; time += 1) expect(await token()).toBe('one');
    expect(log).toHaveLength(2);
    await writeFile(file, block('three'));
    expect(await token()).toBe('three');
    expect(JSON.stringify(log)).not.toContain('s3cret');
  });

  it('when it comes back as it was, all is well again', async () => {
    const { file, token, log } = await open(block('one'));
    const then = new Date(1_700_000_000_000);
    await utimes(file, then, then);
    expect(await token()).toBe('one');
    await rename(file, `${file}.away`);
    expect(await token()).toBe('one');
    await rename(`${file}.away`, file);
    expect(await token()).toBe('one');
    expect(log).toHaveLength(1);
  });

  it('refuses at start what it cannot use', async () => {
    const logger = recordingLogger([]);
    const cases: [string, RegExp][] = [
      [path.join(directory, 'absent.tfrc'), /absent\.tfrc cannot be read/],
      [directory, /is not a file/],
      ['/dev/null', /is not a file/],
    ];
    for (const [file, message] of cases) {
      const error = await CliConfigFile.open({ file, logger }).catch((thrown: unknown) => thrown);
      expect(hasCode(error, 'INVALID_CONFIGURATION') && error.message).toMatch(message);
    }
    const file = path.join(directory, 'broken.tfrc');
    await writeFile(file, 'credentials "a.example" {\n  token = s3cret\n}\n');
    await expect(CliConfigFile.open({ file, logger })).rejects.toThrow(/broken\.tfrc:2:11: a value must stand here/);
  });
});
