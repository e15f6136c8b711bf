import type { MetadataCache, MetadataKind, MetadataRead, ReadOptions } from '../cache/metadata-cache.ts';
import { hasCode, Unauthenticated } from '../errors.ts';
import { metadataKeys } from '../store/keys.ts';
import { type ServiceDiscovery, type Services, serviceUrl } from '../upstream/service-discovery.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { MetadataKinds } from './metadata-kinds.ts';

/**
 * What upstreams say, through the metadata cache. What an upstream tells one requester is kept apart from what it tells
 * others, and for less long.
 */
export class UpstreamMetadata {
  readonly #cache: Pick<MetadataCache, 'read' | 'forget'>;
  readonly #kinds: MetadataKinds;
  readonly #privateKinds: MetadataKinds;
  readonly #discovery: ServiceDiscovery;

  constructor(deps: {
    cache: Pick<MetadataCache, 'read' | 'forget'>;
    kinds: MetadataKinds;
    /** For upstreams with a partition. */
    privateKinds: MetadataKinds;
    discovery: ServiceDiscovery;
  }) {
    this.#cache = deps.cache;
    this.#kinds = deps.kinds;
    this.#privateKinds = deps.privateKinds;
    this.#discovery = deps.discovery;
  }

  /**
   * @throws NotFound, UpstreamUnreachable and whatever else `load` throws
   */
  read<T>(
    upstream: Upstream,
    key: string,
    kindOf: (kinds: MetadataKinds) => MetadataKind<T>,
    load: (signal: AbortSignal) => Promise<T>,
    options: ReadOptions = {},
  ): Promise<MetadataRead<T>> {
    const { hostname, partition } = upstream;
    const isForAll = partition === undefined;
    return this.#cache.read(
      isForAll ? key : metadataKeys.told(key, partition),
      kindOf(isForAll ? this.#kinds : this.#privateKinds),
      load,
      { host: hostname.toString(), ...options },
    );
  }

  /** Every service that the upstream's host offers. */
  async services(upstream: Upstream): Promise<Services> {
    const key = metadataKeys.discovery(upstream.hostname);
    const load = (signal: AbortSignal) => accepted(upstream, this.#discovery.discover(upstream, signal));
    return (await this.read(upstream, key, (kinds) => kinds.discovery, load)).value;
  }

  /** Where the upstream speaks a protocol: `providers.v1`. @throws UpstreamInvalid when it does not */
  async service(upstream: Upstream, id: string): Promise<URL> {
    return serviceUrl(await this.services(upstream), id, upstream.hostname);
  }

  /** Forgets what everybody was told. */
  forget(key: string): Promise<void> {
    return this.#cache.forget(key);
  }
}

/**
 * What an upstream's registry API answers. The requester's token is not Larder's to mend: that it is refused is told to
 * the requester.
 * @throws Unauthenticated then
 */
export async function accepted<T>({ partition, hostname }: Upstream, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (partition === undefined || !hasCode(error, 'UPSTREAM_REFUSED')) throw error;
    throw new Unauthenticated(
      `${hostname} does not accept ${partition === 'anonymous' ? 'requests without a' : 'this'} token`,
      {
        hint: `it is asked with the token that the client sends: configure the one of ${hostname} there`,
        cause: error,
      },
    );
  }
}
