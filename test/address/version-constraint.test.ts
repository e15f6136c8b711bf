import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Version } from '../../src/address/version.ts';
import { VersionConstraint } from '../../src/address/version-constraint.ts';
import { InvalidAddress } from '../../src/errors.ts';
import { anyText, normalisesOnce, releaseText, versionText } from './arbitraries.ts';

const allows = (constraint: string, version: string) =>
  VersionConstraint.parse(constraint).allows(Version.parse(version));

describe('VersionConstraint', () => {
  it.each([
    ['', ['0.0.1', '99.0.0', '1.0.0+b'], ['1.0.0-rc1']],
    ['1.2.3', ['1.2.3'], ['1.2.4', '1.2.2']],
    ['1.2', ['1.2.0'], ['1.2.1']],
    ['1', ['1.0.0'], ['1.1.0']],
    ['= 1.2.3', ['1.2.3'], ['1.2.4']],
    ['!= 1.2.3', ['1.2.4', '1.2.2'], ['1.2.3', '1.2.4-rc1']],
    ['> 1.0', ['1.0.1', '2.0.0'], ['1.0.0', '0.9.0']],
    ['>= 1.0', ['1.0.0', '2.0.0'], ['0.9.9', '1.0.0-rc1', '1.1.0-rc1']],
    ['< 1.0', ['0.9.9'], ['1.0.0', '1.0.0-rc1']],
    ['<= 1.0', ['1.0.0', '0.1.0'], ['1.0.1']],
    ['~> 1', ['1.0.0', '1.99.0'], ['0.9.9', '2.0.0', '2.0.0-rc1']],
    ['~> 1.2', ['1.2.0', '1.3.0', '1.99.9'], ['1.1.9', '2.0.0']],
    ['~> 1.2.3', ['1.2.3', '1.2.99'], ['1.2.2', '1.3.0']],
    ['~> 0.1', ['0.1.0', '0.9.0'], ['1.0.0']],
    ['~> 1.2.3-beta', ['1.2.3', '1.2.4'], ['1.2.3-beta', '1.2.3-rc1', '1.3.0']],
    ['~> 1.2-beta', ['1.2.0', '1.9.0'], ['1.2.0-beta', '2.0.0']],
    ['>= 1.2, < 2.0, != 1.5.0', ['1.2.0', '1.5.1', '1.9.9'], ['1.5.0', '2.0.0', '1.1.0']],
    ['>= 1.0.0-beta', ['1.0.0'], ['1.0.0-rc1', '1.0.0-beta']],
    ['1.0.0-rc1', ['1.0.0-rc1'], ['1.0.0', '1.0.0-RC1', '1.0.0-rc2']],
    ['= 1.0.0-rc1', ['1.0.0-rc1'], ['1.0.0']],
    ['= 1.0.0-rc1, >= 0.9', ['1.0.0-rc1'], ['1.0.0', '0.9.0']],
    ['= 1.0.0-rc1, >= 1.0', [], ['1.0.0-rc1', '1.0.0']],
    ['1.0.0, 2.0.0', [], ['1.0.0', '2.0.0']],
    ['= 1.0.0', ['1.0.0'], ['1.0.0+b']],
    ['= 1.0.0+b', ['1.0.0+b'], ['1.0.0', '1.0.0+c']],
    ['!= 1.0.0', ['1.0.0+b'], ['1.0.0']],
    ['>= 1.0.0', ['1.0.0+b'], []],
    ['<= 1.0.0', ['1.0.0+b'], []],
    ['> 1.0.0', [], ['1.0.0+b']],
    ['> 1.0.0+a', [], ['1.0.0', '1.0.0+b']],
    ['~> 1.0', ['1.0.0+b', '1.1.0+b'], []],
  ])('%j accepts %j and not %j', (constraint, accepted, refused) => {
    for (const version of accepted) expect(`${version} ${allows(constraint, version)}`).toBe(`${version} true`);
    for (const version of refused) expect(`${version} ${allows(constraint, version)}`).toBe(`${version} false`);
  });

  it.each([
    ['>=1.0,<2.0', '>= 1.0, < 2.0'],
    ['  ~>   1.2 ,!=1.3 ', '~> 1.2, != 1.3'],
    ['\t1.0\n', '1.0'],
    ['   ', ''],
  ])('R06: spaces do not matter: %j', (text, spelling) => {
    expect(VersionConstraint.parse(text).toString()).toBe(spelling);
  });

  it.each([
    ['v1.0.0', 'without the letter v'],
    ['>= v1.0', 'without the letter v'],
    ['=> 1.0', 'did you mean ">="'],
    ['=< 1.0', 'did you mean "<="'],
    ['^1.0', 'did you mean "~>"'],
    ['& 1.0', '"&" is no operator'],
    ['1.*', 'no wildcards'],
    ['1.0.x', 'no wildcards'],
    ['*', 'no wildcards'],
    ['1.0.0.0', 'at most three numbers'],
    ['>= 1.0 < 2.0', 'a comma is missing'],
    ['1.0 - 2.0', 'a comma is missing'],
    ['1.0 || 2.0', 'a comma is missing'],
    ['>=', 'a version is missing'],
    ['1.0,', 'a comma with nothing'],
    [', 1.0', 'a comma with nothing'],
    ['latest', '"latest" is not a version'],
    ['~> 9007199254740991.0', 'too large'],
    ['>= 1.0, '.repeat(500), 'longer than'],
  ])('refuses %j', (text, reason) => {
    expect(() => VersionConstraint.parse(text)).toThrow(InvalidAddress);
    expect(() => VersionConstraint.parse(text)).toThrow(reason);
  });

  it('selects all that are allowed, newest first, each once', () => {
    const versions = ['1.2.0', '1.10.0', '1.9.0', '2.0.0', '1.10.0', '1.11.0-rc1', '1.9.0+b'].map(Version.parse);
    expect(VersionConstraint.parse('~> 1.2').select(versions).map(String)).toEqual([
      '1.10.0',
      '1.9.0+b',
      '1.9.0',
      '1.2.0',
    ]);
    expect(VersionConstraint.parse('~> 3.0').select(versions)).toEqual([]);
  });

  it('makes one spelling of any text, or refuses it', () => {
    normalisesOnce(VersionConstraint.parse);
  });

  it('its spelling means the same', () => {
    const operator = fc.constantFrom('', '=', '!=', '>', '>=', '<', '<=', '~>');
    const term = fc.tuple(operator, fc.constantFrom('', ' ', '  '), versionText).map((parts) => parts.join(''));
    const constraint = fc.array(term, { maxLength: 3 }).map((terms) => terms.join(','));
    fc.assert(
      fc.property(constraint, versionText, (text, version) => {
        const respelled = VersionConstraint.parse(text).toString();
        expect(allows(respelled, version)).toBe(allows(text, version));
      }),
    );
  });

  it('opposite operators share out the releases between them', () => {
    fc.assert(
      fc.property(releaseText, releaseText, (boundary, version) => {
        expect(allows(`> ${boundary}`, version)).toBe(!allows(`<= ${boundary}`, version));
        expect(allows(`< ${boundary}`, version)).toBe(!allows(`>= ${boundary}`, version));
        expect(allows(`= ${boundary}`, version)).toBe(!allows(`!= ${boundary}`, version));
      }),
    );
  });

  it('a bare version accepts that version and nothing else', () => {
    fc.assert(
      fc.property(versionText, anyText, (text, other) => {
        expect(allows(text, text)).toBe(true);
        const version = Version.fromPublished(other);
        if (version && String(version) !== text) expect(allows(text, String(version))).toBe(false);
      }),
    );
  });
});
