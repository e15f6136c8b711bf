import pLimit from 'p-limit';
import { ProviderArchive } from '../address/archive.ts';
import type { Hash } from '../address/hash.ts';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import { ModuleRelease } from '../address/module.ts';
import type { Platform } from '../address/platform.ts';
import type { Version } from '../address/version.ts';
import { VersionConstraint } from '../address/version-constraint.ts';
import type { ChildPackage } from '../configuration/configuration-files.ts';
import type { ModuleRequirement, ProviderRequirement } from '../configuration/requirements.ts';
import { LarderError, NotFound } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { readModuleFiles } from './module-files.ts';
import type { ModuleMirror } from './module-mirror.ts';
import type { ProviderMirror } from './provider-mirror.ts';
import { type Accepting, exactly, type TooNewVersions, tooNewWords } from './too-new.ts';
import type { PlannedItem, ReadWish } from './wanted.ts';

/** Requirements that are looked up at a time: what clients ask for meanwhile shall not wait for that. */
const CONCURRENT_LOOK_UPS = 4;

interface WarmPlanDeps {
  readonly providers: Pick<ProviderMirror, 'listVersions' | 'listPackages'>;
  readonly modules: Pick<ModuleMirror, 'list' | 'locate' | 'openPackage'>;
  /** What lists lack because it is too new. Without it, nothing is. */
  readonly tooNew?: Pick<TooNewVersions, 'find'> | undefined;
  readonly logger: Logger;
}

/** Brings a wish down to archives and packages, by the lists that clients get: it picks what `init` would pick. */
export class WarmPlan {
  readonly #providers: WarmPlanDeps['providers'];
  readonly #modules: WarmPlanDeps['modules'];
  readonly #tooNew: WarmPlanDeps['tooNew'];
  readonly #logger: Logger;

  constructor(deps: WarmPlanDeps) {
    this.#providers = deps.providers;
    this.#modules = deps.modules;
    this.#tooNew = deps.tooNew;
    this.#logger = deps.logger;
  }

  /**
   * The configuration in the package of a called module; brings the package in, as whoever needs the module would.
   * @throws LarderError when it is not to be had
   */
  async childPackage(call: ModuleRequirement): Promise<ChildPackage> {
    const release = await this.#releaseOf(call);
    const readable = await this.#modules.openPackage(release);
    const located = await this.#modules.locate(release);
    const subdir = located.kind === 'package' ? located.subdir : '';
    return readModuleFiles({ release, subdir, calledSubdir: call.subdir }, await readable.stream());
  }

