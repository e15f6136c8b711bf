import type { Hostname } from '../address/hostname.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { AddressExcluded, HostNotAllowed } from '../errors.ts';
import type { Upstream } from '../upstream/upstream.ts';

/** One upstream and which of its addresses may be mirrored. */
export interface UpstreamRule {
  readonly upstream: Upstream;
  /** `NAMESPACE/TYPE` patterns, `*` for any whole segment. Empty: everything. */
  readonly include: readonly string[];
  /** Wins over `include`. */
  readonly exclude: readonly string[];
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

  /**
   * The upstream to ask about a provider.
   * @throws HostNotAllowed when its hostname is not configured
   * @throws AddressExcluded when the patterns leave it out
   */
  admit(provider: ProviderAddress): Upstream {
    const rule = this.#rules.get(provider.hostname.toString());
    if (!rule) {
      throw new HostNotAllowed(`${provider.hostname} is not among the registries mirrored here`, {
        hint: `the operator can add it to upstreams.hosts; mirrored are: ${this.hostnames.join(', ')}`,
      });
    }
    const included = rule.include.length === 0 || rule.include.some((pattern) => matches(pattern, provider));
    if (!included || rule.exclude.some((pattern) => matches(pattern, provider))) {
      throw new AddressExcluded(`${provider} is excluded from this mirror`, {
        hint: `the operator decides with include and exclude of upstreams.hosts."${provider.hostname}"`,
      });
    }
    return rule.upstream;
  }
}

function matches(pattern: string, provider: ProviderAddress): boolean {
  const [namespace, type] = pattern.toLowerCase().split('/');
  return (namespace === '*' || namespace === provider.namespace) && (type === '*' || type === provider.type);
}
