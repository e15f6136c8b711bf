import { createHash } from 'node:crypto';
import type { Hostname } from '../address/hostname.ts';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import type { ProviderPattern } from '../address/provider-pattern.ts';
import { AddressExcluded, HostNotAllowed } from '../errors.ts';
import type { RequestOrigin } from '../request-origin.ts';
import { AskedUpstream, type Upstream } from '../upstream/upstream.ts';

/** Whoever asks, as far as upstreams may hear of it. */
export interface Requester {
  /** A token that is none of Larder's own: for upstreams that are asked with the tokens of those who ask here. */
  readonly bearer: string | undefined;
  /** What they ask with; absent for what Larder does by itself. */
  readonly origin?: RequestOrigin | undefined;
}

export const NOBODY: Requester = { bearer: undefined };

/** One upstream and which of its addresses may be mirrored. */
export interface UpstreamRule {
  readonly upstream: Upstream;
  /** Empty: everything. */
  readonly include: readonly ProviderPattern[];
  /** Wins over `include`. */
  readonly exclude: readonly ProviderPattern[];
  /** It is asked with the token of whoever asks here, never with one of ours. */
  readonly forward?: boolean;
}

/** The allow-list: which hosts Larder speaks to at all, and what it mirrors of them. */
export class Policy {
  readonly #rules: ReadonlyMap<string, UpstreamRule>;

  constructor(rules: Iterable<UpstreamRule>) {
    this.#rules = new Map([...rules].map((rule) => [rule.upstream.hostname.toString(), rule]));
  }

  get hostnames(): readonly Hostname[] {
    return [...this.#rules.values()].map((rule) => rule.upstream.hostname);
  }

  /** Whether it is asked with the tokens of those who ask here. */
  forwards(hostname: Hostname): boolean {
    return this.#rules.get(hostname.toString())?.forward === true;
  }

  /**
   * The upstream to ask about a provider or a module, and how to ask it for this requester.
   * @throws HostNotAllowed when its hostname is not configured
   * @throws AddressExcluded when the patterns leave it out
   */
  admit(address: MirroredAddress, requester: Requester = NOBODY): Upstream {
    const upstream = this.admits(address, requester);
    if (upstream) return upstream;
    throw new AddressExcluded(`${address} is excluded from this mirror`, {
      hint: `the operator decides with include and exclude of upstreams.hosts."${address.hostname}"`,
    });
  }

  /** The same, `undefined` when the patterns leave it out. @throws HostNotAllowed */
  admits(address: MirroredAddress, requester: Requester = NOBODY): Upstream | undefined {
    const rule = this.#rule(address.hostname);
    const isIncluded = rule.include.length === 0 || rule.include.some((pattern) => pattern.matches(address));
    if (!isIncluded || rule.exclude.some((pattern) => pattern.matches(address))) return undefined;
    return askedFor(requester, rule);
  }

  /** The upstream itself, for what is about none of its addresses in particular. @throws HostNotAllowed */
  upstream(hostname: Hostname, requester: Requester = NOBODY): Upstream {
    return askedFor(requester, this.#rule(hostname));
  }

  #rule(hostname: Hostname): UpstreamRule {
    const rule = this.#rules.get(hostname.toString());
    if (rule) return rule;
    throw new HostNotAllowed(`${hostname} is not among the registries mirrored here`, {
      hint: `the operator can add it to upstreams.hosts; mirrored are: ${this.hostnames.join(', ')}`,
    });
  }
}

function askedFor(requester: Requester, { forward, upstream }: UpstreamRule): Upstream {
  const asked = forward ? onBehalfOf(requester, upstream) : upstream;
  const { origin } = requester;
  return origin ? new AskedUpstream(asked, origin) : asked;
}

/** What is cached of it then is this requester's alone. The token itself is in no key. */
function onBehalfOf({ bearer }: Requester, upstream: Upstream): Upstream {
  const partition =
    bearer === undefined ? 'anonymous' : createHash('sha256').update(`forward\n${bearer}`).digest('hex');
  return { ...upstream, token: async () => bearer, partition };
}