  /**
   * Modules first, then providers, in the order of the wish, each item once. What cannot be brought down to an item is
   * told with the reason, and keeps up nothing else. Never throws.
   */
  async *items({ requirements, platforms }: ReadWish): AsyncGenerator<PlannedItem> {
    const limit = pLimit(CONCURRENT_LOOK_UPS);
    const { modules, providers } = requirements;
    const locks = acceptedHashes(providers);
    const parts = [
      ...modules.map((call) => limit(() => this.#module(call))),
      ...providers.map((requirement) => limit(() => this.#provider(requirement, platforms, locks))),
    ];
    const seen = new Set<string>();
    try {
      for (const part of parts) {
        for (const item of await part) {
          const key = keyOf(item);
          if (!seen.has(key)) yield item;
          seen.add(key);
        }
      }
    } finally {
      limit.clearQueue();
    }
  }

  async #module(call: ModuleRequirement): Promise<PlannedItem[]> {
    try {
      return [{ wanted: { kind: 'package', release: await this.#releaseOf(call) } }];
    } catch (error) {
      return [this.#failed(`${call.address}${wordsOf(call.constraint)}`, error)];
    }
  }

  /** @throws NotFound when no version fits, and what the list throws */
  async #releaseOf({ address, constraint }: ModuleRequirement): Promise<ModuleRelease> {
    const { versions } = await this.#modules.list(address);
    const [newest] = constraint.select(versions);
    if (newest) return new ModuleRelease(address, newest);
    await this.#refuseYoung(address, constraint);
    throw new NotFound(noneFits(`${address.hostname} has no version of ${address.written}`, constraint, versions));
  }

  async #provider(
    requirement: ProviderRequirement,
    platforms: readonly Platform[],
    locks: ReadonlyMap<string, readonly Hash[]>,
  ): Promise<PlannedItem[]> {
    const { address, locked } = requirement;
    const constraint = VersionConstraint.all(requirement.constraints);
    try {
      // Also of a locked version: clients ask for the list, and whoever excludes the provider says so there.
      const { versions } = await this.#providers.listVersions(address);
      const version = locked?.version ?? constraint.select(versions)[0];
      const what = `${address.hostname} has no version of ${address.namespace}/${address.type}`;
      if (!version) await this.#refuseYoung(address, constraint);
      if (!version) throw new NotFound(noneFits(what, constraint, versions));
      const { archives, stale } = await this.#providers.listPackages(address, version);
      const known = new Set(archives.map(({ archive }) => String(archive.platform)));
      if (known.size === 0) {
        await this.#refuseYoung(address, exactly(version));
        // A sealed mirror has not asked whether there is one.
        throw new NotFound(
          stale?.missing ?? `${address.hostname} has no version ${version} of ${address.namespace}/${address.type}`,
        );
      }
      const accepted = locks.get(`${address} ${version}`);
      return platforms.map((platform): PlannedItem => {
        if (known.has(String(platform))) {
          const archive = new ProviderArchive(address, version, platform);
          return { wanted: { kind: 'archive', archive }, ...(accepted && { locked: accepted }) };
        }
        const reason = `${address} ${version} does not exist for ${platform}; it does for ${[...known].sort().join(', ')}`;
        return { unplanned: `${address} ${version} ${platform}`, outcome: 'unsupported', reason };
      });
    } catch (error) {
      return [this.#failed(`${address}${locked ? ` ${locked.version}` : wordsOf(constraint)}`, error)];
    }
  }

  /** @throws NotFound naming the date from which it is there, when that is why nothing that is accepted is there */
  async #refuseYoung(address: MirroredAddress, constraint: Accepting): Promise<void> {
    const young = await this.#tooNew?.find(address, constraint);
    if (young) throw new NotFound(`${address} ${tooNewWords(young)}`);
  }

  #failed(unplanned: string, error: unknown): PlannedItem {
    if (error instanceof LarderError) {
      const reason = error.hint === undefined ? error.message : `${error.message} (${error.hint})`;
      return { unplanned, outcome: 'failed', reason };
    }
    this.#logger.error('something that is wanted could not be planned', { wanted: unplanned, error });
    return { unplanned, outcome: 'failed', reason: 'an internal error; the log of the server says more' };
  }
}

/** What every lock file accepts of a version; where no hash is in all of them, what the first does. */
function acceptedHashes(providers: readonly ProviderRequirement[]): ReadonlyMap<string, readonly Hash[]> {
  const accepted = new Map<string, readonly Hash[]>();
  for (const { address, locked } of providers) {
    // Then anything is accepted.
    if (!locked || locked.hashes.length === 0) continue;
    const key = `${address} ${locked.version}`;
    const known = accepted.get(key);
    const common = known?.filter((hash) => locked.hashes.includes(hash)) ?? [];
    accepted.set(key, common.length > 0 ? common : (known ?? locked.hashes));
  }
  return accepted;
}

function keyOf(item: PlannedItem): string {
  if ('unplanned' in item) return `${item.outcome} ${item.unplanned}`;
  return item.wanted.kind === 'archive' ? item.wanted.archive.toString() : item.wanted.release.toString();
}

function noneFits(what: string, constraint: VersionConstraint, versions: readonly Version[]): string {
  const [newest] = VersionConstraint.parse('').select(versions);
  return `${what} that is ${String(constraint) || 'a release'}${newest ? `; the newest is ${newest}` : ''}`;
}

function wordsOf(constraint: VersionConstraint): string {
  const text = String(constraint);
  return text === '' ? '' : ` ${text}`;
}
