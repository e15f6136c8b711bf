import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Hostname } from '../../src/address/hostname.ts';
import { InvalidAddress } from '../../src/errors.ts';
import { hostnameText, normalisesOnce } from './arbitraries.ts';

describe('Hostname', () => {
  it.each([
    ['registry.opentofu.org', 'registry.opentofu.org'],
    ['Registry.Terraform.IO', 'registry.terraform.io'],
    ['up.example.test:8443', 'up.example.test:8443'],
    ['localhost:5000', 'localhost:5000'],
    ['up-x.example.test', 'up-x.example.test'],
  ])('%s is %s', (text, comparison) => {
    expect(Hostname.parse(text).toString()).toBe(comparison);
  });

  it('R29: case, port 443 and punycode make one identity, other ports make another', () => {
    expect(String(Hostname.parse('UP.Example.test:443'))).toBe(String(Hostname.parse('up.example.test')));
    expect(String(Hostname.parse('bücher.example.test'))).toBe(String(Hostname.parse('xn--bcher-kva.example.test')));
    expect(String(Hostname.parse('up.example.test:8443'))).not.toBe(String(Hostname.parse('up.example.test')));
  });

  it('R30: an IPv4 address with a port is a host with a port', () => {
    const host = Hostname.parse('127.0.0.1:8443');
    expect([host.name, host.port, host.origin]).toEqual(['127.0.0.1', 8443, 'https://127.0.0.1:8443']);
  });

  it.each([
    ['bücher', 'xn--bcher-kva', 'bücher'],
    ['Bücher.example.test', 'xn--bcher-kva.example.test', 'bücher.example.test'],
    ['xn--bcher-kva.example.test:8443', 'xn--bcher-kva.example.test:8443', 'bücher.example.test:8443'],
    ['straße.example.test', 'xn--strae-oqa.example.test', 'straße.example.test'],
  ])('R96: %s is %s on the wire and %s for people', (text, comparison, display) => {
    const host = Hostname.parse(text);
    expect([String(host), host.display]).toEqual([comparison, display]);
    expect(String(Hostname.parse(host.display))).toBe(comparison);
  });

  it.each([
    '',
    ':8443',
    '.',
    '..',
    'a..b',
    'example.test.',
    '-a.example',
    'a-.example',
    'under_score.example',
    'user@example.test',
    'https://example.test',
    'example.test/path',
    'example.test?x',
    'example.test#x',
    'exam ple.test',
    'example%2etest',
    'example.test%3A8443',
    '..\\..',
    '[::1]',
    '::1',
    'a:b:c',
    'example.test:',
    'example.test:0',
    'example.test:65536',
    'example.test:080',
    'example.test:https',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '１２７.0.0.1',
    'a\u0000b',
    'a\u200db.test',
    'xn--a',
    `${'a'.repeat(64)}.test`,
    'a.'.repeat(130),
    'x'.repeat(100_000),
  ])('refuses %j', (text) => {
    expect(() => Hostname.parse(text)).toThrow(InvalidAddress);
  });

  it('reads its own spelling as itself', () => {
    fc.assert(fc.property(hostnameText, (text) => Hostname.parse(text).toString() === text));
  });

  it('makes one spelling of any text, or refuses it', () => {
    normalisesOnce(Hostname.parse);
  });

  it('names what it is in the only form that a URL reads back unchanged', () => {
    fc.assert(fc.property(hostnameText, (text) => new URL(Hostname.parse(text).origin).host === text));
  });
});
