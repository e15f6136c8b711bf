import { afterAll, describe, expect, it } from 'vitest';
import { Version } from '../../src/address/version.ts';
import { type ConfigurationOptions, readConfiguration } from '../../src/configuration/configuration.ts';
import { HclConverter } from '../../src/configuration/hcl-converter.ts';
import { accepts } from '../../src/configuration/requirements.ts';
import { DEFAULT, plain, told } from './plain.ts';

// JSON is enough for most of what is shown here, and needs no parser.
const converter = new HclConverter({ module: 'no-such-package' });
afterAll(() => converter.close());

const required = (providers: Record<string, unknown>) => ({ terraform: { required_providers: providers } });
const aws = (version: string) => required({ aws: { source: 'acme/aws', version } });
const call = (source: string, version?: string) => ({ module: { m: { source, ...(version ? { version } : {}) } } });
const lockOf = (type: string, version: string) => `provider "${DEFAULT}/acme/${type}" {\n  version = "${version}"\n}\n`;

async function read(files: Record<string, unknown>, options: Partial<ConfigurationOptions> = {}) {
  const all = Object.entries(files).map(([path, content]) => ({
    path,
    text: typeof content === 'string' ? content : JSON.stringify(content),
  }));
  const requirements = await readConfiguration(all, {
    client: 'opentofu',
    defaultHostname: DEFAULT,
    converter,
    ...options,
  });
  return { plain: plain(requirements), told: told(requirements), providers: requirements.providers };
}

describe('which files of a directory count', () => {
  const FILES = {
    'main.tf.json': aws('4.0.0'),
    'main.tofu.json': aws('5.0.0'),
    'net.tf': 'resource "net_x" "y" {\n}\n',
    'net.tofu.json': { resource: { tofunet_x: { y: {} } } },
    '.hid.tf': 'resource "hidden_x" "y" {\n}\n',
    'x.tf~': 'resource "vim_x" "y" {\n}\n',
    '#y.tf#': 'resource "emacs_x" "y" {\n}\n',
    't.tftest.json': { resource: { test_x: { y: {} } } },
    't.tftest.hcl': 'resource "test_x" "y" {\n}\n',
    'x.auto.tfvars.json': { resource: { vars_x: { y: {} } } },
    'README.md': '# resource',
    '.terraform/modules/a/main.tf.json': aws('1.0.0'),
  };

  it('R66: OpenTofu reads .tofu in place of .tf of the same name', async () => {
    expect((await read(FILES)).plain).toEqual(['acme/aws 5.0.0', 'hashicorp/net', 'hashicorp/tofunet']);
  });

  it('R66: Terraform reads no .tofu', async () => {
    expect((await read(FILES, { client: 'terraform' })).plain).toEqual(['acme/aws 4.0.0', 'hashicorp/net']);
  });

  it('R66: override files change what is there, and count last', async () => {
    const { plain, told } = await read({
      'a_override.tf.json': { ...aws('6.0.0'), resource: { random_id: { x: { provider: 'dice' } } } },
      'main.tf.json': {
        ...aws('5.0.0'),
        module: { m: { source: 'acme/net/aws', version: '1.0.0' }, n: { source: 'acme/net/aws', version: '1.0.0' } },
        provider: { w: [{ version: '1.0.0' }, { alias: 'b', version: '2.0.0' }] },
        resource: { random_id: { x: {} } },
      },
      'override.tf.json': {
        module: { m: { version: '2.0.0' }, n: { source: './local' } },
        provider: { w: { version: '3.0.0' } },
      },
      'z.tf.json': { resource: { http_x: { y: {} } } },
    });
    expect(plain).toEqual([
      'acme/aws 6.0.0',
      'hashicorp/dice',
      'hashicorp/http',
      'hashicorp/w 2.0.0, 3.0.0',
      'module acme/net/aws 2.0.0',
    ]);
    expect(told).toEqual([expect.stringContaining('note: module "n" in ./local is not among the files given')]);
  });

  it('an override file for a module that is not there is told', async () => {
    const { told } = await read({ 'x_override.tf.json': call('acme/net/aws') });
    expect(told).toEqual([
      'x_override.tf.json:1:16: there is no module "m" that this override file could change; call it in another file',
    ]);
  });

  it('files of Windows have the same paths as any other', async () => {
    const { plain } = await read({ 'a\\main.tf.json': call('.\\..\\b'), './b//x.tf.json': aws('5.0.0') });
    expect(plain).toEqual(['acme/aws 5.0.0']);
  });
});

