import type { ModuleAddress } from '../address/module.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { hasCode, type LarderError } from '../errors.ts';
import type { ReleaseFiles } from '../store/archive-store.ts';
import { type ExportDirectory, SourceUnreadable } from '../store/export-directory.ts';
import { paths } from '../store/keys.ts';
import type { CarriedArchive, CarriedPackage, CarrySource } from './carried.ts';
import {
  type ListedRelease,
  MANIFEST_FILE,
  manifestText,
  parseManifest,
  releaseDigest,
  releaseName,
} from './export-manifest.ts';
import { nginxSnippets } from './nginx-snippets.ts';
import { moduleDocuments, providerDocuments, type StaticDocuments } from './static-documents.ts';

export type ExportOutcome = 'copied' | 'linked' | 'unchanged' | 'would be copied' | 'failed';

/** What became of one archive or package. */
export type Exported = {
  readonly outcome: ExportOutcome;
  /** Why it failed. */
  readonly reason?: string;
} & ({ readonly archive: CarriedArchive } | { readonly package: CarriedPackage });

export interface ExportOptions {
  /** Nothing is written. */
  readonly dryRun: boolean;
  /** Files of this machine get a second name instead of being copied, where that can be. */
  readonly link: boolean;
  /** What is meant; everything, where nothing is said. */
  readonly isWanted?: ((carried: CarriedArchive | CarriedPackage) => boolean) | undefined;
}

/**
 * Writes what is stored into a directory that any web server can serve: as network mirror, as registry, and for a
 * `filesystem_mirror`. A directory can be exported to again and again: what is in it stays, what is missing comes to it.
 *
 * Archives come first, then what speaks of them, and what the directory holds last of all: after an interruption it is
 * found out anew.
 */
export class Export {
  readonly #source: CarrySource;
  readonly #directory: ExportDirectory;
  readonly #options: ExportOptions;
  readonly #archives = new Map<string, CarriedArchive>();
  readonly #packages = new Map<string, CarriedPackage>();
  readonly #releases = new Map<string, ListedRelease>();

  constructor(deps: { source: CarrySource; directory: ExportDirectory; options: ExportOptions }) {
    this.#source = deps.source;
    this.#directory = deps.directory;
    this.#options = deps.options;
  }

