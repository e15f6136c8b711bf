import type { Hostname } from '../address/hostname.ts';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import { ModuleAddress } from '../address/module.ts';
import { ProviderAddress } from '../address/provider.ts';

type Kind = 'providers' | 'modules';

/** Absolute URLs with a slash at their end, by the identifier of a service. */
type Services = Readonly<Record<string, string>>;

/** Where a path below `/registry/HOST/` leads upstream. */
export interface ServicePath {
  /** Where the service, or what else is allowed of it, begins. Ends in a slash. */
  readonly base: URL;
  /** Where that begins here, below `/registry/HOST/`. Ends in a slash, or is empty. */
  readonly prefix: string;
  /** What comes behind either, byte for byte. */
  readonly rest: string;
  /** It is about providers or modules, so the upstream's token belongs there. Other services have other tokens. */
  readonly isRegistry: boolean;
}

/** A registry protocol of a host. */
interface Api {
  readonly kind: Kind;
  readonly base: URL;
  /** `v1`, when that is how its URL names the protocol's version. */
  readonly version: string | undefined;
  /** What its other versions share: the path before `v1/`. */
  readonly root: string | undefined;
}

/** `v2/`, and what it is about when that is of the registry: `v2/providers/…`, `v2/provider-docs/…`. */
const VERSIONED = /^(v\d+\/)(?:(provider|module)(?:s\/|s$|-))?/;

/**
 * Finds what a path means. In this order:
 *
 * 1. `v1/providers/…` and `v1/modules/…`, wherever the host has these services
 * 2. `v2/…`: other versions beside them, which public registries offer without naming them in their discovery
 * 3. a path that begins as the path of some discovered service does, on that service's own origin
 *
 * @param path without a slash at its beginning, percent-encoded, known to hold nothing that leads out of it
 * @returns `undefined` when the host offers nothing there
 */
export function servicePath(services: Services, path: string): ServicePath | undefined {
  return ofProtocol(services, path) ?? ofSibling(services, path) ?? ofService(services, path);
}

function ofProtocol(services: Services, path: string): ServicePath | undefined {
  for (const { kind, base } of apisOf(services)) {
    const prefix = `v1/${kind}/`;
    if (path.startsWith(prefix)) return { base, prefix, rest: path.slice(prefix.length), isRegistry: true };
  }
  return undefined;
}

function ofSibling(services: Services, path: string): ServicePath | undefined {
  const versioned = [...apisOf(services)].filter(({ root }) => root !== undefined);
  for (const prefixOf of [() => '', ({ root }: Api) => (root ?? '').slice(1)]) {
    const found = versioned.flatMap((api) => {
      const before = prefixOf(api);
      const [, sibling, about] = (path.startsWith(before) && VERSIONED.exec(path.slice(before.length))) || [];
      return sibling === undefined || sibling === `${api.version}/` ? [] : [{ api, before, sibling, about }];
    });
    // The two protocols of a host may be far from each other: what is about one of them is asked beside it.
    const chosen = found.find(({ api, about }) => about !== undefined && api.kind === `${about}s`) ?? found[0];
    if (!chosen) continue;
    const { api, before, sibling, about } = chosen;
    const prefix = before + sibling;
    const base = new URL(`${api.root}${sibling}`, api.base);
    return { base, prefix, rest: path.slice(prefix.length), isRegistry: about !== undefined };
  }
  return undefined;
}

function ofService(services: Services, path: string): ServicePath | undefined {
  const [longest] = Object.entries(services)
    .map(([id, url]) => ({ id, base: new URL(url) }))
    .filter(({ base }) => `/${path}`.startsWith(base.pathname))
    .sort((a, b) => b.base.pathname.length - a.base.pathname.length);
  if (!longest) return undefined;
  const prefix = longest.base.pathname.slice(1);
  const isRegistry = /^(?:providers|modules)\.v\d+$/.test(longest.id);
  return { base: longest.base, prefix, rest: path.slice(prefix.length), isRegistry };
}

/**
 * Which provider or module a path is about, told by where it leads upstream, so that no other way to the same place
 * gets around rules for addresses.
 * @throws InvalidAddress when it can be the address of neither
 */
export function addressIn(services: Services, hostname: Hostname, found: ServicePath): MirroredAddress | undefined {
  const target = found.base.pathname + found.rest;
  for (const { kind, base, root } of apisOf(services)) {
    if (base.origin !== found.base.origin) continue;
    const [below] = [base.pathname, ...(root === undefined ? [] : [siblingBase(target, root, kind)])].flatMap(
      (prefix) => (prefix !== undefined && target.startsWith(prefix) ? target.slice(prefix.length) : []),
    );
    const [namespace, name, system] = (below ?? '').split('/').map(decodeURIComponent);
    if (!namespace || !name) continue;
    // Rules about modules do not look at the system.
    if (kind === 'modules') return new ModuleAddress(hostname, namespace, name, system || 'any');
    return new ProviderAddress(hostname, namespace, name);
  }
  return undefined;
}

function siblingBase(target: string, root: string, kind: Kind): string | undefined {
  const [, sibling] = (target.startsWith(root) && VERSIONED.exec(target.slice(root.length))) || [];
  return sibling === undefined ? undefined : `${root}${sibling}${kind}/`;
}

/**
 * A `Location` of upstream's answer as clients are to be told it. Within what they asked through here it leads through
 * here again, relative to the path that was asked for; elsewhere it stays what it is, made absolute.
 * @returns `undefined` for what is no URL
 */
export function locationHere({ base, prefix, rest }: ServicePath, location: string): string | undefined {
  const asked = new URL(`${base.origin}${base.pathname}${rest}`);
  if (!URL.canParse(location, asked.href)) return undefined;
  const target = new URL(location, asked);
  const isWithin = target.origin === base.origin && target.pathname.startsWith(base.pathname) && !target.username;
  if (!isWithin) return target.href;
  const up = '../'.repeat(`${prefix}${rest}`.split('/').length - 1);
  return `${up || './'}${prefix}${target.pathname.slice(base.pathname.length)}${target.search}${target.hash}`;
}

function* apisOf(services: Services): Generator<Api> {
  for (const kind of ['providers', 'modules'] as const) {
    const url = services[`${kind}.v1`];
    if (url === undefined) continue;
    const base = new URL(url);
    const [, root, version] = new RegExp(`^(/(?:.*/)?)(v\\d+)/${kind}/$`).exec(base.pathname) ?? [];
    yield { kind, base, root, version };
  }
}
