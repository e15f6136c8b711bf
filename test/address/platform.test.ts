import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Platform } from '../../src/address/platform.ts';
import { InvalidAddress } from '../../src/errors.ts';
import { normalisesOnce, platformText } from './arbitraries.ts';

describe('Platform', () => {
  it.each(['linux_amd64', 'darwin_arm64', 'windows_386', 'linux_s390x', 'solaris_amd64'])('reads %s', (text) => {
    expect(String(Platform.parse(text))).toBe(text);
  });

  it('R52: an architecture has no underscore', () => {
    expect(() => Platform.parse('linux_arm_v6')).toThrow(InvalidAddress);
  });

  it.each(['', '_', 'linux', 'linux_', '_amd64', 'Linux_amd64', 'linux-amd64', '../_x', 'linux_a/b', 'linux_amd64\n'])(
    'refuses %j',
    (text) => {
      expect(() => Platform.parse(text)).toThrow(InvalidAddress);
    },
  );

  it('reads its own spelling as itself', () => {
    fc.assert(fc.property(platformText, (text) => Platform.parse(text).toString() === text));
  });

  it('makes one spelling of any text, or refuses it', () => {
    normalisesOnce(Platform.parse);
  });
});
