import { describe, expect, it, test } from 'vitest';
import { ModuleAddress } from '../../src/address/module.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { ProviderPattern } from '../../src/address/provider-pattern.ts';

const matches = (pattern: string, address: string) =>
  ProviderPattern.parse(pattern)?.matches(ProviderAddress.parse(address));

test.each([
  ['*/*/*', 'registry.example.com:8443/acme/widget', true],
  ['registry.example.com/*/*', 'registry.example.com/acme/widget', true],
  ['registry.example.com/*/*', 'registry.example.com:8443/acme/widget', false],
  ['registry.example.com:8443/acme/*', 'registry.example.com:8443/acme/widget', true],
  ['registry.example.com:8443/acme/*', 'registry.example.com:8443/other/widget', false],
  ['Registry.Example.com:443/ACME/Widget', 'registry.example.com/acme/widget', true],
  ['bücher.example/*/*', 'xn--bcher-kva.example/acme/widget', true],
  ['*/acme/widget', 'other.example.com/acme/widget', true],
  ['*/acme/widget', 'other.example.com/acme/widget2', false],
  // In the place of a star there is something while the rest is checked: it must not match by itself.
  ['*/any/any', 'other.example.com/acme/widget', false],
])('%s and %s: %j', (pattern, address, expected) => {
  expect(matches(pattern, address)).toBe(expected);
});

it('is written as it is compared', () => {
  expect(String(ProviderPattern.parse('BÜCHER.example:443/Acme/*'))).toBe('xn--bcher-kva.example/acme/*');
});

it('names the one provider that it means, when it means one', () => {
  expect(String(ProviderPattern.parse('Registry.Example.com:443/acme/Widget')?.exact)).toBe(
    'registry.example.com/acme/widget',
  );
  expect(ProviderPattern.parse('registry.example.com/acme/*')?.exact).toBeUndefined();
});

test.each(['', '*', 'acme/widget', 'a/b/c/d', '/acme/widget', 'a//c', 'a/b/'])('%j is none', (text) => {
  expect(ProviderPattern.parse(text)).toBeUndefined();
});

test.each([
  'reg*/acme/widget',
  '**/acme/widget',
  'registry.example.com/a*/widget',
  'registry.example.com/acme/w_',
  'registry.example.com/_acme/w',
  'registry.example.com/acme/w.x',
  'registry.example.com/acme/w x',
])('%j is refused', (text) => {
  expect(() => ProviderPattern.parse(text)).toThrow();
});

describe('modules', () => {
  test.each([
    ['*/*/*', 'registry.example.com:8443/acme/net/aws', true],
    ['registry.example.com/acme/*', 'registry.example.com/AcMe/Net/aws', true],
    ['registry.example.com/acme/net', 'registry.example.com/AcMe/Net/aws', true],
    ['registry.example.com/ACME/Net', 'registry.example.com/acme/net/google', true],
    ['registry.example.com/acme/net', 'registry.example.com/acme/net2/aws', false],
    ['registry.example.com/other/*', 'registry.example.com/acme/net/aws', false],
    ['registry.example.com/acme/net', 'registry.example.com:8443/acme/net/aws', false],
    // The system has no place in a pattern.
    ['*/*/aws', 'registry.example.com/acme/net/aws', false],
    ['*/Data_Team/Lake_House', 'registry.example.com/data_team/LAKE_house/aws', true],
    ['*/acme/a--b', 'registry.example.com/acme/A--B/aws', true],
    ['*/any/any', 'registry.example.com/acme/net/aws', false],
  ])('%s and %s: %j', (pattern, address, expected) => {
    expect(ProviderPattern.parse(pattern)?.matches(ModuleAddress.parse(address))).toBe(expected);
  });

  test('a name that only they can have is kept in lower case, and means no provider', () => {
    const pattern = ProviderPattern.parse('registry.example.com/Acme/Lake_House');
    expect(String(pattern)).toBe('registry.example.com/acme/lake_house');
    expect(pattern?.exact).toBeUndefined();
    expect(pattern?.matches(ProviderAddress.parse('registry.example.com/acme/lakehouse'))).toBe(false);
  });
});
