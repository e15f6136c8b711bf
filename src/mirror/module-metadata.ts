import type { ModuleAddress, ModuleRelease } from '../address/module.ts';
import type { Version } from '../address/version.ts';
import type { MetadataRead, ReadOptions } from '../cache/metadata-cache.ts';
import { NotFound } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { loggerFor } from '../request-origin.ts';
import { metadataKeys } from '../store/keys.ts';
import type { LocationAnswer, ModuleRegistry, ModuleVersions } from '../upstream/module-registry.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { accepted, type UpstreamMetadata } from './upstream-metadata.ts';

/** A version that the cached list does not name may just have been published: the list is asked for anew, but not more often than this. */
const UNLISTED_VERSION_RECHECK_MS = 10_000;

/** What upstream registries say of modules, through the metadata cache: discovery, versions, and where a package is. */
export class ModuleMetadata {
  readonly #upstreams: UpstreamMetadata;
  readonly #registry: ModuleRegistry;
  readonly #logger: Logger;

  constructor(deps: { upstreams: UpstreamMetadata; registry: ModuleRegistry; logger: Logger }) {
    this.#upstreams = deps.upstreams;
    this.#registry = deps.registry;
    this.#logger = deps.logger;
  }

  /**
   * The versions list.
   * @throws NotFound when the registry does not know the module
   * @throws Unauthenticated when it was asked with the requester's token and does not accept that
   */
  versions(
    upstream: Upstream,
    module: ModuleAddress,
    options: ReadOptions = {},
  ): Promise<MetadataRead<ModuleVersions>> {
    const load = async (signal: AbortSignal) => {
      const base = await this.#base(upstream);
      const list = await accepted(upstream, this.#registry.versions(upstream, base, module, signal));
      if (list.skipped.length > 0) {
        loggerFor(upstream.origin, this.#logger).warn('left out of the versions list: not versions', {
          module: module.toString(),
          entries: list.skipped.slice(0, 20),
        });
      }
      return list;
    };
    return this.#upstreams.read(
      upstream,
      metadataKeys.moduleVersions(module),
      (kinds) => kinds.moduleVersions,
      load,
      options,
    );
  }

  /**
   * Where upstream says that a package is. It may be a link that is good for a short time: `renew` asks for a new one.
   * @throws NotFound when upstream has no such version
   */
  location(
    upstream: Upstream,
    { module, version }: ModuleRelease,
    options: { readonly renew?: boolean } = {},
  ): Promise<MetadataRead<LocationAnswer>> {
    const load = async (signal: AbortSignal) => {
      const base = await this.#base(upstream);
      const published = await this.#published(upstream, module, version);
      return accepted(upstream, this.#registry.download(upstream, base, module, published, signal));
    };
    return this.#upstreams.read(
      upstream,
      metadataKeys.moduleLocation(module, version),
      (kinds) => kinds.moduleLocation,
      load,
      options.renew ? { notBefore: Date.now() } : {},
    );
  }

  /** When upstream says that it published a version, given as it spells it; `undefined` when it does not say. Not remembered. */
  async publishedAt(
    upstream: Upstream,
    module: ModuleAddress,
    published: string,
    signal: AbortSignal,
  ): Promise<Date | undefined> {
    return this.#registry.publishedAt(upstream, await this.#base(upstream), module, published, signal);
  }

  #base(upstream: Upstream): Promise<URL> {
    return this.#upstreams.service(upstream, 'modules.v1');
  }

  /** How upstream spells a version, looked for once more in a new list when the cached one does not have it. */
  async #published(upstream: Upstream, module: ModuleAddress, version: Version): Promise<string> {
    const find = ({ value }: MetadataRead<ModuleVersions>) =>
      value.versions.find((entry) => entry.version.toString() === version.toString())?.published;
    const cached = find(await this.versions(upstream, module));
    if (cached !== undefined) return cached;
    const newest = await this.versions(upstream, module, { notBefore: Date.now() - UNLISTED_VERSION_RECHECK_MS });
    const renewed = find(newest);
    if (renewed !== undefined) return renewed;
    // An old list proves nothing about what is new.
    if (newest.stale) throw newest.stale.reason;
    throw new NotFound(`${module.hostname} has no version ${version} of ${module.written}`);
  }
}
