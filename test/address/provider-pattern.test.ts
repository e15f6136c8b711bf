import { expect, it, test } from 'vitest';
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

test.each(['reg*/acme/widget', '**/acme/widget', 'registry.example.com/a*/widget', 'registry.example.com/acme/w_x'])(
  '%j is refused',
  (text) => {
    expect(() => ProviderPattern.parse(text)).toThrow();
  },
);
