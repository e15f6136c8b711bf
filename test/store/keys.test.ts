import { posix } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { parseSha256 } from '../../src/address/hash.ts';
import { Hostname } from '../../src/address/hostname.ts';
import { ModuleAddress, ModuleRelease } from '../../src/address/module.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { metadataKeys, paths } from '../../src/store/keys.ts';

const provider = (text: string) => ProviderAddress.parse(text);

/** Only what parses counts: keys and paths are never made of anything else. */
function parsed<T>(texts: fc.Arbitrary<string>, parse: (text: string) => T): fc.Arbitrary<T> {
  return texts
    .map((text) => {
      try {
        return parse(text);
      } catch {
        return undefined;
      }
    })
    .filter((value) => value !== undefined);
}

const part = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9]{1,3}(-[A-Za-z0-9]{1,3})?$/),
  fc.constantFrom(
    'a',
    'A',
    'partial',
    'index',
    '10',
    'bücher',
    'BÜCHER',
    'xn--bcher-kva',
    'straße',
    'strasse',
    'ｆｏｏ',
    '..',
    '%2e',
    'a/b',
  ),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 6 }),
);
const hostnames = parsed(
  fc.oneof(
    fc.tuple(part, fc.constantFrom('', '.example', '.example:443', '.example:8443', ':80')).map(([a, b]) => a + b),
    fc.domain(),
    fc.constantFrom(
      'BÜCHER.example',
      'bücher.example',
      'xn--bcher-kva.example',
      '127.0.0.1',
      'faß.de',
      'xn--fa-hia.de',
      'fass.de',
    ),
  ),
  Hostname.parse,
);
const providers = parsed(
  fc.tuple(hostnames, part, part).map(([hostname, namespace, type]) => `${hostname}/${namespace}/${type}`),
  ProviderAddress.parse,
);
const versions = parsed(
  fc.oneof(
    fc.constantFrom(
      '1.0.0',
      '1.0.0-rc1',
      '1.0.0-RC1',
      '1.0.0+b',
      '1.0.0-a.json',
      '1.0.0-SHA256SUMS',
      '1.0.0-linux-amd64',
      '10.0.0',
    ),
    fc.stringMatching(/^[0-9]\.[0-9]\.[0-9](-[a-zA-Z0-9.]{1,5})?(\+[a-z0-9]{1,3})?$/),
  ),
  Version.parse,
);
const platforms = parsed(fc.stringMatching(/^[a-z0-9]{1,7}_[a-z0-9]{1,6}$/), Platform.parse);
const archives = fc
  .tuple(providers, versions, platforms)
  .map(([address, version, platform]) => new ProviderArchive(address, version, platform));

const modules = parsed(
  fc
    .tuple(hostnames, part, part, fc.constantFrom('aws', 'aws2', 'json', 'a'))
    .map(([hostname, namespace, name, system]) => `${hostname}/${namespace}/${name}/${system}`),
  ModuleAddress.parse,
);
const moduleReleases = fc
  .tuple(
    modules,
    fc.oneof(versions, fc.constantFrom('1.0.0-a.tar.gz', '1.0.0-tar.gz', '1.0.0-json').map(Version.parse)),
  )
  .map(([module, version]) => new ModuleRelease(module, version));

/** Everything spelled for one module version, with the identity that it stands for. */
function spelledOfModule(release: ModuleRelease): { keys: [string, string][]; files: [string, string][] } {
  const { module, version } = release;
  const written = `${module.hostname}/${module.written}`;
  return {
    keys: [
      [`module versions ${written}`, metadataKeys.moduleVersions(module)],
      [`module location ${written} ${version}`, metadataKeys.moduleLocation(module, version)],
    ],
    files: [
      [`module ${module}`, paths.module(module)],
      [`package ${release}`, paths.modulePackage(release)],
      [`record ${release}`, paths.moduleRecord(release)],
    ],
  };
}

/** Everything spelled for one archive, with the identity that it stands for. */
function spelled(archive: ProviderArchive): { keys: [identity: string, key: string][]; files: [string, string][] } {
  const { provider: address, version } = archive;
  return {
    keys: [
      [`discovery ${address.hostname}`, metadataKeys.discovery(address.hostname)],
      [`versions ${address}`, metadataKeys.providerVersions(address)],
      [`packages ${address} ${version}`, metadataKeys.providerPackages(address, version)],
      [`document ${archive}`, metadataKeys.packageDocument(archive)],
    ],
    files: [
      [`provider ${address}`, paths.provider(address)],
      [`index ${address}`, paths.index(address)],
      [`version ${address} ${version}`, paths.version(address, version)],
      [`archive ${archive}`, paths.archive(archive)],
      [`shasums ${address} ${version}`, paths.shasums(address, version)],
      [`signature ${address} ${version}`, paths.signature(address, version)],
      [`statement ${address} ${version}`, paths.statement(address, version)],
    ],
  };
}

/** Equal places must mean equal things, and the other way round. */
function expectOneToOne(pairs: [identity: string, place: string][]): void {
  const byPlace = new Map<string, string>();
  const byIdentity = new Map<string, string>();
  for (const [identity, place] of pairs) {
    expect(byPlace.get(place) ?? identity).toBe(identity);
    expect(byIdentity.get(identity) ?? place).toBe(place);
    byPlace.set(place, identity);
    byIdentity.set(identity, place);
  }
}

