import type { Hostname } from '../address/hostname.ts';

/** The services that Larder offers in place of a registry, by the identifiers that discovery and `host` blocks use. */
export type ServiceUrls = Readonly<Record<'modules.v1' | 'providers.v1', string>>;

/**
 * Where Larder speaks the protocols of a registry. Both end in a slash: without it, clients drop the last part.
 * @param base an address, or a path, under which Larder is reached
 */
export function serviceUrls(base: string, hostname: Hostname): ServiceUrls {
  const registry = `${base.replace(/\/+$/, '')}/registry/${hostname}/v1`;
  return { 'modules.v1': `${registry}/modules/`, 'providers.v1': `${registry}/providers/` };
}
