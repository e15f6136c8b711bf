import type { Hostname } from '../address/hostname.ts';
import { VersionConstraint } from '../address/version-constraint.ts';
import { hasCode } from '../errors.ts';
import { looksLikeHost, parseModuleSource } from './module-source.ts';
import { parseProviderSource } from './provider-source.ts';
import type { ModuleRequirement, Origin, ProviderRequirement } from './requirements.ts';

/** What one item of a warm list stands for; `skipped` with the reason, if there is one worth telling. */
export type WarmItem =
  | { readonly kind: 'provider'; readonly requirement: ProviderRequirement }
  | { readonly kind: 'module'; readonly requirement: ModuleRequirement }
  | { readonly kind: 'skipped'; readonly why: string | undefined }
  | { readonly kind: 'invalid'; readonly why: string };

/** What a list says its items are; of a plain line nothing is known. */
export type WarmKind = 'provider' | 'module' | 'any';

/** `source` with an OpenTofu version constraint, empty for any version. */
export function readWarmItem(
  { source, version }: { source: string; version: string },
  { kind, defaultHostname, origin }: { kind: WarmKind; defaultHostname: Hostname; origin: Origin },
): WarmItem {
  const meant = kind === 'any' ? guess(source) : { kind };
  if ('why' in meant) return { kind: 'invalid', why: meant.why };
  try {
    const constraint = VersionConstraint.parse(version);
    return meant.kind === 'provider'
      ? providerItem(source, version.trim() === '' ? [] : [constraint], defaultHostname, origin)
      : moduleItem(source, constraint, defaultHostname, origin);
  } catch (error) {
    if (!hasCode(error, 'INVALID_ADDRESS')) throw error;
    return { kind: 'invalid', why: error.hint ? `${error.message}; ${error.hint}` : error.message };
  }
}

/** `SOURCE@CONSTRAINT` */
export function splitWarmItem(text: string): { source: string; version: string } {
  // In URLs it stands before the host.
  if (/:\/\/|^git@/.test(text)) return { source: text.trim(), version: '' };
  const [, source = '', version = ''] = /^([^@]*?)\s*(?:@(.*))?$/su.exec(text.trim()) ?? [];
  return { source, version };
}

/** By the number of parts; with three of them by whether the first can only be a host. */
function guess(source: string): { kind: 'provider' | 'module' } | { why: string } {
  const [address = ''] = source.split('//');
  const parts = address.split('/');
  const [first = ''] = parts;
  if (parts.length === 1) {
    return {
      why: `write NAMESPACE/TYPE for a provider (perhaps hashicorp/${first}), HOST/NAMESPACE/NAME/SYSTEM for a module`,
    };
  }
  if (parts.length === 4) return { kind: 'module' };
  if (parts.length === 2 || looksLikeHost(first) || parts.length > 4) return { kind: 'provider' };
  return {
    why:
      `${address} may be the provider ${parts.slice(1).join('/')} of the host ${first} or the module ${parts[1]} of ${first}: ` +
      'write HOST/NAMESPACE/NAME/SYSTEM for the module; the host of a provider has a dot or a port',
  };
}

function providerItem(
  source: string,
  constraints: readonly VersionConstraint[],
  defaultHostname: Hostname,
  origin: Origin,
): WarmItem {
  const parsed = parseProviderSource(source, defaultHostname);
  if (parsed.kind === 'builtin') return { kind: 'skipped', why: undefined };
  if (parsed.kind === 'legacy') {
    return {
      kind: 'skipped',
      why: `-/${parsed.type} stands for no provider of today and is left out; write NAMESPACE/TYPE`,
    };
  }
  return {
    kind: 'provider',
    requirement: { address: parsed.address, constraints, locked: undefined, origins: [origin] },
  };
}

function moduleItem(
  source: string,
  constraint: VersionConstraint,
  defaultHostname: Hostname,
  origin: Origin,
): WarmItem {
  const parsed = parseModuleSource(source, defaultHostname);
  if (parsed.kind === 'registry') {
    const { address, subdir } = parsed;
    return { kind: 'module', requirement: { address, constraint, subdir, origins: [origin] } };
  }
  if (parsed.kind === 'invalid') return { kind: 'invalid', why: parsed.why };
  const what = parsed.kind === 'local' ? 'a directory' : parsed.what;
  return {
    kind: 'invalid',
    why: `this is ${what}; only modules of registries are mirrored: HOST/NAMESPACE/NAME/SYSTEM`,
  };
}
