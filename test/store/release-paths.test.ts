import { describe, expect, it } from 'vitest';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { releaseChanges, releasedVersions } from '../../src/store/release-paths.ts';

const PROVIDER = ProviderAddress.parse('h.example/acme/widget');
const VERSION = Version.parse('1.0.0');
const SHASUMS = 'providers/h.example/acme/widget/terraform-provider-widget_1.0.0_SHA256SUMS';
const [shasums, others, signature] = ['list', 'another list', 'signature'].map((text) => Buffer.from(text)) as [
  Buffer,
  Buffer,
  Buffer,
];

describe('the files of a version', () => {
  it('change not at all when they are there already', () => {
    const known = { shasums, signature };
    expect(releaseChanges(PROVIDER, VERSION, { files: { shasums, signature: undefined }, known })).toEqual([]);
    expect(releaseChanges(PROVIDER, VERSION, { files: known, known })).toEqual([]);
  });

  it.each([
    ['of another list', { shasums, signature }],
    ['that was left behind without any list', undefined],
  ])('lose a signature %s before the list is written', (_, known) => {
    const files = { shasums: others, signature: undefined };
    expect(releaseChanges(PROVIDER, VERSION, { files, known })).toEqual([
      { path: `${SHASUMS}.sig`, content: undefined },
      { path: SHASUMS, content: others },
    ]);
  });

  it('tell of versions by the list alone, in the one spelling there is', () => {
    const name = (version: string) => `terraform-provider-widget_${version}_SHA256SUMS`;
    const names = [
      name('1.0.0'),
      `${name('2.0.0')}.sig`,
      name('v3.0.0'),
      name('x'),
      `x${name('4.0.0')}`,
      name('5.0.0-rc1'),
    ];
    expect(releasedVersions(PROVIDER, names).map(String)).toEqual(['1.0.0', '5.0.0-rc1']);
  });
});
