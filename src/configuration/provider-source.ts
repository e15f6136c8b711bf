import type { Hostname } from '../address/hostname.ts';
import { ProviderAddress } from '../address/provider.ts';
import { InvalidAddress } from '../errors.ts';

/** The namespace of providers that are named without one. */
const DEFAULT_NAMESPACE = 'hashicorp';
const BUILTIN_HOST = 'terraform.io';
const BUILTIN_NAMESPACE = 'builtin';
/** Where providers of the time before source addresses were kept. It exists in state files, not in registries. */
const LEGACY_NAMESPACE = '-';
const NAME_PREFIX = /^(terraform|opentofu)-provider-/i;

/** `builtin` is part of the CLI and never installed, `legacy` (`-/TYPE`) stands for no provider of today. */
export type ProviderSource =
  | { readonly kind: 'provider'; readonly address: ProviderAddress }
  | { readonly kind: 'builtin' }
  | { readonly kind: 'legacy'; readonly type: string };

/** `[[HOSTNAME/]NAMESPACE/]TYPE`, as in `source` of required providers. @throws InvalidAddress */
export function parseProviderSource(text: string, defaultHostname: Hostname): ProviderSource {
  // Whatever this was meant to be, it may hold a password.
  if (/:\/\/|[@?]/.test(text))
    throw new InvalidAddress('provider source', '…', 'write [HOSTNAME/]NAMESPACE/TYPE, no URL');
  const parts = text.split('/');
  const [type = '', namespace, hostname] = [...parts].reverse();
  if (parts.length > 3) throw new InvalidAddress('provider source', text, 'write it as [HOSTNAME/]NAMESPACE/TYPE');
  if (namespace === BUILTIN_NAMESPACE && (hostname === undefined || hostname.toLowerCase() === BUILTIN_HOST)) {
    return { kind: 'builtin' };
  }
  if (namespace === LEGACY_NAMESPACE) return { kind: 'legacy', type };
  if (NAME_PREFIX.test(type)) {
    const meant = type.replace(NAME_PREFIX, '');
    throw new InvalidAddress('provider source', text, `write the type without its prefix: ${meant}`);
  }
  if (hostname === undefined) {
    return { kind: 'provider', address: new ProviderAddress(defaultHostname, namespace ?? DEFAULT_NAMESPACE, type) };
  }
  return { kind: 'provider', address: ProviderAddress.parse(text) };
}

/** What the CLI takes a local name for that nobody gave a source. @throws InvalidAddress */
export function impliedProvider(localName: string, defaultHostname: Hostname): ProviderSource {
  if (localName === 'terraform') return { kind: 'builtin' };
  return { kind: 'provider', address: new ProviderAddress(defaultHostname, DEFAULT_NAMESPACE, localName) };
}

/** The local name of the provider that a type of resource belongs to, unless it names another. */
export function localNameOf(resourceType: string): string {
  return resourceType.split('_', 1)[0] ?? resourceType;
}
