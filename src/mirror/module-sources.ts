import type { ModuleRelease } from '../address/module.ts';
import { hasCode, NotMirrored } from '../errors.ts';
import type { MadePackage, PackageRecord, StoredPackage } from '../store/module-store.ts';
import type { ModuleLocation } from '../upstream/module-package/module-location.ts';
import { parseLocation } from '../upstream/module-package/parse-location.ts';
import { type MirroredLocation, type ModulePackages, sourceOf } from '../upstream/module-package.ts';
import type { LocationAnswer } from '../upstream/module-registry.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { ModuleMetadata } from './module-metadata.ts';

/** An answer about a package is due within 8 s, and this is one step towards it. */
const PROBE_MS = 3_000;

/** Where packages of modules are made of what their registry points at. */
export class ModuleSources {
  readonly #metadata: ModuleMetadata;
  readonly #packages: ModulePackages;

  constructor(deps: { metadata: ModuleMetadata; packages: ModulePackages }) {
    this.#metadata = deps.metadata;
    this.#packages = deps.packages;
  }

  /** Makes the package anew. @throws what upstream and the location's host are in trouble with */
  async make(upstream: Upstream, release: ModuleRelease, directory: string, signal: AbortSignal): Promise<MadePackage> {
    const make = async (answer: LocationAnswer) =>
      this.#packages.make(mirrored(answer, release), access(upstream, answer), directory, signal);
    const { value: known } = await this.#metadata.location(upstream, release);
    try {
      return await make(known);
    } catch (error) {
      // Links expire; a new one is asked for once before the file host's word is taken for it.
      if (!hasCode(error, 'UPSTREAM_REFUSED') && !hasCode(error, 'NOT_FOUND')) throw error;
      const { value: renewed } = await this.#metadata.location(upstream, release, { renew: true });
      if (renewed.location === known.location) throw error;
      return make(renewed);
    }
  }

  /** Whether what the package was made of is no longer what upstream has, as far as can be told without fetching it. */
  async hasMoved(upstream: Upstream, stored: StoredPackage, signal: AbortSignal): Promise<boolean> {
    const { value } = await this.#metadata.location(upstream, stored.release);
    const location = locationOf(value);
    if (location.kind === 'unmirrored') return false;
    if (sourceOf(location) !== stored.source) return true;
    const fingerprint = await this.#packages.fingerprint(location, access(upstream, value), signal);
    return fingerprint !== undefined && fingerprint !== stored.fingerprint;
  }

  /**
   * Whether a location is the one that the package was made of. Where its host decides by a token who may have it, it is
   * asked with that.
   * @throws UpstreamRefused, UpstreamUnreachable of that host
   */
  async leadsTo(upstream: Upstream, stored: StoredPackage, answer: LocationAnswer): Promise<boolean> {
    const location = locationOf(answer);
    if (location.kind === 'unmirrored' || sourceOf(location) !== stored.source) return false;
    const { authenticate } = access(upstream, answer);
    if (location.kind !== 'archive' || !authenticate) return true;
    const found = await this.#packages.probe(location, { upstream, authenticate }, AbortSignal.timeout(PROBE_MS));
    return found === undefined || stored.fingerprint === undefined || found === stored.fingerprint;
  }
}

/** @throws UpstreamInvalid when nobody could make anything of it */
export function locationOf({ location, base, isDirect }: LocationAnswer): ModuleLocation {
  return parseLocation(location, { base: new URL(base), isDirect });
}

function mirrored(answer: LocationAnswer, release: ModuleRelease): MirroredLocation {
  const location = locationOf(answer);
  if (location.kind === 'unmirrored') throw cannotBeMirrored(release, location.scheme);
  return location;
}

/** A token for archives goes no further than to where the registry's own API is. */
function access(upstream: Upstream, answer: LocationAnswer) {
  const location = locationOf(answer);
  const isOwn = location.kind === 'archive' && location.url.origin === new URL(answer.base).origin;
  return { upstream, authenticate: answer.useRegistryCredentials && isOwn };
}

export function cannotBeMirrored({ module, version }: ModuleRelease, scheme: string): NotMirrored {
  return new NotMirrored(
    `${module.hostname} keeps ${module.written} ${version} where a mirror cannot fetch it (${scheme})`,
    { hint: 'with modules.unsupported: pass clients are sent there to fetch it themselves' },
  );
}

/** Where in the package the module is counts as much as what is in it. */
export function isSame(first: PackageRecord, made: PackageRecord): boolean {
  return first.sha256 === made.sha256 && first.subdir === made.subdir;
}
