import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Hostname } from '../../src/address/hostname.ts';
import { ModuleAddress, ModuleRelease } from '../../src/address/module.ts';
import { Version } from '../../src/address/version.ts';
import { InvalidAddress } from '../../src/errors.ts';
import { anyText, hostnameText, normalisesOnce } from './arbitraries.ts';

const part = fc.stringMatching(/^[a-z0-9]([a-z0-9_-]{0,20}[a-z0-9])?$/);

describe('ModuleAddress', () => {
  it('is one module however it is written, and is asked for as it was written', () => {
    const address = ModuleAddress.parse('Registry.Example.com:443/AcMe/VPC_Core/aws');
    expect(String(address)).toBe('registry.example.com/acme/vpc_core/aws');
    expect(address.written).toBe('AcMe/VPC_Core/aws');
    expect([address.namespace, address.name, address.system]).toEqual(['AcMe', 'VPC_Core', 'aws']);
    expect(String(ModuleAddress.parse('registry.example.com/acme/vpc_core/aws'))).toBe(String(address));
  });

  it('keeps hosts with a port apart from those without', () => {
    expect(String(ModuleAddress.parse('Up.example:8443/acme/net/aws'))).toBe('up.example:8443/acme/net/aws');
    expect(String(ModuleAddress.parse('bücher.example/acme/net/aws'))).toBe('xn--bcher-kva.example/acme/net/aws');
  });

  it.each(['a', 'a_b', 'a__b', 'a--b', 'A-b_C', '0', '1password', 'x'.repeat(64)])('%j may be a name', (name) => {
    expect(ModuleAddress.parse(`h.example/${name}/${name}/aws`).written).toBe(`${name}/${name}/aws`);
  });

  it.each([
    '',
    'acme',
    'acme/net/aws',
    'h.example/acme/net',
    'h.example/acme/net/aws/x',
    'h.example/acme/net/aws/',
    'h.example//net/aws',
    'h.example/acme//aws',
    'h.example/acme/net/',
    'h.example/../net/aws',
    'h.example/acme/../aws',
    'h.example/acme/net/..',
    'h.example/acme/./aws',
    'h.example/a.b/net/aws',
    'h.example/-acme/net/aws',
    'h.example/acme-/net/aws',
    'h.example/_acme/net/aws',
    'h.example/acme/net_/aws',
    'h.example/acme/n t/aws',
    'h.example/acme/n%2ft/aws',
    'h.example/acme/n\\t/aws',
    'h.example/acme/net\n/aws',
    'h.example/acme/net\u0000/aws',
    'h.example/acme/nêt/aws',
    'h.example/acme/*/aws',
    `h.example/acme/${'x'.repeat(65)}/aws`,
    'h.example/acme/net/AWS',
    'h.example/acme/net/google-beta',
    'h.example/acme/net/aws_',
    `h.example/acme/net/${'x'.repeat(65)}`,
    'h_.example/acme/net/aws',
    'h.example:0/acme/net/aws',
  ])('refuses %j', (text) => {
    expect(() => ModuleAddress.parse(text)).toThrow(InvalidAddress);
  });

  it('reads its own spelling as itself', () => {
    const address = fc.tuple(hostnameText, part, part, fc.stringMatching(/^[a-z0-9]{1,9}$/));
    fc.assert(fc.property(address, (parts) => ModuleAddress.parse(parts.join('/')).toString() === parts.join('/')));
  });

  it('makes one spelling of any text, or refuses it', () => {
    normalisesOnce(ModuleAddress.parse);
    normalisesOnce((name) => ModuleAddress.parse(`h.example/acme/${name}/aws`).name);
  });

  it('no part of it can climb out of a directory, or be hidden in it', () => {
    const host = Hostname.parse('h.example');
    fc.assert(
      fc.property(anyText, fc.nat(2), (text, place) => {
        const parts = ['acme', 'net', 'aws'].map((usual, index) => (index === place ? text : usual));
        try {
          return /^[0-9a-z_-]+\/[0-9a-z_-]+\/[0-9a-z]+$/i.test(
            new ModuleAddress(host, ...(parts as [string, string, string])).written,
          );
        } catch (error) {
          return error instanceof InvalidAddress;
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('ModuleRelease', () => {
  const release = (address: string, version: string) =>
    new ModuleRelease(ModuleAddress.parse(address), Version.parse(version));

  it('is named in lower case, but for its version', () => {
    expect(release('h.example/AcMe/Net_Core/aws', '2.3.1-RC1+Build.7').filename).toBe(
      'acme-net_core-aws-2.3.1-RC1+Build.7.tar.gz',
    );
  });

  it('is one release however its module is written; two where only the case of the version differs', () => {
    expect(String(release('h.example/Acme/Net/aws', '1.0.0'))).toBe(String(release('h.example/acme/net/aws', '1.0.0')));
    expect(String(release('h.example/acme/net/aws', '1.0.0-RC1'))).not.toBe(
      String(release('h.example/acme/net/aws', '1.0.0-rc1')),
    );
  });
});
