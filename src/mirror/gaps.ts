import { ProviderArchive } from '../address/archive.ts';
import { zipHash } from '../address/hash.ts';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import type { ModuleAddress } from '../address/module.ts';
import type { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import { VersionConstraint } from '../address/version-constraint.ts';
import type { ChildPackage } from '../configuration/configuration-files.ts';
import type {
  Diagnostic,
  LockedProvider,
  ModuleRequirement,
  Origin,
  ProviderRequirement,
} from '../configuration/requirements.ts';
import { LarderError, StorageFailed } from '../errors.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import type { ModuleStore, StoredPackage } from '../store/module-store.ts';
import type { Gap, GapReport } from './gap-report.ts';
import { KeptKnowledge } from './kept-knowledge.ts';
import { readModuleFiles } from './module-files.ts';
import type { Policy } from './policy.ts';
import { parseStatementFile } from './release-statement.ts';
import { exactly, type TooNewVersions, tooNewWords } from './too-new.ts';
import { isForAll } from './upstream-answers.ts';
import type { Wish } from './wanted.ts';
import type { WishReader } from './wish-reader.ts';

interface GapsDeps {
  readonly reader: WishReader;
  readonly policy: Pick<Policy, 'admit'>;
  readonly archives: Pick<ArchiveStore, 'list' | 'find' | 'getRelease' | 'computePackageHash'>;
  readonly modules: Pick<ModuleStore, 'list' | 'find' | 'read'>;
  /** What is known to be too new to be brought in. Nothing, where that is not remembered. */
  readonly tooNew?: Pick<TooNewVersions, 'find'> | undefined;
}

/** Whether whoever asks may know of an address. */
type MayHave = (address: MirroredAddress) => boolean;

/**
 * What `init` would fail on if nothing could be fetched any more: it is done what the clients do, with the lists that a
 * sealed mirror gives them. Upstream is not asked.
 */
export class Gaps {
  readonly #deps: GapsDeps;

  constructor(deps: GapsDeps) {
    this.#deps = deps;
  }

  /** @throws StorageFailed */
  async find(wish: Wish, mayHave: MayHave = () => true): Promise<GapReport> {
    const search = new Search(this.#deps, mayHave);
    const read = await this.#deps.reader.read(wish, (call) => search.childPackage(call));
    const { requirements, platforms, diagnostics, impliedHostname } = read;
    for (const requirement of requirements.providers) await search.provider(requirement, platforms);
    for (const call of requirements.modules) await search.module(call);
    const all = [...diagnostics, ...search.diagnostics];
    const { client } = wish;
    return { gaps: search.gaps, diagnostics: all, platforms, client, impliedHostname, present: search.present };
  }
}

/** Accepts everything. */
const NOT_LOCKED = { hashes: [] };

/** What does not apply is left out. */
type FoundGap = Omit<Gap, 'version' | 'stored' | 'lockFile'> & Partial<Gap>;

/** Of something that was listed and is not found: whoever asks for it does not get it. */
const ALTERED = 'what is stored of it was altered since it was stored, and is given to nobody';

/** One look at everything. */
class Search {
  readonly #deps: GapsDeps;
  readonly #mayHave: MayHave;
  readonly #kept: KeptKnowledge;
  /** As first seen, by address: what turns out to be altered is put aside, and would look as if it had never been there. */
  readonly #archiveLists = new Map<string, Promise<readonly StoredArchive[]>>();
  readonly #packageLists = new Map<string, Promise<readonly StoredPackage[]>>();
  readonly #gaps = new Map<string, Gap>();
  readonly #archives = new Set<string>();
  readonly #packages = new Set<string>();
  readonly #unstated = new Map<string, Diagnostic>();

  constructor(deps: GapsDeps, mayHave: MayHave) {
    this.#deps = deps;
    this.#mayHave = mayHave;
    this.#kept = new KeptKnowledge(deps);
  }

  get gaps(): readonly Gap[] {
    return [...this.#gaps.values()];
  }

  get present(): GapReport['present'] {
    return { archives: this.#archives.size, packages: this.#packages.size };
  }

  /** What some clients would fail on, and others would not. */
  get diagnostics(): readonly Diagnostic[] {
    return [...this.#unstated.values()];
  }

  /** Of what is stored. */
  async childPackage(call: ModuleRequirement): Promise<ChildPackage | undefined> {
    if (this.#refusal(call.address) !== undefined) return undefined;
    const listed = newestOf(await this.#packagesOf(call.address), call.constraint);
    const stored = listed && (await this.#deps.modules.find(listed.release));
    if (!stored) return undefined;
    const { release, subdir } = stored;
    return readModuleFiles(
      { release, subdir, calledSubdir: call.subdir },
      await this.#deps.modules.read(stored, undefined, 'look'),
    );
  }

  async module({ address, constraint, origins }: ModuleRequirement): Promise<void> {
    const about = { address, constraint, platforms: [], wantedBy: origins };
    const refusal = this.#refusal(address);
    if (refusal !== undefined) {
      this.#tell({ ...about, kind: 'refused', reason: refusal });
      return;
    }
    const all = await this.#packagesOf(address);
    const stored = newestFirst(all.map(({ release }) => release.version));
    const unknown = 'what it requires in turn is not known';
    const listed = newestOf(all, constraint);
    if (!listed) {
      const reason = `${noneStored(stored, constraint)}; ${unknown}`;
      await this.#tellUnlessYoung({ ...about, kind: 'module', stored, reason });
    } else if (await this.#deps.modules.find(listed.release)) {
      this.#packages.add(String(listed.release));
    } else {
      const { version } = listed.release;
      this.#tell({ ...about, kind: 'altered', version, stored, reason: `${ALTERED}; ${unknown}` });
    }
  }

  async provider(requirement: ProviderRequirement, platforms: readonly Platform[]): Promise<void> {
    const { address, locked, origins } = requirement;
    const constraint = VersionConstraint.all(requirement.constraints);
    const about = { address, constraint, wantedBy: origins };
    const refusal = this.#refusal(address);
    if (refusal !== undefined) {
      this.#tell({ ...about, kind: 'refused', version: locked?.version, platforms, reason: refusal });
      return;
    }
    const all = await this.#archivesOf(address);
    const stored = newestFirst(all.map(({ archive }) => archive.version));
    const version = locked?.version ?? constraint.select(stored)[0];
    if (!version) {
      const reason = noneStored(stored, constraint);
      await this.#tellUnlessYoung({ ...about, kind: 'provider', platforms, stored, reason });
      return;
    }
    const ofVersion = all.filter(({ archive }) => String(archive.version) === String(version));
    for (const platform of platforms) {
      const listed = ofVersion.find(({ archive }) => String(archive.platform) === String(platform));
      const found = listed && (await this.#deps.archives.find(listed.archive));
      const isAccepted = found && (await this.#isAccepted(found, locked).catch(unlessGone));
      const what = { ...about, version, platforms: [platform], stored };
      const archive = new ProviderArchive(address, version, platform);
      if (!listed && (await this.#kept.doesNotExist(archive))) {
        this.#tell({ ...what, kind: 'unsupported', reason: `SHA256SUMS of it lists nothing for ${platform}` });
      } else if (!listed) {
        const reason = `it is not stored${instead(ofVersion, stored)}`;
        await this.#tellUnlessYoung({ ...what, kind: 'archive', reason });
      } else if (!found || isAccepted === undefined) {
        this.#tell({ ...what, kind: 'altered', reason: ALTERED });
      } else if (locked && !isAccepted) {
        const accepts = `${locked.file} accepts no hash of the archive that is stored`;
        const foreign = await this.#kept.foreignDigest(archive, locked.hashes);
        const kind = foreign === undefined ? 'lock' : 'contradicted';
        const reason =
          foreign === undefined ? accepts : `${accepts}, and has ${foreign}, which SHA256SUMS does not list`;
        this.#tell({ ...what, kind, lockFile: locked.file, reason });
      } else {
        this.#archives.add(String(found.archive));
        await this.#lookForStatement(found, origins);
      }
    }
  }

  /** Whether `init` finds one of its hashes in the lock file, if there is one. @throws StorageFailed, `gone` when it was altered */
  async #isAccepted(stored: StoredArchive, { hashes }: Pick<LockedProvider, 'hashes'> = NOT_LOCKED): Promise<boolean> {
    if (hashes.length === 0 || hashes.includes(zipHash(stored.sha256))) return true;
    if (!hashes.some((hash) => hash.startsWith('h1:'))) return false;
    if (stored.h1 && hashes.includes(stored.h1)) return true;
    const computed = await this.#deps.archives.computePackageHash(stored);
    return computed !== undefined && (hashes.includes(computed.unpacked) || hashes.includes(computed.zip));
  }

  #archivesOf(address: ProviderAddress): Promise<readonly StoredArchive[]> {
    return firstSeen(this.#archiveLists, String(address), () => this.#deps.archives.list(address));
  }

  #packagesOf(address: ModuleAddress): Promise<readonly StoredPackage[]> {
    return firstSeen(this.#packageLists, String(address), () => this.#deps.modules.list(address));
  }

  /** What is not there yet for anybody cannot be warmed. */
  async #tellUnlessYoung(gap: FoundGap): Promise<void> {
    const { address, version, constraint } = gap;
    const exact = version ? exactly(version) : constraint;
    const young = await this.#deps.tooNew?.find(address, exact);
    if (!young) return this.#tell(gap);
    this.#tell({ ...gap, kind: 'young', reason: `${gap.reason}; ${tooNewWords(young)}` });
  }

  /** Clients that verify signatures themselves want to know what was signed, and by whom. */
  async #lookForStatement({ archive }: StoredArchive, [origin]: readonly Origin[]): Promise<void> {
    const { provider, version } = archive;
    const release = `${provider} ${version}`;
    if (!origin || this.#unstated.has(release)) return;
    const files = await this.#deps.archives.getRelease(provider, version);
    if (files?.statement && parseStatementFile(files.statement)) return;
    const message =
      `the archives of ${release} are stored without what its registry says of them: a network mirror can do without, ` +
      'clients with a host block cannot; warm it again';
    this.#unstated.set(release, { ...origin, severity: 'warning', message });
  }

  /** Why nothing of it is to be had here once upstream is gone, stored or not. */
  #refusal(address: MirroredAddress): string | undefined {
    if (!this.#mayHave(address)) return 'the token that asks is not for this address';
    try {
      if (isForAll(this.#deps.policy.admit(address))) return undefined;
      return `${address.hostname} itself decides who may have it, and could not be asked`;
    } catch (error) {
      if (error instanceof LarderError) return error.hint ? `${error.message} (${error.hint})` : error.message;
      throw error;
    }
  }

  /** The same gap of several requirements is one. */
  #tell(gap: FoundGap): void {
    const { kind, address, version, constraint, platforms, lockFile = '' } = gap;
    const key = [kind, address, version ?? constraint, platforms.join(','), lockFile].join('|');
    const known = this.#gaps.get(key);
    const wantedBy = [...(known?.wantedBy ?? []), ...gap.wantedBy];
    this.#gaps.set(key, {
      ...gap,
      version,
      lockFile: gap.lockFile,
      stored: gap.stored ?? [],
      wantedBy: [...new Map(wantedBy.map((origin) => [`${origin.file}|${origin.at}`, origin])).values()],
    });
  }
}

function firstSeen<T>(seen: Map<string, Promise<T>>, address: string, look: () => Promise<T>): Promise<T> {
  const first = seen.get(address) ?? look();
  seen.set(address, first);
  return first;
}

/** As the clients pick it. */
function newestOf(all: readonly StoredPackage[], constraint: VersionConstraint): StoredPackage | undefined {
  const [newest] = constraint.select(all.map(({ release }) => release.version));
  return all.find(({ release }) => String(release.version) === String(newest));
}

/** What was purged or altered since it was listed. */
function unlessGone(error: unknown): undefined {
  if (!(error instanceof StorageFailed && error.gone)) throw error;
}

function newestFirst(versions: readonly Version[]): Version[] {
  const unique = new Map(versions.map((version) => [String(version), version]));
  return [...unique.values()].sort((a, b) => Version.compare(b, a));
}

function noneStored(stored: readonly Version[], constraint: VersionConstraint): string {
  if (stored.length === 0) return 'nothing of it is stored';
  return `no version that is stored is ${String(constraint) || 'a release'}; stored: ${stored.join(', ')}`;
}

function instead(ofVersion: readonly StoredArchive[], stored: readonly Version[]): string {
  if (ofVersion.length > 0) {
    return `; of this version there are ${ofVersion
      .map(({ archive }) => String(archive.platform))
      .sort()
      .join(', ')}`;
  }
  return stored.length > 0 ? `; other versions are: ${stored.join(', ')}` : ', and nothing else of this provider is';
}
