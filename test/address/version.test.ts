import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Version } from '../../src/address/version.ts';
import { InvalidAddress } from '../../src/errors.ts';
import { anyText, normalisesOnce, versionText } from './arbitraries.ts';

const sorted = (texts: string[]) => texts.map(Version.parse).sort(Version.compare).map(String);

describe('Version.parse', () => {
  it.each(['1.2.3', '0.0.0', '3.6.0-beta.1', '1.2.0+build.5', '1.0.0-rc.1+b-2', '1.0.0-rc.01', '1.0.0--'])(
    'reads %s as it stands',
    (text) => {
      expect(String(Version.parse(text))).toBe(text);
    },
  );

  it('R40: case of a pre-release is kept, and two cases are two versions', () => {
    expect(String(Version.parse('2.3.1-RC1'))).toBe('2.3.1-RC1');
    expect(Version.compare(Version.parse('2.3.1-RC1'), Version.parse('2.3.1-rc1'))).not.toBe(0);
  });

  it('names the canonical form of what is nearly one', () => {
    expect(() => Version.parse('v1.1.0')).toThrow('its canonical form is 1.1.0');
    expect(() => Version.parse('1.2')).toThrow('its canonical form is 1.2.0');
  });

  it.each([
    '',
    'latest',
    '1',
    '01.2.3',
    '1.2.3.4',
    '1.2.3-',
    '1.2.3+',
    '1.2.3-a..b',
    '1.2.3-a_b',
    ' 1.2.3',
    '1.2.3\n',
    '1.2.3/../x',
    '9007199254740993.0.0',
    `1.0.0-${'a'.repeat(200)}`,
  ])('refuses %j', (text) => {
    expect(() => Version.parse(text)).toThrow(InvalidAddress);
  });

  it('reads its own spelling as itself', () => {
    fc.assert(fc.property(versionText, (text) => Version.parse(text).toString() === text));
  });

  it('makes one spelling of any text, or refuses it', () => {
    normalisesOnce(Version.parse);
  });
});

describe('Version.fromPublished', () => {
  it.each([
    ['v1.0.0', '1.0.0'],
    ['1.0', '1.0.0'],
    ['4', '4.0.0'],
    ['01.3.0', '1.3.0'],
    ['v2.5.3-alpha1', '2.5.3-alpha1'],
    ['1.2-RC1', '1.2.0-RC1'],
  ])('R06, R53: %s is %s', (published, canonical) => {
    expect(String(Version.fromPublished(published))).toBe(canonical);
  });

  it.each(['', 'latest', 'aborted-1', '1.1.1.1', 'not-a-version', '1.0.0 ', 'version1'])('%j is none', (published) => {
    expect(Version.fromPublished(published)).toBeUndefined();
  });

  it('never throws, and what it makes is canonical', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const version = Version.fromPublished(text);
        return version === undefined || String(Version.parse(String(version))) === String(version);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('Version.compare', () => {
  it('sorts by number, pre-releases before their release, builds last', () => {
    const order = ['0.9.0', '1.0.0-alpha', '1.0.0-alpha.1', '1.0.0-rc.2', '1.0.0-rc.10', '1.0.0', '1.0.0+b', '1.10.0'];
    expect(sorted([...order].reverse())).toEqual(order);
  });

  it('is a total order: zero only for the same spelling, antisymmetric, transitive', () => {
    const version = fc
      .oneof(versionText, fc.constantFrom('1.0.0-1', '1.0.0-01', '1.0.0+1', '1.0.0+01', '1.0.0'))
      .map(Version.parse);
    fc.assert(
      fc.property(version, version, version, (a, b, c) => {
        const ab = Math.sign(Version.compare(a, b));
        expect(ab === 0).toBe(String(a) === String(b));
        expect(Math.sign(Version.compare(b, a)) + ab).toBe(0);
        if (ab <= 0 && Version.compare(b, c) <= 0) expect(Version.compare(a, c)).toBeLessThanOrEqual(0);
      }),
    );
  });

  it('comparePrecedence gives build metadata no weight', () => {
    expect(Version.comparePrecedence(Version.parse('1.0.0+a'), Version.parse('1.0.0'))).toBe(0);
  });
});
