import fc from 'fast-check';
import { ProviderArchive } from '../../src/address/archive.ts';
import { parseHash } from '../../src/address/hash.ts';
import { Hostname } from '../../src/address/hostname.ts';
import { ModuleAddress } from '../../src/address/module.ts';
import { ModulePattern } from '../../src/address/module-pattern.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { ProviderPattern } from '../../src/address/provider-pattern.ts';
import { Version } from '../../src/address/version.ts';
import { VersionConstraint } from '../../src/address/version-constraint.ts';
import { readCliConfig } from '../../src/configuration/cli-config.ts';
import { HclConverter } from '../../src/configuration/hcl-converter.ts';
import { readJsonConfiguration } from '../../src/configuration/json-configuration.ts';
import { lockRequirements, readLockFile } from '../../src/configuration/lock-file.ts';
import { withHashes } from '../../src/configuration/lock-file-hashes.ts';
import { readNativeConfiguration } from '../../src/configuration/native-configuration.ts';
import { readOutline } from '../../src/configuration/native-outline.ts';
import { readWarmList } from '../../src/configuration/warm-list.ts';
import { hasCode, LarderError } from '../../src/errors.ts';
import { parseRange } from '../../src/http/byte-range.ts';
import { requestIdOf } from '../../src/http/request-id.ts';
import { parseShasums } from '../../src/upstream/shasums.ts';
import { anyText } from '../address/arbitraries.ts';
import { mutatedBytes, nearly } from './mutations.ts';
import { type FuzzTarget, target } from './target.ts';

const HOST = Hostname.parse('registry.example.com');
const ZH = `zh:${'0a'.repeat(32)}`;
const H1 = 'h1:zZFUrGDQUEjEWnQd3UIiWOnbaVPSnKXTHpZlh1pbLZE=';

const LOCK = `# This file is maintained automatically by "tofu init".
provider "registry.example.com/acme/widget" {
  version     = "1.2.3"
  constraints = ">= 1.0.0, < 2.0.0"
  hashes = [
    "${H1}",
    "${ZH}",
  ]
}

provider "registry.example.com/acme/gadget" {
  version = "0.1.0-rc.1" // a comment
  hashes  = ["${ZH}"]
}
`;
const NATIVE = `terraform {
  required_version = ">= 1.6"
  required_providers {
    widget = { source = "acme/widget", version = "~> 1.0" }
    gadget = {
      source  = "registry.example.com/acme/gadget"
      version = ">= 1, != 1.3"
    }
  }
}
/* module */ module "net" {
  source  = "acme/net/aws"
  version = "1.0.0"
  text    = <<-EOT
    \${jsonencode({ for k, v in var.x : k => v... if v != null })} %{ if true }a%{ endif }
  EOT
}
resource "widget_thing" "a" { count = length(local.x) > 0 ? 1 : 0 }
`;
const JSON_CONFIGURATION = JSON.stringify({
  '//': 'made by a program',
  terraform: [{ required_providers: { widget: { source: 'acme/widget', version: '~> 1.0' } } }],
  module: { net: { source: 'acme/net/aws', version: '1.0.0' }, old: [{ source: './x' }] },
  provider: { widget: [{ version: '1.0.0' }, { alias: 'b' }] },
});
const WARM_LISTS = [
  'acme/widget@~> 1.0\nregistry.example.com/acme/gadget # all of it\nacme/net/aws@1.0.0\n',
  'providers:\n  - acme/widget@1.0.0\n  - { source: acme/gadget, version: ">= 1" }\nmodules: [acme/net/aws]\nplatforms: [linux_amd64]\n',
  JSON.stringify({ providers: ['acme/widget@1.0.0', { source: 'acme/gadget' }], platforms: ['darwin_arm64'] }),
];
const CLI_CONFIG = `provider_installation {
  network_mirror {
    url     = "https://larder.example.com/providers/"
    include = ["registry.example.com/*/*"]
  }
  direct { exclude = ["registry.example.com/*/*"] }
}
host "registry.example.com" { services = { "modules.v1" = "https://larder.example.com/m/" } }
credentials "registry.example.com" { token = "abc" }
`;
const SHASUMS = `${'0a'.repeat(32)}  terraform-provider-widget_1.0.0_linux_amd64.zip\n${'0b'.repeat(32)} *./terraform-provider-widget_1.0.0_darwin_arm64.zip\r\n`;

