import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';

/** So many wrong tokens from one address are answered as what they are. */
const ALLOWED = 20;
/** They are counted from the first for so long, in milliseconds. */
const WINDOW_MS = 60_000;
/** Addresses remembered; beyond that the one that failed longest ago is forgotten. */
const MAX_ADDRESSES = 10_000;
/** Whoever has an IPv6 address has at least a network of this many bits: it counts as one. */
const IPV6_NETWORK_BYTES = 8;

/** Who keeps presenting tokens that are nobody's. It only says so: those who have a valid one are never held up. */
export class FailedAttempts {
  readonly #counts: LRUCache<string, { failed: number }>;

  constructor({ now = () => performance.now() }: { now?: () => number } = {}) {
    this.#counts = new LRUCache({
      max: MAX_ADDRESSES,
      ttl: WINDOW_MS,
      noUpdateTTL: true,
      ttlResolution: 0,
      perf: { now },
    });
  }

  /** Counts one more of this remote address. Returns whether it is one too many. */
  add(remoteAddress: string): boolean {
    const network = networkOf(remoteAddress);
    const count = this.#counts.get(network) ?? { failed: 0 };
    count.failed += 1;
    this.#counts.set(network, count);
    return count.failed > ALLOWED;
  }
}

function networkOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return Buffer.from(parsed.toByteArray().slice(0, IPV6_NETWORK_BYTES)).toString('hex');
}