describe('paths', () => {
  it('follow the packed layout that the clients read', () => {
    const archive = new ProviderArchive(
      provider('Registry.Example.com:8443/HashiCorp/random'),
      Version.parse('3.6.0-RC1+build.5'),
      Platform.parse('linux_amd64'),
    );
    const directory = 'providers/registry.example.com:8443/hashicorp/random';
    expect(paths.provider(archive.provider)).toBe(directory);
    expect(paths.archive(archive)).toBe(`${directory}/terraform-provider-random_3.6.0-RC1+build.5_linux_amd64.zip`);
    expect(paths.index(archive.provider)).toBe(`${directory}/index.json`);
    expect(paths.version(archive.provider, archive.version)).toBe(`${directory}/3.6.0-RC1+build.5.json`);
    const sums = `${directory}/terraform-provider-random_3.6.0-RC1+build.5_SHA256SUMS`;
    expect(paths.shasums(archive.provider, archive.version)).toBe(sums);
    expect(paths.signature(archive.provider, archive.version)).toBe(`${sums}.sig`);
    const statement = `${directory}/terraform-provider-random_3.6.0-RC1+build.5_release.json`;
    expect(paths.statement(archive.provider, archive.version)).toBe(statement);
  });

  it('spell internationalised hostnames for people, as the clients do', () => {
    expect(paths.provider(provider('xn--bcher-kva.example/a/b'))).toBe('providers/bücher.example/a/b');
    expect(metadataKeys.providerVersions(provider('Bücher.example:443/a/b'))).toBe(
      'v1:versions:xn--bcher-kva.example/a/b',
    );
  });

  it('keep module packages by their hosts, as providers are kept', () => {
    const module = ModuleAddress.parse('XN--bcher-kva.example:8443/Acme/My_Net/aws');
    const release = new ModuleRelease(module, Version.parse('1.0.0-RC1+b.5'));
    expect(paths.module(module)).toBe('modules/bücher.example:8443/acme/my_net/aws');
    expect(paths.modulePackage(release)).toBe(`${paths.module(module)}/1.0.0-RC1+b.5.tar.gz`);
    expect(paths.moduleRecord(release)).toBe(`${paths.module(module)}/1.0.0-RC1+b.5.json`);
    expect(metadataKeys.moduleVersions(module)).toBe('v1:module-versions:xn--bcher-kva.example:8443/Acme/My_Net/aws');
  });

  it('never leave the data directory, whatever the module', () => {
    fc.assert(
      fc.property(moduleReleases, (release) => {
        for (const [, path] of spelledOfModule(release).files) {
          expect(posix.normalize(path)).toBe(path);
          expect(path).toMatch(/^modules(\/[^/]+){4,5}$/);
          expect(path).not.toMatch(/[\p{Cc}\\]/u);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('never leave the data directory, whatever the address', () => {
    fc.assert(
      fc.property(archives, (archive) => {
        for (const [, path] of spelled(archive).files) {
          expect(posix.normalize(path)).toBe(path);
          expect(path).toMatch(/^providers\/[^/]+\/[^/]+\/[^/]+(\/[^/]+)?$/);
          expect(path).not.toMatch(/[\p{Cc}\\]/u);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe('keys and paths', () => {
  it('are never shared by two different addresses, and one address has one of each', () => {
    fc.assert(
      fc.property(fc.array(archives, { minLength: 2, maxLength: 12 }), (some) => {
        expectOneToOne(some.flatMap((archive) => spelled(archive).keys));
        expectOneToOne(some.flatMap((archive) => spelled(archive).files));
      }),
      { numRuns: 300 },
    );
  });

  it('are never shared by two different modules or versions of them, nor with providers', () => {
    fc.assert(
      fc.property(fc.array(moduleReleases, { minLength: 2, maxLength: 12 }), archives, (some, archive) => {
        const all = some.map(spelledOfModule).concat(spelled(archive));
        expectOneToOne(all.flatMap(({ keys }) => keys));
        expectOneToOne(all.flatMap(({ files }) => files));
      }),
      { numRuns: 300 },
    );
  });

  it('differ for every kind of thing', () => {
    const archive = new ProviderArchive(
      provider('h.example/a/b'),
      Version.parse('1.0.0'),
      Platform.parse('linux_amd64'),
    );
    const sha256 = parseSha256('a'.repeat(64));
    const { keys, files } = spelled(archive);
    const places = [...keys, ...files].map(([, place]) => place).concat(metadataKeys.packageHash(sha256));
    expect(new Set(places).size).toBe(12);
    expect(metadataKeys.packageHash(sha256)).toBe(`v1:h1:${'a'.repeat(64)}`);
  });

  it('keep versions apart that differ in case only', () => {
    const address = provider('h.example/a/b');
    const [upper, lower] = [Version.parse('2.3.1-RC1'), Version.parse('2.3.1-rc1')];
    expect(metadataKeys.providerPackages(address, upper)).not.toBe(metadataKeys.providerPackages(address, lower));
    expect(paths.version(address, upper)).not.toBe(paths.version(address, lower));
  });
});