describe('the files of a directory together', () => {
  it('a name that one file declares means the same in all', async () => {
    const { plain } = await read({
      'a.tf.json': { resource: { random_id: { x: {} } } },
      'b.tf.json': required({ random: { source: 'acme/dice' } }),
    });
    expect(plain).toEqual(['acme/dice']);
  });

  it('a provider that is required twice is told; constraints of both hold when they mean the same provider', async () => {
    const both = await read({ 'a.tf.json': aws('>= 1.0'), 'b.tf.json': aws('< 2.0') });
    expect(both.plain).toEqual(['acme/aws < 2.0, >= 1.0']);
    expect(both.told).toEqual(['b.tf.json:1:43: aws is required in a.tf.json:1:43 already; keep one of them']);
    const other = await read({ 'a.tf.json': aws('1.0.0'), 'b.tf.json': required({ aws: { source: 'acme/other' } }) });
    expect(other.plain).toEqual(['acme/aws 1.0.0']);
  });

  it('a file that cannot be read is told, and the others count', async () => {
    const { plain, told } = await read({ 'a.tf.json': 'nonsense', 'b.tf.json': aws('5.0.0'), 'c.tf.json': '' });
    expect(plain).toEqual(['acme/aws 5.0.0']);
    expect(told).toEqual([
      expect.stringContaining('a.tf.json:1:1: a value must'),
      expect.stringContaining('c.tf.json:1:1: there is nothing'),
    ]);
  });

  it('R69: providers nobody declared are those of hashicorp; what is built in is left out', async () => {
    const { plain, told } = await read({
      'a.tf.json': {
        resource: { hcloud_x: { y: {} }, terraform_data: { d: {} } },
        ...required({ l: { source: 'local.example.invalid/x/y' }, old: { source: 'registry.terraform.io/-/aws' } }),
      },
    });
    expect(plain).toEqual(['hashicorp/hcloud', 'local.example.invalid/x/y']);
    expect(told).toEqual([expect.stringContaining('note: -/aws stands for no provider of today')]);
  });

  it('all kinds of trouble in one upload', async () => {
    const { plain } = await read({
      'cdk.tf.json':
        '{"//":{"m":1},"terraform":{"required_providers":{"aws":{"version":"~> 2.70.0","source":"aws"}}},"provider":{"aws":[{"alias":"a"},{"alias":"b"}]}}',
      'main.tf.json': required({ tls: '1.0.0' }),
      'main.tofu.json': required({ tls: '2.0.0' }),
      'bom.tf.json': '\uFEFF{"resource":{"http_x":{"y":{}}}}',
      'twice.tf.json': '{"resource":{"a_x":{"y":{}}},"resource":{"b_x":{"y":{}}}}',
      'null.tf.json': '{"terraform":null}',
    });
    expect(plain).toEqual([
      'hashicorp/a',
      'hashicorp/aws ~> 2.70.0',
      'hashicorp/b',
      'hashicorp/http',
      'hashicorp/tls 2.0.0',
    ]);
  });
});