const HCL_WORDS = [
  ...'{}[]()="\\$%,.:*?!<>-_#/\n\t 01a'.split(''),
  ...['provider', 'terraform', 'required_providers', 'module', 'source', 'version', 'hashes', 'constraints'],
  ...['"acme/widget"', '"registry.example.com/acme/widget"', '"1.0.0"', '"~> 1.0"', `"${ZH}"`, `"${H1}"`],
  ...[' = ', '{\n', '\n}\n', '<<EOT\n', '<<-EOT\n', '\nEOT\n', '${', '%{', '$${', '/*', '*/', '//', 'for', 'null'],
];
const JSON_WORDS = [
  ...'{}[]:,"\\ \n0-1e.'.split(''),
  ...['"terraform"', '"required_providers"', '"module"', '"source"', '"version"', '"//"', '"__proto__"', '"acme/x"'],
  ...['null', 'true', '[{', '}]', '\\u0000', '\\ud800', '1e999', '/*', '//'],
];
const LIST_WORDS = [
  ...'{}[]:,-@#"\'&*!|>%?\n\t '.split(''),
  ...['providers:', 'modules:', 'platforms:', '\n  - ', 'acme/widget', 'acme/net/aws', '@~> 1.0', 'source: ', '---\n'],
  ...['&a ', '*a', '<<: ', '!!binary ', '!!set ', 'linux_amd64', '? ', '{ source: acme/x }'],
];

/** Readers of files that never throw, whatever stands in them. */
function neverThrows(
  name: string,
  inputs: fc.Arbitrary<string>,
  read: (text: string) => { diagnostics: readonly unknown[] },
  weight = 5,
): FuzzTarget {
  return target({ name, short: 400, weight }, async () => ({
    inputs,
    check: (text) => void read(text).diagnostics.map((found) => JSON.stringify(found)),
  }));
}

const lockInputs = nearly([LOCK], HCL_WORDS);

/** What is said of a native configuration does not depend on luck: the parser is there again for the next file. */
const native = target({ name: 'native configuration, through the parser', short: 60, weight: 0.6 }, async () => {
  const converter = new HclConverter();
  const known = 'terraform {\n  required_providers {\n    widget = { source = "acme/widget" }\n  }\n}\n';
  let asked = 0;
  return {
    inputs: nearly([NATIVE], HCL_WORDS),
    check: async (text) => {
      await readNativeConfiguration(text, 'main.tf', converter);
      asked += 1;
      if (asked % 20 !== 0) return;
      const { diagnostics } = await readNativeConfiguration(known, 'main.tf', converter);
      if (diagnostics.length > 0) throw new Error(`it did not survive: ${JSON.stringify(diagnostics)}`);
    },
    close: () => converter.close(),
  };
});

/** `undefined`, or an InvalidAddress, for what is none. */
type Parse = (text: string) => { toString(): string } | undefined;

const ADDRESSES: Readonly<Record<string, Parse>> = {
  hostname: (text) => Hostname.parse(text),
  provider: (text) => ProviderAddress.parse(text),
  module: (text) => ModuleAddress.parse(text),
  platform: (text) => Platform.parse(text),
  version: (text) => Version.parse(text),
  constraint: (text) => VersionConstraint.parse(text),
  'provider pattern': (text) => ProviderPattern.parse(text),
  'module pattern': (text) => ModulePattern.parse(text),
  hash: (text) => parseHash(text),
  archive: (text) => ProviderArchive.parseFilename(ProviderAddress.parse('registry.example.com/acme/widget'), text),
};
const ADDRESS_TEXTS = [
  ...['registry.example.com/acme/widget', 'registry.example.com:8443/acme/net/aws', 'linux_amd64', '1.2.3-rc.1+b'],
  ...['>= 1.0, != 1.5.0, ~> 1.2', '*/acme/*', 'xn--bcher-kva.example', ZH, H1],
  'terraform-provider-widget_1.0.0_linux_amd64.zip',
];
const ADDRESS_WORDS = [
  ...'/.:-_*@,~>=<!+v019az %'.split(''),
  ...[
    'acme',
    'widget',
    '..',
    '%2e',
    '%2f',
    'xn--',
    'ß',
    '\u3002',
    '\uff0e',
    '[::1]',
    '127.0.0.1',
    'terraform-provider-',
  ],
  ...['zh:', 'h1:', '.zip', '>=', '99999999999999999999'],
];

