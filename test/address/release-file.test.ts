import { describe, expect, it } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { ReleaseFile } from '../../src/address/release-file.ts';
import { Version } from '../../src/address/version.ts';

const provider = ProviderAddress.parse('registry.example.com/acme/my-widget');

describe('the name of a file beside the archives', () => {
  it.each([
    ['SHA256SUMS', '1.0.0', 'terraform-provider-my-widget_1.0.0_SHA256SUMS'],
    ['SHA256SUMS.sig', '1.0.0-RC.1+build.5', 'terraform-provider-my-widget_1.0.0-RC.1+build.5_SHA256SUMS.sig'],
  ] as const)('of %s of %s is %s, and is read again', (kind, version, filename) => {
    const file = new ReleaseFile(provider, Version.parse(version), kind);
    expect(file.filename).toBe(filename);
    expect(file.toString()).toBe(`registry.example.com/acme/my-widget/${filename}`);
    expect(ReleaseFile.parseFilename(provider, filename)).toEqual(file);
  });

  it.each([
    'terraform-provider-my-widget_1.0.0_linux_amd64.zip',
    'terraform-provider-my-widget_1.0.0_SHA256SUM',
    'terraform-provider-my-widget_1.0.0_sha256sums',
    'terraform-provider-my-widget_1.0.0_SHA256SUMS_',
    'terraform-provider-my-widget_SHA256SUMS',
    'terraform-provider-my-widget__SHA256SUMS',
    'terraform-provider-my-widget_v1.0.0_SHA256SUMS',
    'terraform-provider-other_1.0.0_SHA256SUMS',
    'SHA256SUMS',
    '',
  ])('is none like %j', (filename) => {
    expect(() => ReleaseFile.parseFilename(provider, filename)).toThrow(
      expect.objectContaining({ code: 'INVALID_ADDRESS' }),
    );
  });

  it('is never that of an archive, nor longer than file systems allow', () => {
    const file = new ReleaseFile(provider, Version.parse('1.0.0'), 'SHA256SUMS');
    expect(() => ProviderArchive.parseFilename(provider, file.filename)).toThrow();
    const long = ProviderAddress.parse(`registry.example.com/acme/${'w'.repeat(128)}`);
    const version = Version.parse(`1.0.0-${'x'.repeat(100)}`);
    expect(() => new ReleaseFile(long, version, 'SHA256SUMS')).toThrow('longer than 220 bytes');
  });
});
