import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ModuleAddress } from '../../src/address/module.ts';
import { ModulePattern } from '../../src/address/module-pattern.ts';
import { hostnameText } from './arbitraries.ts';

const parse = (text: string) => ModulePattern.parse(text) as ModulePattern;

describe('a pattern for modules', () => {
  it.each([
    ['registry.example.com/acme/net/aws', true],
    ['Registry.Example.com:443/Acme/NET/aws', true],
    ['*/*/*/*', true],
    ['*/acme/*/aws', true],
    ['registry.example.com/*/*/*', true],
    ['registry.example.com:8443/*/*/*', false],
    ['*/*/*/azurerm', false],
    ['*/any/*/*', false],
    ['*/acme/vpc/*', false],
  ])('%s: %s', (pattern, fits) => {
    expect(parse(pattern).matches(ModuleAddress.parse('registry.example.com/acme/net/aws'))).toBe(fits);
    expect(parse(pattern).matches(ModuleAddress.parse('registry.example.com/Acme/Net/aws'))).toBe(fits);
  });

  it.each(['', 'acme', 'h.example/acme/net', 'h.example/acme/net/aws/1.0.0', '//acme/net/aws', 'h.example/acme//aws'])(
    '%j has not four parts',
    (text) => {
      expect(ModulePattern.parse(text)).toBeUndefined();
    },
  );

  it.each(['h_x/acme/net/aws', 'h.example/ac*/net/aws', 'h.example/-a/net/aws', 'h.example/acme/net/AWS', '*/../*/*'])(
    '%j is none',
    (text) => {
      expect(() => ModulePattern.parse(text)).toThrow(expect.objectContaining({ code: 'INVALID_ADDRESS' }));
    },
  );

  it('knows the one module that it means, as it was written', () => {
    expect(parse('H.example/Acme/Net_x/aws').exact?.written).toBe('Acme/Net_x/aws');
    expect(parse('h.example/acme/net/*').exact).toBeUndefined();
    expect(parse('h.example/any/any/any').exact?.toString()).toBe('h.example/any/any/any');
  });

  it('is written as it is read', () => {
    const part = fc.oneof(fc.constant('*'), fc.stringMatching(/^[a-z0-9]{1,6}$/));
    fc.assert(
      fc.property(fc.oneof(fc.constant('*'), hostnameText), part, part, part, (...parts) => {
        expect(parse(parts.join('/')).toString()).toBe(parts.join('/'));
      }),
    );
  });
});