  /**
   * Yields each archive and package once it is there. One that cannot be read does not keep the others from being carried.
   * @throws StorageFailed when the directory cannot be written: full, most of the time
   */
  async *run(): AsyncGenerator<Exported> {
    await this.#recall();
    yield* this.#carryArchives();
    const modules = new Map<string, ModuleAddress>();
    for await (const carried of this.#source.packages()) {
      if (this.#options.isWanted?.(carried) === false) continue;
      const result = await this.#carry(carried, paths.modulePackage(carried.release), () =>
        this.#source.openPackage(carried),
      );
      if (isThere(result.outcome)) this.#packages.set(`${carried.release}`, carried);
      modules.set(`${carried.release.module}`, carried.release.module);
      yield { package: carried, ...result };
    }
    if (this.#options.dryRun) return;
    for (const module of modules.values()) await this.#write(moduleDocuments(module, this.#packagesOf(module)));
    await this.#write(nginxSnippets([...this.#packages.values()]));
    const text = manifestText({
      archives: [...this.#archives.values()],
      packages: [...this.#packages.values()],
      releases: [...this.#releases.values()],
    });
    await this.#directory.write(MANIFEST_FILE, text);
  }

  /** What earlier exports put there, and is still there. */
  async #recall(): Promise<void> {
    const bytes = await this.#directory.read(MANIFEST_FILE);
    const before = bytes && parseManifest(bytes);
    if (!before) return;
    for (const carried of before.archives) {
      if (!(await this.#directory.holds(paths.archive(carried.archive), carried, carried.sha256))) continue;
      this.#archives.set(`${carried.archive}`, carried);
    }
    for (const carried of before.packages) {
      if (!(await this.#directory.holds(paths.modulePackage(carried.release), carried, carried.sha256))) continue;
      this.#packages.set(`${carried.release}`, carried);
    }
    for (const listed of before.releases) this.#releases.set(releaseName(listed.provider, listed.version), listed);
  }

  async *#carryArchives(): AsyncGenerator<Exported> {
    let current: ProviderAddress | undefined;
    for await (const carried of this.#source.archives()) {
      if (this.#options.isWanted?.(carried) === false) continue;
      const { archive } = carried;
      if (current && `${current}` !== `${archive.provider}`) await this.#finish(current);
      current = archive.provider;
      const result = await this.#carry(carried, paths.archive(archive), () => this.#source.openArchive(carried));
      const before = this.#archives.get(`${archive}`);
      // What was lost where it is stored was hashed when it was carried.
      const h1 = carried.h1 ?? (before?.sha256 === carried.sha256 ? before.h1 : undefined);
      if (isThere(result.outcome)) this.#archives.set(`${archive}`, { ...carried, h1 });
      yield { archive: carried, ...result };
    }
    if (current) await this.#finish(current);
  }

  async #carry(
    carried: CarriedArchive | CarriedPackage,
    path: string,
    open: () => ReturnType<CarrySource['openArchive']>,
  ): Promise<{ readonly outcome: ExportOutcome; readonly reason?: string }> {
    const before =
      'archive' in carried ? this.#archives.get(`${carried.archive}`) : this.#packages.get(`${carried.release}`);
    if (await this.#directory.holds(path, carried, before?.sha256)) return { outcome: 'unchanged' };
    if (this.#options.dryRun) return { outcome: 'would be copied' };
    try {
      const file = this.#options.link ? this.#source.fileOf(carried) : undefined;
      if (file !== undefined && (await this.#directory.link(path, carried, file))) return { outcome: 'linked' };
      await this.#directory.copy(path, carried, () => opened(open));
      return { outcome: 'copied' };
    } catch (error) {
      const reason = reasonOf(error);
      if (reason === undefined) throw error;
      return { outcome: 'failed', reason };
    }
  }

  /** Says what is there of a provider, once its archives are. */
  async #finish(provider: ProviderAddress): Promise<void> {
    if (this.#options.dryRun) return;
    const archives = [...this.#archives.values()].filter(({ archive }) => `${archive.provider}` === `${provider}`);
    const releases = new Map<string, ReleaseFiles>();
    for (const { archive } of archives) {
      const { version } = archive;
      if (releases.has(`${version}`)) continue;
      const files = (await this.#source.release(provider, version)) ?? (await this.#releaseThere(archive));
      if (files) releases.set(`${version}`, files);
      if (!files) continue;
      this.#releases.set(releaseName(provider, version), { provider, version, sha256: releaseDigest(files) });
      await this.#directory.write(paths.shasums(provider, version), files.shasums);
      if (files.signature) await this.#directory.write(paths.signature(provider, version), files.signature);
      if (files.statement) await this.#directory.write(paths.statement(provider, version), files.statement);
    }
    await this.#write(providerDocuments(provider, archives, releases));
  }

  /** Of a version that another source put there. */
  async #releaseThere({ provider, version }: CarriedArchive['archive']): Promise<ReleaseFiles | undefined> {
    const [shasums, signature, statement] = await Promise.all(
      [paths.shasums, paths.signature, paths.statement].map((of) => this.#directory.read(of(provider, version))),
    );
    return shasums && { shasums, signature, statement };
  }

  #packagesOf(module: ModuleAddress): CarriedPackage[] {
    return [...this.#packages.values()].filter(({ release }) => `${release.module}` === `${module}`);
  }

  async #write(documents: StaticDocuments): Promise<void> {
    for (const [path, content] of documents) await this.#directory.write(path, content);
  }
}

function isThere(outcome: ExportOutcome): boolean {
  return outcome === 'copied' || outcome === 'linked' || outcome === 'unchanged';
}

/** `undefined` of what keeps everything else from being carried, too. */
function reasonOf(error: unknown): string | undefined {
  if (error instanceof SourceUnreadable) return `it cannot be read: ${error.message}`;
  if (hasCode(error, 'INTEGRITY_MISMATCH')) {
    return `what is stored is damaged: ${error.message} (larder verify discards what is)`;
  }
  return hasCode(error, 'NOT_FOUND') ? (error as LarderError).message : undefined;
}

async function opened(open: () => ReturnType<CarrySource['openArchive']>): ReturnType<CarrySource['openArchive']> {
  try {
    return await open();
  } catch (error) {
    throw new SourceUnreadable(error);
  }
}