const addresses = target({ name: 'addresses', short: 1_500, weight: 18 }, async () => ({
  inputs: fc.tuple(fc.constantFrom(...Object.keys(ADDRESSES)), fc.oneof(anyText, nearly(ADDRESS_TEXTS, ADDRESS_WORDS))),
  check: ([kind, text]) => {
    const parse = ADDRESSES[kind] as Parse;
    let spelling: string;
    try {
      const parsed = parse(text);
      if (parsed === undefined) return;
      spelling = String(parsed);
    } catch (error) {
      if (hasCode(error, 'INVALID_ADDRESS')) return;
      throw error;
    }
    if (/[\p{Cc}\\]|\.\.\/|\/\.\.|%2f/iu.test(spelling)) throw new Error(`leads out of its place: ${spelling}`);
    if (kind !== 'archive' && String(parse(spelling)) !== spelling) throw new Error(`reads differently: ${spelling}`);
  },
}));

const shasums = target({ name: 'SHA256SUMS', short: 500, weight: 6 }, async () => ({
  inputs: fc.oneof(
    mutatedBytes(Buffer.from(SHASUMS)),
    nearly([SHASUMS], ['0a'.repeat(32), 'f', '  ', ' *', './', '\n', '\r\n', '\t', 'a.zip', '__proto__']).map((text) =>
      Buffer.from(text),
    ),
  ),
  check: (bytes) => {
    let digests: Map<string, string>;
    try {
      digests = parseShasums(bytes, 'registry.example.com');
    } catch (error) {
      if (hasCode(error, 'UPSTREAM_INVALID') || hasCode(error, 'INTEGRITY_MISMATCH')) return;
      throw error;
    }
    for (const digest of digests.values()) if (!/^[0-9a-f]{64}$/.test(digest)) throw new Error(`no digest: ${digest}`);
  },
}));

const ranges = target({ name: 'byte ranges', short: 800, weight: 12 }, async () => ({
  inputs: fc.tuple(
    fc.oneof(
      fc.constant(undefined),
      nearly(['bytes=0-499', 'bytes=-500', 'bytes=9500-'], ['bytes', '=', '-', ',', ' ', '0', '9', '1e9', '٣', '\t']),
    ),
    fc.oneof(
      fc.integer({ min: 1, max: 20_000 }),
      fc.maxSafeNat().map((size) => size + 1),
    ),
  ),
  check: ([header, size]) => {
    const range = parseRange(header, size);
    if (typeof range === 'string') return;
    const { start, end } = range;
    if (!(start >= 0 && start <= end && end < size)) throw new Error(`${start}-${end} of ${size}`);
  },
}));

const requestIds = target({ name: 'request ids', short: 400, weight: 5 }, async () => ({
  inputs: fc.oneof(
    fc.constant(undefined),
    nearly(['4f5b8b0c-7e1a-4ea0-9d7b-1fd3f1cd4f3a'], ['a', '-', '\n', '\r', ' ', '{', '"', '${jndi:', '0'.repeat(60)]),
  ),
  check: (given) => {
    const id = requestIdOf({ 'x-request-id': given } as never);
    if (!/^[\w.:+/=@~-]{1,128}$/.test(id)) throw new Error(`not fit for a log: ${JSON.stringify(id)}`);
  },
}));

const completedLocks = target({ name: 'lock files, hashes added', short: 300, weight: 4 }, async () => ({
  inputs: lockInputs,
  check: (text) => {
    const lock = readLockFile(text, '.terraform.lock.hcl', HOST);
    const changes = new Map(lock.entries.map(({ address }) => [String(address), [parseHash(H1), parseHash(ZH)]]));
    let completed: string;
    try {
      completed = withHashes(text, lock, changes);
    } catch (error) {
      if (error instanceof LarderError) return;
      throw error;
    }
    const again = readLockFile(completed, '.terraform.lock.hcl', HOST);
    const named = (file: typeof lock) => file.entries.map(({ address, version }) => `${address} ${version}`);
    if (String(named(again)) !== String(named(lock))) throw new Error(`other locks afterwards:\n${completed}`);
  },
}));

export const TEXT_TARGETS: readonly FuzzTarget[] = [
  neverThrows('lock files', lockInputs, (text) => lockRequirements(readLockFile(text, 'lock.hcl', HOST)), 8),
  completedLocks,
  neverThrows('JSON configuration', nearly([JSON_CONFIGURATION], JSON_WORDS), (text) =>
    readJsonConfiguration(text, 'main.tf.json'),
  ),
  neverThrows('native configuration, by its outline', nearly([NATIVE], HCL_WORDS), (text) => {
    readOutline(text);
    return { diagnostics: [] };
  }),
  native,
  neverThrows('warm lists', nearly(WARM_LISTS, LIST_WORDS), (text) => readWarmList(text, 'warm.yaml', HOST), 3),
  neverThrows('CLI configuration', nearly([CLI_CONFIG], HCL_WORDS), (text) => readCliConfig(text)),
  shasums,
  addresses,
  ranges,
  requestIds,
];
