// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is the syntax under test
import { afterAll, describe, expect, it } from 'vitest';
import { readConfiguration } from '../../src/configuration/configuration.ts';
import { HclConverter } from '../../src/configuration/hcl-converter.ts';
import { DEFAULT, plain } from './plain.ts';

const converter = new HclConverter();
const roughly = new HclConverter({ module: 'no-such-package' });
afterAll(() => Promise.all([converter.close(), roughly.close()]));

async function requirements(path: string, text: string, by = converter) {
  const options = { client: 'opentofu', defaultHostname: DEFAULT, converter: by } as const;
  const read = await readConfiguration([{ path, text }], options);
  const severities = read.diagnostics.map(({ severity }) => severity).sort();
  return { plain: plain(read), severities };
}

/** What it is, the native syntax, the same in JSON, what is required, and how bad what is said about it is. */
const SHAPES: [string, string, unknown, string[], string[]?][] = [
  [
    'a source and a version',
    'terraform {\n  required_providers {\n    aws = { source = "hashicorp/aws", version = "~> 5.0" }\n  }\n}',
    { terraform: { required_providers: { aws: { source: 'hashicorp/aws', version: '~> 5.0' } } } },
    ['hashicorp/aws ~> 5.0'],
  ],
  [
    'an object on several lines, with colons and quoted keys',
    'terraform {\n  required_providers {\n    aws = {\n      "source": "acme/aws"\n      version : ">= 1.0, < 2.0"\n    }\n  }\n}',
    { terraform: [{ required_providers: [{ aws: { source: 'acme/aws', version: '>= 1.0, < 2.0' } }] }] },
    ['acme/aws >= 1.0, < 2.0'],
  ],
  [
    'the version alone, as of old',
    'terraform {\n  required_providers {\n    aws = "~> 2.70"\n    random = "3.0.0"\n  }\n}',
    { terraform: { required_providers: { aws: '~> 2.70', random: '3.0.0' } } },
    ['hashicorp/aws ~> 2.70', 'hashicorp/random 3.0.0'],
  ],
  [
    'no version',
    'terraform {\n  required_providers {\n    w = { source = "acme/w" }\n  }\n}',
    { terraform: { required_providers: { w: { source: 'acme/w' } } } },
    ['acme/w'],
  ],
  [
    'no source',
    'terraform {\n  required_providers {\n    aws = { version = "4.0.0" }\n    tls = {}\n  }\n}',
    { terraform: { required_providers: { aws: { version: '4.0.0' }, tls: {} } } },
    ['hashicorp/aws 4.0.0', 'hashicorp/tls'],
  ],
  [
    'a host with a port, and upper case',
    'terraform {\n  required_providers {\n    w = { source = "Up.Example.test:8443/ACME/W" }\n  }\n}',
    { terraform: { required_providers: { w: { source: 'Up.Example.test:8443/ACME/W' } } } },
    ['up.example.test:8443/acme/w'],
  ],
  [
    'configuration_aliases',
    'terraform {\n  required_providers {\n    aws = {\n      source = "hashicorp/aws"\n      configuration_aliases = [aws.a, aws.b]\n    }\n  }\n}',
    {
      terraform: {
        required_providers: { aws: { source: 'hashicorp/aws', configuration_aliases: ['aws.a', 'aws.b'] } },
      },
    },
    ['hashicorp/aws'],
  ],
  [
    'two terraform blocks',
    'terraform {\n  required_version = ">= 1.5"\n}\nterraform {\n  required_providers {\n    w = { source = "acme/w" }\n  }\n}',
    { terraform: [{ required_version: '>= 1.5' }, { required_providers: { w: { source: 'acme/w' } } }] },
    ['acme/w'],
  ],
  ['nothing at all', '# nothing\n', {}, []],
  ['an empty terraform block', 'terraform {\n}\n', { terraform: null }, []],
  [
    'provider blocks, one with a version',
    'provider "aws" {\n  version = "~> 2.0"\n}\nprovider "aws" {\n  alias = "b"\n}\nprovider "tls" {}',
    { provider: { aws: [{ version: '~> 2.0' }, { alias: 'b' }], tls: {} } },
    ['hashicorp/aws ~> 2.0', 'hashicorp/tls'],
  ],
  [
    'provider blocks of a required provider',
    'terraform {\n  required_providers {\n    mine = { source = "acme/w", version = ">= 1.0" }\n  }\n}\nprovider "mine" {\n  version = "< 2.0"\n}',
    {
      terraform: { required_providers: { mine: { source: 'acme/w', version: '>= 1.0' } } },
      provider: [{ mine: { version: '< 2.0' } }],
    },
    ['acme/w < 2.0, >= 1.0'],
  ],
  [
    'resources, data and ephemeral resources that imply providers',
    'resource "random_id" "x" {}\nresource "random_pet" "y" {}\ndata "http" "z" {}\nephemeral "vault_token" "t" {}',
    {
      resource: [{ random_id: { x: {} } }, { random_pet: { y: {} } }],
      data: { http: { z: [{}] } },
      ephemeral: { vault_token: { t: {} } },
    },
    ['hashicorp/http', 'hashicorp/random', 'hashicorp/vault'],
  ],
  [
    'resources whose provider is required under their name, or named',
    'terraform {\n  required_providers {\n    random = { source = "acme/dice" }\n    cloud = { source = "acme/cloud" }\n  }\n}\nresource "random_id" "x" {}\nresource "aws_vpc" "v" {\n  provider = cloud.west\n}\nresource "aws_vpc" "w" {\n  provider = cloud\n}',
    {
      terraform: { required_providers: { random: { source: 'acme/dice' }, cloud: { source: 'acme/cloud' } } },
      resource: { random_id: { x: {} }, aws_vpc: { v: { provider: 'cloud.west' }, w: { provider: '${cloud}' } } },
    },
    ['acme/cloud', 'acme/dice'],
  ],
  [
    'what is built in',
    'terraform {\n  required_providers {\n    terraform = { source = "terraform.io/builtin/terraform" }\n  }\n}\ndata "terraform_remote_state" "s" {}',
    {
      terraform: { required_providers: { terraform: { source: 'terraform.io/builtin/terraform' } } },
      data: { terraform_remote_state: { s: {} } },
    },
    [],
  ],
  [
    'what is built in, implied',
    'resource "terraform_data" "d" {\n  input = 1\n}',
    { resource: { terraform_data: { d: { input: 1 } } } },
    [],
  ],
  [
    'the namespace of old',
    'terraform {\n  required_providers {\n    aws = { source = "-/aws" }\n  }\n}',
    { terraform: { required_providers: { aws: { source: '-/aws' } } } },
    [],
    ['note'],
  ],
  [
    'modules from registries',
    'module "a" {\n  source  = "acme/net/aws"\n  version = "~> 3.0"\n}\nmodule "b" {\n  source = "up.example.test:8443/Acme/net/aws//modules/sub"\n  providers = {\n    aws = aws.west\n  }\n}',
    {
      module: {
        a: { source: 'acme/net/aws', version: '~> 3.0' },
        b: [{ source: 'up.example.test:8443/Acme/net/aws//modules/sub', providers: { aws: 'aws.west' } }],
      },
    },
    ['module acme/net/aws ~> 3.0', 'module up.example.test:8443/acme/net/aws//modules/sub'],
  ],
  [
    'modules from elsewhere',
    'module "a" {\n  source = "git::https://u:secret@git.example.test/x.git"\n}\nmodule "b" {\n  source = "github.com/acme/x"\n}\nmodule "c" {\n  source = "./local"\n}',
    {
      module: [
        { a: { source: 'git::https://u:secret@git.example.test/x.git' } },
        { b: { source: 'github.com/acme/x' }, c: { source: './local' } },
      ],
    },
    [],
    ['note', 'note', 'note'],
  ],
  [
    'modules whose source is no source, or missing',
    'module "a" {\n  source = "acme/net"\n}\nmodule "b" {\n}\nmodule "c" {\n  source = "acme/net/AWS"\n}',
    { module: { a: { source: 'acme/net' }, b: {}, c: { source: 'acme/net/AWS' } } },
    [],
    ['error', 'error', 'error'],
  ],
  [
    'expressions, which are left alone',
    'module "a" {\n  source  = "acme/net/aws"\n  version = var.v\n}\nmodule "b" {\n  source = "acme/${var.n}/aws"\n}\nresource "aws_x" "y" {\n  count = var.n > 0 ? 1 : 0\n  s = "%{ if true }a%{ endif }"\n}',
    {
      module: { a: { source: 'acme/net/aws', version: '${var.v}' }, b: { source: 'acme/${var.n}/aws' } },
      resource: { aws_x: { y: { count: '${var.n > 0 ? 1 : 0}', s: '%{ if true }a%{ endif }' } } },
    },
    ['hashicorp/aws', 'module acme/net/aws'],
    ['warning', 'warning'],
  ],
  [
    'constraints nobody understands',
    'terraform {\n  required_providers {\n    w = { source = "acme/w", version = "^1.0" }\n  }\n}',
    { terraform: { required_providers: { w: { source: 'acme/w', version: '^1.0' } } } },
    ['acme/w'],
    ['error'],
  ],
  [
    'data within checks, imports with a provider',
    'check "c" {\n  data "http" "h" {\n    url = "https://x.test"\n  }\n  assert {\n    condition = true\n    error_message = "no"\n  }\n}\nimport {\n  to = a_b.c\n  id = "x"\n  provider = tls.x\n}',
    {
      check: { c: { data: { http: { h: { url: 'https://x.test' } } } } },
      import: [{ to: 'a_b.c', id: 'x', provider: 'tls.x' }],
    },
    ['hashicorp/http', 'hashicorp/tls'],
  ],
  [
    'heredocs and texts full of braces',
    'resource "aws_x" "y" {\n  policy = <<-EOT\n    { "a": "}" } } resource "no_t" "z" {\n    ${jsonencode({ a = "}" })}\n  EOT\n  t = "} $${x} ${f("}\\"{")} {"\n  # }\n}\nmodule "m" {\n  source = "acme/net/aws"\n}',
    { resource: { aws_x: { y: { policy: '}', t: '{' } } }, module: { m: { source: 'acme/net/aws' } } },
    ['hashicorp/aws', 'module acme/net/aws'],
  ],
];

describe('the same configuration requires the same in both syntaxes', () => {
  it.each(SHAPES)('%s', async (_what, native, json, expected, severities = []) => {
    expect(await requirements('main.tf', native)).toEqual({ plain: expected, severities });
    expect(await requirements('main.tf.json', JSON.stringify(json))).toEqual({ plain: expected, severities });
    // With the line ends and the byte order mark of Windows.
    expect(await requirements('main.tf', `\uFEFF${native.replaceAll('\n', '\r\n')}`)).toEqual({
      plain: expected,
      severities,
    });
  });

  it.each(SHAPES)('%s, from the outline alone', async (_what, native, _json, expected, severities = []) => {
    expect(await requirements('main.tf', native, roughly)).toEqual({
      plain: expected,
      // Two of them say that and why the file was only read roughly.
      severities: [...severities, 'warning', 'warning'].sort(),
    });
  });
});
