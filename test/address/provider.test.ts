import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProviderAddress } from '../../src/address/provider.ts';
import { InvalidAddress } from '../../src/errors.ts';
import { hostnameText, normalisesOnce, partText } from './arbitraries.ts';

describe('ProviderAddress', () => {
  it('R50: one provider has one spelling, however it is written', () => {
    const address = ProviderAddress.parse('Registry.Terraform.IO/1Password/OnePassword');
    expect(String(address)).toBe('registry.terraform.io/1password/onepassword');
    expect(String(ProviderAddress.parse('registry.terraform.io:443/DataDog/datadog'))).toBe(
      String(ProviderAddress.parse('registry.terraform.io/datadog/DATADOG')),
    );
  });

  it('R57: the same provider of two registries is two providers', () => {
    expect(String(ProviderAddress.parse('registry.terraform.io/hashicorp/null'))).not.toBe(
      String(ProviderAddress.parse('registry.opentofu.org/hashicorp/null')),
    );
  });

  it.each([
    ['h.example/hashicorp/google-beta', 'h.example/hashicorp/google-beta'],
    ['h.example/123/456', 'h.example/123/456'],
    ['h.example/0x7f/a', 'h.example/0x7f/a'],
    ['h.example/BÜCHER/Straße', 'h.example/bücher/straße'],
    ['h.example/xn--bcher-kva/a', 'h.example/bücher/a'],
  ])('%s is %s', (text, normalised) => {
    expect(ProviderAddress.parse(text).toString()).toBe(normalised);
  });

  it.each([
    '',
    'aws',
    'hashicorp/aws',
    'h.example/hashicorp/aws/x',
    'h.example//aws',
    'h.example/hashicorp/',
    'h.example/../aws',
    'h.example/a.b/aws',
    'h.example/hashicorp/-aws',
    'h.example/hashicorp/aws-',
    'h.example/hashicorp/a--b',
    'h.example/hashi_corp/aws',
    'h.example/hashicorp/a\\b',
    'h.example/hashicorp/a%2fb',
    'h.example/hashicorp/a b',
    'h.example/hashicorp/a\u0000',
    'h.example/hashicorp/½',
    'h.example/hashicorp/ﷺﷺﷺﷺﷺﷺ',
    `h.example/hashicorp/${'a'.repeat(129)}`,
    `h.example/hashicorp/${'ü'.repeat(100)}`,
  ])('refuses %j', (text) => {
    expect(() => ProviderAddress.parse(text)).toThrow(InvalidAddress);
  });

  it('reads its own spelling as itself', () => {
    const address = fc.tuple(hostnameText, partText, partText).map((parts) => parts.join('/'));
    fc.assert(fc.property(address, (text) => ProviderAddress.parse(text).toString() === text));
  });

  it('makes one spelling of any text, or refuses it', () => {
    normalisesOnce(ProviderAddress.parse);
    normalisesOnce((type) => ProviderAddress.parse(`h.example/acme/${type}`).type);
  });

  it('no part of it can climb out of a directory, or be hidden in it', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        let type: string;
        try {
          type = ProviderAddress.parse(`h.example/acme/${text}`).type;
        } catch {
          return true;
        }
        return !/[./\\\0:]/.test(type) && type !== '';
      }),
    );
  });
});
