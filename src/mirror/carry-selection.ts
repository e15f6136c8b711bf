import type { Hostname } from '../address/hostname.ts';
import type { Platform } from '../address/platform.ts';
import type { Diagnostic } from '../configuration/requirements.ts';
import { NotFound } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { CarriedArchive, CarriedPackage, CarrySource } from './carried.ts';
import type { ListedPackage } from './provider-mirror.ts';
import type { Wish } from './wanted.ts';
import { WarmPlan } from './warm-plan.ts';
import type { WishReader } from './wish-reader.ts';

/** What of everything that is stored somebody needs. */
export interface CarrySelection {
  readonly isWanted: (carried: CarriedArchive | CarriedPackage) => boolean;
  /** What they need besides, and is not stored. */
  readonly missing: readonly { readonly what: string; readonly reason: string }[];
  /** What is to be said of their files. */
  readonly diagnostics: readonly Diagnostic[];
  /** The registry that was meant where none is named. */
  readonly impliedHostname: Hostname | undefined;
}

/**
 * Picks what `init` would pick if there were nothing but what is stored.
 * @param wish without platforms, all that are stored of a version are meant
 */
export async function selectCarried(
  wish: Wish,
  deps: { source: CarrySource; reader: WishReader; logger: Logger },
): Promise<CarrySelection> {
  const stored = await Stored.read(deps.source);
  const plan = new WarmPlan({ ...stored.lists, logger: deps.logger });
  const isAnyPlatform = wish.platforms.length === 0;
  const platforms = isAnyPlatform ? stored.platforms : wish.platforms;
  const read = await deps.reader.read({ ...wish, platforms }, (call) => plan.childPackage(call));
  const wanted = new Set<string>();
  const missing: { what: string; reason: string }[] = [];
  for await (const item of plan.items({ ...read, platforms })) {
    if ('wanted' in item) {
      wanted.add(item.wanted.kind === 'archive' ? `${item.wanted.archive}` : `${item.wanted.release}`);
    } else if (item.outcome === 'failed' || !isAnyPlatform) {
      missing.push({ what: item.unplanned, reason: item.reason });
    }
  }
  return {
    isWanted: (carried) => wanted.has('archive' in carried ? `${carried.archive}` : `${carried.release}`),
    missing,
    diagnostics: read.diagnostics,
    impliedHostname: read.impliedHostname,
  };
}

/** Lists as a mirror would give them that has nothing but what is stored. */
class Stored {
  readonly #source: CarrySource;
  readonly #archives = new Map<string, CarriedArchive[]>();
  readonly #packages = new Map<string, CarriedPackage[]>();

  private constructor(source: CarrySource) {
    this.#source = source;
  }

  static async read(source: CarrySource): Promise<Stored> {
    const stored = new Stored(source);
    for await (const carried of source.archives()) add(stored.#archives, `${carried.archive.provider}`, carried);
    for await (const carried of source.packages()) add(stored.#packages, `${carried.release.module}`, carried);
    return stored;
  }

  get platforms(): readonly Platform[] {
    const all = [...this.#archives.values()].flat().map(({ archive }) => archive.platform);
    return [...new Map(all.map((platform) => [platform.toString(), platform])).values()];
  }

  get lists(): Pick<ConstructorParameters<typeof WarmPlan>[0], 'providers' | 'modules'> {
    return {
      providers: {
        listVersions: async (provider) => {
          const ofProvider = this.#archives.get(`${provider}`);
          if (!ofProvider) throw new NotFound('nothing of it is stored');
          return { versions: ofProvider.map(({ archive }) => archive.version) };
        },
        listPackages: async (provider, version) => {
          const ofVersion = (this.#archives.get(`${provider}`) ?? []).filter(
            ({ archive }) => `${archive.version}` === `${version}`,
          );
          if (ofVersion.length === 0) throw new NotFound('this version is not stored');
          return { archives: ofVersion.map(({ archive }): ListedPackage => ({ archive, hashes: [] })) };
        },
      },
      modules: {
        list: async (module) => {
          const ofModule = this.#packages.get(`${module}`);
          if (!ofModule) throw new NotFound('nothing of it is stored');
          return { versions: ofModule.map(({ release }) => release.version) };
        },
        locate: async (release) => {
          const { subdir, sha256 } = this.#package(`${release.module}`, `${release.version}`);
          return { kind: 'package', state: 'stored', subdir, sha256, isPrivate: false };
        },
        openPackage: async (release) => {
          const carried = this.#package(`${release.module}`, `${release.version}`);
          const { size, sha256 } = carried;
          const stream = () => this.#source.openPackage(carried);
          return { state: 'stored', size, sha256, storedAt: new Date(0), stream };
        },
      },
    };
  }

  #package(module: string, version: string): CarriedPackage {
    const found = this.#packages.get(module)?.find(({ release }) => `${release.version}` === version);
    if (found) return found;
    throw new NotFound('this version is not stored');
  }
}

function add<T>(lists: Map<string, T[]>, key: string, item: T): void {
  lists.set(key, [...(lists.get(key) ?? []), item]);
}
