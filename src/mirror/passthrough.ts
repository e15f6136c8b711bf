import type { Hostname } from '../address/hostname.ts';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import { Forbidden, NotFound } from '../errors.ts';
import type { Relay, RelayedRequest } from '../upstream/relay.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { notPassedOn } from './not-stored.ts';
import { NOBODY, type Policy, type Requester } from './policy.ts';
import { addressIn, locationHere, type ServicePath, servicePath } from './service-paths.ts';
import type { UpstreamMetadata } from './upstream-metadata.ts';

/** Where a request is passed on to, and what it is about. */
export class Destination {
  /** What it is about, if that is one provider or module. */
  readonly address: MirroredAddress | undefined;
  readonly upstream: Upstream;
  readonly #found: ServicePath;

  constructor(found: ServicePath, upstream: Upstream, address: MirroredAddress | undefined) {
    this.#found = found;
    this.upstream = upstream;
    this.address = address;
  }

  /** It is asked with the token of whoever asks here, whose affair the answer is then. */
  get isForwarded(): boolean {
    return this.upstream.partition !== undefined;
  }

  get isRegistry(): boolean {
    return this.#found.isRegistry;
  }

  /** Scheme, host and port, and a path as the parser spells it: for connections and errors. */
  get url(): URL {
    return new URL(`${this.#found.base.origin}${this.path}`);
  }

  /** As it is asked for, byte for byte. */
  get path(): string {
    return this.#found.base.pathname + this.#found.rest;
  }

  /** A `Location` as it is told here; `undefined` for what is no URL. */
  locationHere(location: string): string | undefined {
    return locationHere(this.#found, location);
  }
}

/**
 * What registries offer beside what is mirrored: search, documentation, details, versions of their APIs that only some
 * have. Nothing of it is understood or kept, it is passed on as it is.
 */
export class Passthrough {
  readonly #policy: Policy;
  readonly #upstreams: Pick<UpstreamMetadata, 'services'>;
  readonly #relay: Relay;
  readonly #isSealed: () => boolean;

  constructor(deps: {
    policy: Policy;
    upstreams: Pick<UpstreamMetadata, 'services'>;
    relay: Relay;
    isSealed?: () => boolean;
  }) {
    this.#policy = deps.policy;
    this.#upstreams = deps.upstreams;
    this.#relay = deps.relay;
    this.#isSealed = deps.isSealed ?? (() => false);
  }

  /**
   * @param path below `/registry/HOST/`, percent-encoded, without a query
   * @throws HostNotAllowed; NotFound when the host offers nothing there, with what it does offer; InvalidAddress;
   * Forbidden when the operator's patterns leave out what it is about; whatever asking for the services throws
   */
  async find(hostname: Hostname, path: string, requester: Requester = NOBODY): Promise<Destination> {
    const upstream = this.#policy.upstream(hostname, requester);
    if (this.#isSealed()) throw notPassedOn(String(hostname), path);
    const services = await this.#upstreams.services(upstream);
    const found = servicePath(services, path);
    if (!found) {
      throw new NotFound('nothing is served under this path', { hint: offered(hostname, services) });
    }
    const address = addressIn(services, hostname, found);
    if (address && !this.#policy.admits(address, requester)) {
      throw new Forbidden(`${address} is excluded from this mirror`, {
        hint: `the operator decides with include and exclude of upstreams.hosts."${hostname}"`,
      });
    }
    return new Destination(found, upstream, address);
  }

  /**
   * @param startedAt when the request came, by `performance.now()`
   * @throws UpstreamUnreachable, UpstreamInvalid, InvalidConfiguration
   */
  open(
    { upstream, url, isRegistry, isForwarded }: Destination,
    startedAt: number,
    method: string,
  ): Promise<RelayedRequest> {
    return this.#relay.open({ upstream, url, authenticate: isRegistry || isForwarded, startedAt, method });
  }
}

function offered(hostname: Hostname, services: Readonly<Record<string, string>>): string {
  const paths = Object.entries(services).map(([id, url]) => {
    const [, kind] = /^(providers|modules)\.v1$/.exec(id) ?? [];
    return `${id} below /registry/${hostname}/${kind ? `v1/${kind}/` : new URL(url).pathname.slice(1)}`;
  });
  return paths.length === 0 ? `${hostname} offers no services` : `${hostname} offers ${paths.join(', ')}`;
}
