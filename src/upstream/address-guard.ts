import { lookup as dnsLookup, type LookupAddress, type LookupOptions } from 'node:dns';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { UpstreamInvalid } from '../errors.ts';

/**
 * Keeps upstreams, and whatever their answers point at, from leading Larder to machines inside its own network:
 * loopback, link-local (cloud metadata services), private and reserved addresses.
 */

/** Deprecated IPv4-compatible addresses: the library calls them ordinary, some systems route them to the IPv4 one. */
const IPV4_COMPATIBLE = ipaddr.parseCIDR('::/96') as [ipaddr.IPv6, number];

/** In the public range, but Azure's own: there it answers every machine with that machine's settings and secrets. */
const AZURE_HOST_SERVICE = '168.63.129.16';

/** Whether it is an ordinary address on the internet, IPv4-in-IPv6 forms looked through. */
export function isPublicAddress(address: string): boolean {
  // A zone (`fe80::1%eth0`) exists for link-local addresses only.
  if (!ipaddr.isValid(address) || address.includes('%')) return false;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv6' && (parsed as ipaddr.IPv6).match(IPV4_COMPATIBLE)) return false;
  return parsed.range() === 'unicast' && parsed.toString() !== AZURE_HOST_SERVICE;
}

/** A name resolved to nothing but addresses that are not allowed. Raised in the connection, told in plain words later. */
export class AddressNotAllowed extends Error {
  override readonly name = 'AddressNotAllowed';
}

/**
 * Looks at the host as the URL parser has normalised it (`2130706433` is 127.0.0.1 by then). Needed besides the
 * look-up: addresses are connected to without one, and a proxy resolves names by itself.
 * @throws UpstreamInvalid
 */
export function refuseInternalHost(url: URL): void {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const internal = isIP(host) ? !isPublicAddress(host) : /(^|\.)localhost\.?$/.test(host);
  if (internal) throw internalAddress(url.host);
}

export function internalAddress(host: string, cause?: unknown): UpstreamInvalid {
  return new UpstreamInvalid(host, 'is on a loopback, link-local, private or reserved address', {
    hint: 'If this is meant, set privateNetwork: true for the upstream that leads there.',
    cause,
  });
}

type LookupCallback = (
  error: NodeJS.ErrnoException | null,
  address: string | LookupAddress[],
  family?: number | undefined,
) => void;

/** `lookup` for `net.connect`: yields public addresses only. What it yields is what is connected to. */
export function lookupPublic(hostname: string, options: LookupOptions, callback: LookupCallback): void {
  dnsLookup(hostname, { ...options, all: true }, (error, found) => {
    if (error) return callback(error, []);
    const allowed = found.filter(({ address }) => isPublicAddress(address));
    const [first] = allowed;
    if (!first) return callback(new AddressNotAllowed(`${hostname} has no public address`), []);
    if (options.all) callback(null, allowed);
    else callback(null, first.address, first.family);
  });
}
