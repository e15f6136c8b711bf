import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { Platform } from '../../src/address/platform.ts';
import { HclConverter } from '../../src/configuration/hcl-converter.ts';
import { formatDiagnostic, type ModuleRequirement } from '../../src/configuration/requirements.ts';
import type { Wish } from '../../src/mirror/wanted.ts';
import { type ReadChildPackage, WishReader } from '../../src/mirror/wish-reader.ts';
import { plain } from '../configuration/plain.ts';

// JSON is enough for most of what is shown here, and needs no parser.
const converter = new HclConverter({ module: 'no-such-package' });
afterAll(() => converter.close());
const reader = new WishReader({ converter, defaultPlatforms: [Platform.parse('linux_amd64')] });

const OPENTOFU = 'registry.opentofu.org';
const TERRAFORM = 'registry.terraform.io';
const H1 = 'h1:FrOpWuh2q5vyQkmu1mNewlXrXoBIxoOTA/oT4cQYiiU=';

async function read(files: Record<string, unknown>, wish: Partial<Wish> = {}, childPackage?: ReadChildPackage) {
  const all = Object.entries(files).map(([path, content]) => ({
    path,
    text: typeof content === 'string' ? content : JSON.stringify(content),
  }));
  const answer = await reader.read({ files: all, platforms: [], client: 'opentofu', ...wish }, childPackage);
  return {
    plain: plain(answer.requirements),
    told: answer.diagnostics.map(formatDiagnostic),
    severities: answer.diagnostics.map(({ severity }) => severity),
    platforms: answer.platforms.map(String),
  };
}

