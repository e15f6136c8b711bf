import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { InvalidAddress } from '../../src/errors.ts';
import { anyText, partText, platformText, spellingOf, versionText } from './arbitraries.ts';

const beta = ProviderAddress.parse('h.example/hashicorp/google-beta');
const azapi = ProviderAddress.parse('h.example/azure/azapi');

describe('ProviderArchive', () => {
  it.each([
    'terraform-provider-google-beta_4.57.0_linux_amd64.zip',
    'terraform-provider-google-beta_1.0.0-rc.1_linux_arm64.zip',
    'terraform-provider-google-beta_1.0.0+b.1_darwin_amd64.zip',
    'terraform-provider-google-beta_1.0.0-rc.1+b.1_windows_386.zip',
  ])('R52: %s is read, hyphens and all', (filename) => {
    const archive = ProviderArchive.parseFilename(beta, filename);
    expect(archive.filename).toBe(filename);
    expect(archive.toString()).toBe(`h.example/hashicorp/google-beta/${filename}`);
  });

  it.each([
    'terraform-provider-google_4.57.0_linux_amd64.zip',
    'terraform-provider-google-beta_1.0.0-rc.1_linux_arm_v6.zip',
    'terraform-provider-google-beta_1.0.0+b_1_linux_amd64.zip',
    'terraform-provider-google-beta_4.57.0_linux_amd64.zip.part',
    'terraform-provider-google-beta_4.57.0_linux_amd64',
    'terraform-provider-google-beta_.zip',
    'terraform-provider-google-beta.zip',
    'terraform-provider-google-beta_4.57.0__amd64.zip',
    'terraform-provider-GOOGLE-beta_4.57.0_linux_amd64.zip',
    'index.json',
    '',
    '.zip',
    '../terraform-provider-google-beta_4.57.0_linux_amd64.zip',
  ])('R52: %j is none of its archives', (filename) => {
    expect(() => ProviderArchive.parseFilename(beta, filename)).toThrow(InvalidAddress);
  });

  it('R53: the name has no v, and a name with one is told its canonical version', () => {
    const filename = 'terraform-provider-azapi_v1.1.0_linux_amd64.zip';
    expect(() => ProviderArchive.parseFilename(azapi, filename)).toThrow('its canonical form is 1.1.0');
  });

  it('R40: versions that differ in case have two names', () => {
    const named = (version: string) =>
      new ProviderArchive(azapi, Version.parse(version), Platform.parse('linux_amd64')).filename;
    expect(named('2.3.1-RC1')).not.toBe(named('2.3.1-rc1'));
  });

  it('a name that no file system could hold is refused, not attempted', () => {
    const long = ProviderAddress.parse(`h.example/acme/${'a'.repeat(120)}`);
    const version = Version.parse(`1.0.0-${'b'.repeat(100)}`);
    expect(() => new ProviderArchive(long, version, Platform.parse('linux_amd64'))).toThrow(InvalidAddress);
  });

  it('its file name reads as itself', () => {
    fc.assert(
      fc.property(partText, versionText, platformText, (type, version, platform) => {
        const provider = ProviderAddress.parse(`h.example/acme/${type}`);
        const archive = new ProviderArchive(provider, Version.parse(version), Platform.parse(platform));
        const read = ProviderArchive.parseFilename(provider, archive.filename);
        expect([String(read), String(read.version), String(read.platform)]).toEqual([
          String(archive),
          version,
          platform,
        ]);
      }),
    );
  });

  it('any file name is read into itself, or refused', () => {
    const nearly = anyText.map((text) => `terraform-provider-azapi_${text}.zip`);
    fc.assert(
      fc.property(fc.oneof(anyText, nearly), (filename) => {
        const read = spellingOf((text) => ProviderArchive.parseFilename(azapi, text), filename);
        return read === undefined || read === `${azapi}/${filename}`;
      }),
      { numRuns: 1_000 },
    );
  });
});
