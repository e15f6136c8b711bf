import type { ProviderArchive } from '../address/archive.ts';
import type { ModuleAddress, ModuleRelease } from '../address/module.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { ReadOptions } from '../cache/metadata-cache.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { Cooldown } from './cooldown.ts';
import type { ModuleMetadata } from './module-metadata.ts';
import type { ProviderMetadata } from './provider-metadata.ts';

/** What upstream registries say of providers, to those who hand it on. */
export type ProviderAnswers = Pick<ProviderMetadata, 'versions' | 'release' | 'document'>;

/** What upstream registries say of modules, to those who hand it on. */
export type ModuleAnswers = Pick<ModuleMetadata, 'versions' | 'location'>;

/** The same without versions that are too young: those are absent, as if upstream did not have them yet. */
export class SeasonedProviders implements ProviderAnswers {
  readonly #metadata: ProviderMetadata;
  readonly #cooldown: Cooldown<ProviderAddress>;

  constructor(deps: { metadata: ProviderMetadata; cooldown: Cooldown<ProviderAddress> }) {
    this.#metadata = deps.metadata;
    this.#cooldown = deps.cooldown;
  }

  versions(upstream: Upstream, provider: ProviderAddress, options?: ReadOptions) {
    return this.#cooldown.sift(upstream, provider, this.#metadata.versions(upstream, provider, options));
  }

  async release(upstream: Upstream, provider: ProviderAddress, version: Version, options?: ReadOptions) {
    await this.#demand(upstream, provider, version);
    return this.#metadata.release(upstream, provider, version, options);
  }

  async document(upstream: Upstream, archive: ProviderArchive, renew?: boolean) {
    await this.#demand(upstream, archive.provider, archive.version);
    return this.#metadata.document(upstream, archive, renew);
  }

  #demand(upstream: Upstream, provider: ProviderAddress, version: Version): Promise<void> {
    return this.#cooldown.demand(upstream, provider, version, (options) =>
      this.#metadata.versions(upstream, provider, options),
    );
  }
}

/** The same of modules. */
export class SeasonedModules implements ModuleAnswers {
  readonly #metadata: ModuleMetadata;
  readonly #cooldown: Cooldown<ModuleAddress>;

  constructor(deps: { metadata: ModuleMetadata; cooldown: Cooldown<ModuleAddress> }) {
    this.#metadata = deps.metadata;
    this.#cooldown = deps.cooldown;
  }

  versions(upstream: Upstream, module: ModuleAddress, options?: ReadOptions) {
    return this.#cooldown.sift(upstream, module, this.#metadata.versions(upstream, module, options));
  }

  async location(upstream: Upstream, release: ModuleRelease, options?: { readonly renew?: boolean }) {
    await this.#cooldown.demand(upstream, release.module, release.version, (more) =>
      this.#metadata.versions(upstream, release.module, more),
    );
    return this.#metadata.location(upstream, release, options);
  }
}