describe('what is read in a wish', () => {
  it('a lock file with oddities: three providers and one warning', async () => {
    const { plain, told } = await read({
      '.terraform.lock.hcl': `# generated
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
`,
    });
    expect(plain).toEqual([
      `${OPENTOFU}/acme/widget != 0.9.0, >= 0.8.0, <= 1.0.0 =1.0.0 (0)`,
      `${TERRAFORM}/acme/widget =1.0.0 (1)`,
      'up.example.test:8443/acme/gadget =2.3.1-RC1 (0)',
    ]);
    expect(told).toEqual([expect.stringMatching(/^\.terraform\.lock\.hcl:13:1: warning: "module" means nothing/)]);
  });

  it('R55: a lock file needs neither constraints nor hashes', async () => {
    const { plain, told } = await read({
      'prod.lock.hcl': `provider "${OPENTOFU}/acme/a" {\n  version = "1.0.0"\n  hashes = ["${H1}"]\n}\nprovider "${OPENTOFU}/acme/b" {\n  version = "2.0.0"\n}\n`,
    });
    expect(plain).toEqual([`${OPENTOFU}/acme/a =1.0.0 (1)`, `${OPENTOFU}/acme/b =2.0.0 (0)`]);
    expect(told).toEqual([]);
  });

  it('R56: entries that are wrong are told one by one, and the others count', async () => {
    const { plain, told } = await read({
      '.terraform.lock.hcl':
        `\uFEFF/* a */\r\nprovider "${OPENTOFU}/acme/a" {\r\n  version = "1.0.0"\r\n  constraints = ""\r\n  hashes = []\r\n}\r\n` +
        `provider "${OPENTOFU}/acme/a" {\r\n  version = "1.1.0"\r\n}\r\n` +
        `provider "${OPENTOFU}/acme/b" {\r\n  version = "v1.2.3"\r\n  hashes = ["${H1}", "h1:short"]\r\n}\r\n`,
    });
    expect(plain).toEqual([`${OPENTOFU}/acme/a =1.0.0 (0)`, `${OPENTOFU}/acme/b =1.2.3 (1)`]);
    expect(told).toHaveLength(3);
  });

  it('R57: a provider of two registries is two providers', async () => {
    const { plain } = await read({
      '.terraform.lock.hcl': `provider "${OPENTOFU}/acme/a" {\n  version = "1.0.0"\n}\nprovider "${TERRAFORM}/acme/a" {\n  version = "1.0.0"\n}\n`,
    });
    expect(plain).toEqual([`${OPENTOFU}/acme/a =1.0.0 (0)`, `${TERRAFORM}/acme/a =1.0.0 (0)`]);
  });

  it('R22: configuration that a program wrote, with comments at every level', async () => {
    const { plain, told } = await read({
      'cdk.tf.json': {
        '//': { m: 1 },
        terraform: { required_providers: { aws: { version: '~> 2.70.0', source: 'aws' } } },
        provider: { aws: [{ alias: 'a' }, { alias: 'b' }] },
        resource: { random_id: { x: { '//': { p: 1 } } } },
      },
    });
    expect(plain).toEqual([`${OPENTOFU}/hashicorp/aws ~> 2.70.0`, `${OPENTOFU}/hashicorp/random`]);
    expect(told).toEqual([]);
  });

  const aws = (version: string) => ({ terraform: { required_providers: { aws: { source: 'acme/aws', version } } } });

  it('R22, R66: a directory of all that, as each client reads it', async () => {
    const files = {
      'cdk.tf.json': { '//': {}, resource: { random_id: { x: {} } } },
      'main.tf.json': aws('4.0.0'),
      'main.tofu.json': aws('5.0.0'),
      'bom.tf.json': '\uFEFF{"resource":{"bom_x":{"y":{}}}}',
      'twice.tf.json': '{"resource":{"one_x":{"y":{}}},"resource":{"two_x":{"y":{}}}}',
      'null.tf.json': '{"terraform":null}',
      'main_override.tf.json': { terraform: { required_providers: { aws: { version: '5.1.0', source: 'acme/aws' } } } },
      '.hid.tf.json': { resource: { hidden_x: { y: {} } } },
    };
    const tofu = await read(files);
    expect(tofu.plain).toEqual([
      `${OPENTOFU}/acme/aws 5.1.0`,
      `${OPENTOFU}/hashicorp/bom`,
      `${OPENTOFU}/hashicorp/one`,
      `${OPENTOFU}/hashicorp/random`,
      `${OPENTOFU}/hashicorp/two`,
    ]);
    expect(tofu.told).toEqual([expect.stringMatching(/^twice\.tf\.json:/)]);
    const terraform = await read({ ...files, 'main_override.tf.json': '{}' }, { client: 'terraform' });
    expect(terraform.plain).toContain(`${TERRAFORM}/acme/aws 4.0.0`);
  });

  it('R69: a list, with what is in no registry', async () => {
    const { plain, told, severities } = await read({
      'list.txt': `registry.terraform.io/-/aws
terraform.io/builtin/terraform
 hashicorp/AWS@~>5.0 
up.example.test:8443/acme/gadget@2.3.1-RC1
acme/net/aws

#comment
`,
    });
    expect(plain).toEqual([`${OPENTOFU}/hashicorp/aws ~> 5.0`, 'up.example.test:8443/acme/gadget 2.3.1-RC1']);
    expect(told).toEqual([
      expect.stringMatching(/^list\.txt:1: note: .*no provider of today/),
      expect.stringMatching(/^list\.txt:5: .*may be the provider .* or the module/),
    ]);
    expect(severities).toEqual(['note', 'error']);
  });

  it('platforms are those of the wish, else those of its lists, else the defaults', async () => {
    const files = { 'list.yaml': 'providers: [acme/a]\nplatforms: [darwin_arm64, linux_arm64]\n' };
    const platforms = [Platform.parse('windows_amd64')];
    expect((await read(files, { platforms })).platforms).toEqual(['windows_amd64']);
    expect((await read(files)).platforms).toEqual(['darwin_arm64', 'linux_arm64']);
    expect((await read({ 'list.yaml': 'providers: [acme/a]\n' })).platforms).toEqual(['linux_amd64']);
  });

  it('files of other kinds are left out, and nothing else is a mistake', async () => {
    const { plain, told } = await read({ 'main.tf.json': aws('1.0.0'), 'README.md': '# x' });
    expect(plain).toEqual([`${OPENTOFU}/acme/aws 1.0.0`]);
    expect(told).toEqual([expect.stringMatching(/^README\.md: note: /)]);
    expect((await read({ 'README.md': '# x' })).severities).toEqual(['error']);
  });

  it('R68: a file that cannot be read leaves the others to be read', async () => {
    const { plain, severities } = await read({ 'a.tf.json': '{"terraform":', 'b.tf.json': aws('1.0.0') });
    expect(plain).toEqual([`${OPENTOFU}/acme/aws 1.0.0`]);
    expect(severities).toContain('error');
  });
});