describe('modules', () => {
  it('R70: local ones are followed when they are there and noted when they are not; cycles end', async () => {
    const { plain, told } = await read({
      'main.tf.json': { module: { a: { source: './a' }, gone: { source: './gone' } }, ...aws('>= 5.0') },
      'a/main.tf.json': { ...call('../a/deep'), ...aws('< 6.0') },
      'a/deep/main.tf.json': call('../../a'),
    });
    expect(plain).toEqual(['acme/aws < 6.0, >= 5.0']);
    expect(told).toEqual([
      'main.tf.json:1:40: note: module "gone" in ./gone is not among the files given; what it requires is not known',
    ]);
  });

  it('configurations side by side have constraints of their own; what is the same in both is there once', async () => {
    const { plain, providers } = await read({
      'a/main.tf.json': { ...aws('4.0.0'), resource: { tls_x: { y: {} } }, ...call('../lib') },
      'b/main.tf.json': { ...aws('5.0.0'), resource: { tls_x: { y: {} } }, ...call('../lib') },
      'lib/x.tf.json': required({ w: { source: 'acme/w' } }),
    });
    expect(plain).toEqual(['acme/aws 4.0.0', 'acme/aws 5.0.0', 'acme/w', 'hashicorp/tls']);
    expect(providers.find(({ address }) => address.type === 'tls')?.origins.map(({ file }) => file)).toEqual([
      'a/main.tf.json',
      'b/main.tf.json',
    ]);
  });

  it('directories that only call each other are read as well', async () => {
    const { plain } = await read({
      'a/x.tf.json': { ...call('../b'), ...aws('4.0.0') },
      'b/x.tf.json': call('../a'),
      'c/x.tf.json': required({ w: { source: 'acme/w' } }),
    });
    expect(plain).toEqual(['acme/aws 4.0.0', 'acme/w']);
  });

  it('only one directory and what it calls, when that is asked for', async () => {
    const files = { 'main.tf.json': aws('4.0.0'), 'sub/x.tf.json': call('../lib'), 'lib/x.tf.json': aws('5.0.0') };
    expect((await read(files, { directory: './sub/' })).plain).toEqual(['acme/aws 5.0.0']);
  });

  it('R70: those of registries are followed into their packages, subdirectory and local modules included', async () => {
    const asked: string[] = [];
    const { plain, told } = await read(
      { 'main.tf.json': { ...call('acme/net/aws//modules/sub', '~> 1.0'), ...aws('>= 5.0') } },
      {
        childPackage: async ({ address, subdir, constraint }) => {
          asked.push(`${address.written} ${constraint} ${subdir}`);
          if (address.name === 'other') return undefined;
          const json = (value: unknown) => JSON.stringify(value);
          const files = [
            { path: 'net/main.tf.json', text: 'broken, but not called' },
            {
              path: 'net/modules/sub/main.tf.json',
              text: json({
                ...aws('< 6.0'),
                module: {
                  a: { source: '../inner' },
                  b: { source: 'acme/other/aws' },
                  c: { source: 'acme/net/aws//modules/sub', version: '~> 1.0' },
                },
              }),
            },
            {
              path: 'net/modules/inner/main.tf.json',
              text: json(required({ w: { source: 'acme/w', version: '1.0.0' } })),
            },
          ];
          return { files, directory: `net/${subdir}` };
        },
      },
    );
    expect(plain).toEqual([
      'acme/aws < 6.0, >= 5.0',
      'acme/w 1.0.0',
      'module acme/net/aws//modules/sub ~> 1.0',
      'module acme/other/aws',
    ]);
    expect(asked).toEqual(['acme/net/aws ~> 1.0 modules/sub', 'acme/other/aws  undefined']);
    expect(told).toEqual([]);
  });

  it('a package that cannot be had, or lacks the directory, is told and keeps nothing else from being read', async () => {
    const files = {
      'main.tf.json': { module: { a: { source: 'acme/a/aws' }, b: { source: 'acme/b/aws//gone' } }, ...aws('5.0.0') },
    };
    const { plain, told } = await read(files, {
      childPackage: async ({ address }) => {
        if (address.name === 'a') throw new Error('up.example.test does not answer');
        return { files: [], directory: 'gone' };
      },
    });
    expect(plain).toEqual(['acme/aws 5.0.0', 'module acme/a/aws', 'module acme/b/aws//gone']);
    expect(told).toEqual([
      `main.tf.json:1:16: warning: what ${DEFAULT}/acme/a/aws requires is not known: up.example.test does not answer`,
      `main.tf.json:1:44: warning: ${DEFAULT}/acme/b/aws has no configuration in gone`,
    ]);
  });

  it('packages that call ever further ones come to an end', async () => {
    let count = 0;
    const { told } = await read(
      { 'main.tf.json': call('acme/m0/aws') },
      {
        childPackage: async () => {
          count += 1;
          return { files: [{ path: 'x.tf.json', text: JSON.stringify(call(`acme/m${count}/aws`)) }], directory: '.' };
        },
      },
    );
    expect(count).toBeLessThanOrEqual(1_000);
    expect(told).toEqual([expect.stringContaining('too many modules call each other; the rest is left out')]);
  });
});

describe('lock files', () => {
  it('say which version a configuration means, and what it needs besides', async () => {
    const { plain, told, providers } = await read({
      'main.tf.json': { ...aws('~> 5.0'), resource: { tls_x: { y: {} } } },
      '.terraform.lock.hcl': lockOf('aws', '5.1.0') + lockOf('w', '1.0.0'),
    });
    expect(plain).toEqual(['acme/aws ~> 5.0 =5.1.0 (0)', 'acme/w =1.0.0 (0)', 'hashicorp/tls']);
    expect(told).toEqual([]);
    const [first] = providers;
    expect(['5.1.0', '5.2.0'].map((version) => first && accepts(first, Version.parse(version)))).toEqual([true, false]);
  });

  it('that contradict their configuration are told', async () => {
    const { told } = await read({ 'main.tf.json': aws('~> 6.0'), '.terraform.lock.hcl': lockOf('aws', '5.1.0') });
    expect(told).toEqual([
      `.terraform.lock.hcl:1:1: warning: ${DEFAULT}/acme/aws is locked to 5.1.0, but ~> 6.0 is required; run init -upgrade`,
    ]);
  });

  it('hold for their own directory, and make it a configuration of its own', async () => {
    const { plain } = await read({
      'main.tf.json': call('./lib'),
      'lib/main.tf.json': aws('~> 5.0'),
      'lib/.terraform.lock.hcl': lockOf('aws', '5.1.0'),
    });
    expect(plain).toEqual(['acme/aws ~> 5.0', 'acme/aws ~> 5.0 =5.1.0 (0)']);
  });
});
