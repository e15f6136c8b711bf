import { describe, expect, it } from 'vitest';
import { Hostname } from '../../src/address/hostname.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { ProviderPattern } from '../../src/address/provider-pattern.ts';
import { Policy, type UpstreamRule } from '../../src/mirror/policy.ts';

/** Patterns of namespace and type. */
interface Patterns {
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
}

function rule(hostname: string, { include = [], exclude = [] }: Patterns = {}): UpstreamRule {
  return {
    upstream: {
      hostname: Hostname.parse(hostname),
      token: async () => undefined,
      ca: undefined,
      clientCertificate: undefined,
      privateNetwork: false,
      signatures: 'verify',
      archiveHosts: new Set(),
    },
    include: include.map(pattern),
    exclude: exclude.map(pattern),
  };
}

function pattern(text: string): ProviderPattern {
  const parsed = ProviderPattern.parse(`*/${text}`);
  if (!parsed) throw new Error(`${text} is no pattern`);
  return parsed;
}

const provider = (text: string) => ProviderAddress.parse(text);
const excluded = expect.objectContaining({ code: 'ADDRESS_EXCLUDED' });
const notAllowed = expect.objectContaining({ code: 'HOST_NOT_ALLOWED' });

/** What becomes of an address under the rules: the hostname asked, or the code of the refusal. */
function verdict(policy: Policy, address: string): string {
  try {
    return policy.admit(provider(address)).hostname.toString();
  } catch (error) {
    return (error as { code: string }).code;
  }
}

describe('which registries are asked', () => {
  const policy = new Policy([rule('registry.example.com'), rule('registry.example.com:8443')]);

  it('those that are configured, by host and port exactly', () => {
    expect(verdict(policy, 'registry.example.com/acme/widget')).toBe('registry.example.com');
    expect(verdict(policy, 'registry.example.com:8443/acme/widget')).toBe('registry.example.com:8443');
    expect(verdict(policy, 'registry.example.com:443/acme/widget')).toBe('registry.example.com');
    expect(verdict(policy, 'REGISTRY.example.com/Acme/Widget')).toBe('registry.example.com');
  });

  it.each([
    'registry.example.org',
    'registry.example.com:9443',
    'sub.registry.example.com',
    'example.com',
    'xregistry.example.com',
  ])('and not %s', (hostname) => {
    expect(() => policy.admit(provider(`${hostname}/acme/widget`))).toThrow(notAllowed);
  });

  it('are named to those who ask for another', () => {
    expect(() => policy.admit(provider('registry.example.org/acme/widget'))).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('registry.example.com, registry.example.com:8443') }),
    );
    expect(policy.hostnames.map(String)).toEqual(['registry.example.com', 'registry.example.com:8443']);
  });

  it('are none at all without configuration', () => {
    expect(() => new Policy([]).admit(provider('registry.example.com/acme/widget'))).toThrow(notAllowed);
  });
});

describe('which of their providers', () => {
  const admits = (patterns: Patterns, address: string) => {
    const policy = new Policy([rule('registry.example.com', patterns)]);
    return verdict(policy, `registry.example.com/${address}`) === 'registry.example.com';
  };

  it.each([
    [[], [], 'acme/widget', true],
    [['acme/*'], [], 'acme/widget', true],
    [['acme/*'], [], 'other/widget', false],
    [['*/widget'], [], 'other/widget', true],
    [['*/widget'], [], 'other/gadget', false],
    [['*/*'], [], 'other/gadget', true],
    [['acme/widget', 'other/*'], [], 'other/gadget', true],
    [[], ['acme/widget'], 'acme/widget', false],
    [[], ['acme/widget'], 'acme/widgets', true],
    [['acme/*'], ['acme/legacy'], 'acme/legacy', false],
    [['acme/legacy'], ['acme/*'], 'acme/legacy', false],
    [['Acme/Widget'], [], 'acme/widget', true],
  ])('include %j and exclude %j on %s: %s', (include, exclude, address, admitted) => {
    expect(admits({ include, exclude }, address)).toBe(admitted);
  });

  it('is told with the key that decides it', () => {
    const policy = new Policy([rule('registry.example.com', { exclude: ['acme/*'] })]);
    expect(() => policy.admit(provider('registry.example.com/acme/widget'))).toThrow(excluded);
    expect(() => policy.admit(provider('registry.example.com/acme/widget'))).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('upstreams.hosts."registry.example.com"') }),
    );
  });
});