it('whatever is in files, a wish is read', async () => {
  const name = fc.constantFrom(
    'main.tf.json',
    '.terraform.lock.hcl',
    'a.lock.hcl',
    'l.yaml',
    'l.json',
    'l.txt',
    '../x.tofu.json',
  );
  const scrap = fc.constantFrom(
    '{"terraform":{"required_providers":',
    '{"a":{"source":"acme/a","version":"~> 1"}}',
    '}}',
    'provider "registry.opentofu.org/acme/a" {\n',
    'version = "1.0.0"\n',
    'hashes = [',
    ']\n}\n',
    'providers:\n',
    '- acme/a@>= 1\n',
    'modules: [&x {source: *x}]\n',
    '\uFEFF',
    '__proto__',
    '"//": ',
  );
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(scrap, { maxLength: 12 }).map((all) => all.join('')),
    fc.json(),
  );
  const files = fc.array(fc.record({ path: name, text }), { maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(files, async (given) => {
      const read = await reader.read({ files: given, platforms: [], client: 'opentofu' });
      expect(read.platforms).toHaveLength(1);
    }),
    { numRuns: 300 },
  );
});

describe('modules of a registry', () => {
  const asked: string[] = [];
  /** Every module needs a provider of its name; `outer` calls `inner`, and `gone` is not to be had. */
  const childPackage = async ({ address, subdir }: ModuleRequirement) => {
    asked.push(`${address.name}${subdir ?? ''}`);
    if (address.name === 'gone') throw new Error('it is gone');
    if (address.name === 'away') return undefined;
    const calls = address.name === 'outer' ? { module: { m: { source: 'acme/inner/x', version: '1.0.0' } } } : {};
    const text = JSON.stringify({ terraform: { required_providers: { [address.name]: `>= 2.0` } }, ...calls });
    return { files: [{ path: `${address}/main.tf.json`, text }], directory: String(address) };
  };

  it('R70: count with what they need in turn; what is not at hand is noted', async () => {
    const { plain, told, severities } = await read(
      {
        'main.tf.json': {
          module: {
            a: { source: 'acme/outer/x', version: '~> 1.0' },
            b: { source: './missing' },
            c: { source: 'acme/gone/x' },
            d: { source: 'acme/away/x' },
          },
        },
      },
      {},
      childPackage,
    );
    expect(plain).toEqual([
      `module ${OPENTOFU}/acme/away/x`,
      `module ${OPENTOFU}/acme/gone/x`,
      `module ${OPENTOFU}/acme/inner/x 1.0.0`,
      `module ${OPENTOFU}/acme/outer/x ~> 1.0`,
      `${OPENTOFU}/hashicorp/inner >= 2.0`,
      `${OPENTOFU}/hashicorp/outer >= 2.0`,
    ]);
    expect(told.join('\n')).toMatch(/missing is not among the files given/);
    expect(told.join('\n')).toMatch(/what .*acme\/gone\/x requires is not known: it is gone/);
    expect(severities.sort()).toEqual(['note', 'warning']);
  });

  it('of a list count with what they need, too', async () => {
    const { plain, told } = await read(
      { 'list.yaml': 'modules: [registry.opentofu.org/acme/outer/x@~> 1.0, registry.opentofu.org/acme/gone/x]\n' },
      {},
      childPackage,
    );
    expect(plain).toEqual([
      `module ${OPENTOFU}/acme/gone/x`,
      `module ${OPENTOFU}/acme/inner/x 1.0.0`,
      `module ${OPENTOFU}/acme/outer/x ~> 1.0`,
      `${OPENTOFU}/hashicorp/inner >= 2.0`,
      `${OPENTOFU}/hashicorp/outer >= 2.0`,
    ]);
    expect(told).toEqual([expect.stringMatching(/^list\.yaml:1:\d+: warning: what .*acme\/gone\/x requires/)]);
  });
});
