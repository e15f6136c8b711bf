import { setTimeout as delay } from 'node:timers/promises';
import type { ProviderArchive } from '../address/archive.ts';
import { type Hash, zipHash } from '../address/hash.ts';
import type { ModuleAddress, ModuleRelease } from '../address/module.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { hasCode, isUnreachable, LarderError, type StorageFailed } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ModuleMirror } from './module-mirror.ts';
import type { ProviderMirror } from './provider-mirror.ts';
import type { ProviderReleases } from './provider-releases.ts';
import type { WantedItem } from './wanted.ts';

/** `present`: it was here. `stored`: it is now. `unsupported`: no mirror can have it. */
export type Outcome = 'present' | 'stored' | 'unsupported' | 'failed';

/** What became of one thing that is wanted. */
export interface Warmed {
  readonly outcome: Outcome;
  /** Why it is not here, for people; names the host. */
  readonly reason?: string;
  /** What there is to say about it although it is here. */
  readonly note?: string;
  /** Of what is here. */
  readonly bytes?: number;
  /** The trouble may pass by itself. */
  readonly mayPass?: boolean;
}

/** How one thing comes along. */
export interface Arriving {
  /** Bytes that have come in so far. */
  readonly written: number;
}

/** The hash of an archive that was just stored is computed within a moment; a lock file may hold nothing else of it. */
const HASH_LOOKS = 20;
const HASH_LOOK_MS = 250;

/**
 * Brings things in by asking for them as a client does: their archive or package, and the documents that both doors
 * answer with once upstream is gone. Nothing is read of the bytes: it is waited for until they are stored.
 */
export class Warm {
  readonly #providers: Pick<ProviderMirror, 'openArchive' | 'listVersions' | 'listPackages'>;
  readonly #releases: Pick<ProviderReleases, 'describe' | 'checksums'>;
  readonly #modules: Pick<ModuleMirror, 'describePackage' | 'openPackage' | 'list'>;
  readonly #logger: Logger;

  constructor(deps: {
    providers: Pick<ProviderMirror, 'openArchive' | 'listVersions' | 'listPackages'>;
    releases: Pick<ProviderReleases, 'describe' | 'checksums'>;
    modules: Pick<ModuleMirror, 'describePackage' | 'openPackage' | 'list'>;
    logger: Logger;
  }) {
    this.#providers = deps.providers;
    this.#releases = deps.releases;
    this.#modules = deps.modules;
    this.#logger = deps.logger;
  }

  /**
   * Resolves when it is stored, or is known not to be had. Never rejects.
   * @param options.locked what a lock file says of its version
   * @param options.onArriving told when it begins to come in
   */
  async bring(
    wanted: WantedItem,
    options: { locked?: readonly Hash[] | undefined; onArriving?: (arriving: Arriving) => void } = {},
  ): Promise<Warmed> {
    try {
      return wanted.kind === 'archive'
        ? await this.#archive(wanted.archive, options.locked, options.onArriving ?? (() => {}))
        : await this.#package(wanted.release);
    } catch (error) {
      return this.#failed(wanted, error);
    }
  }

  async #archive(
    archive: ProviderArchive,
    locked: readonly Hash[] | undefined,
    onArriving: (arriving: Arriving) => void,
  ): Promise<Warmed> {
    let readable = await this.#providers.openArchive(archive);
    const outcome: Outcome = readable.state === 'stored' ? 'present' : 'stored';
    if (readable.settled) {
      const arriving = readable;
      onArriving({
        get written() {
          return arriving.written ?? 0;
        },
      });
      await readable.settled();
      readable = await this.#providers.openArchive(archive);
    }
    const { provider, version } = archive;
    const notes = [
      await trouble(async () => {
        await this.#releases.describe(archive);
        await this.#releases.checksums(provider, version).catch(unlessAbsent);
        await this.#providers.listVersions(provider);
      }),
      locked && !(await this.#isCovered(archive, zipHash(readable.sha256), locked)) && 'not covered by the lock file',
    ].filter((note) => typeof note === 'string');
    return { outcome, ...bytesOf(readable), ...(notes.length > 0 && { note: notes.join('; ') }) };
  }

  async #package(release: ModuleRelease): Promise<Warmed> {
    const wasHere = (await this.#modules.describePackage(release)).storedAt !== undefined;
    const readable = await this.#modules.openPackage(release);
    const note = await trouble(() => this.#modules.list(release.module));
    return { outcome: wasHere ? 'present' : 'stored', ...bytesOf(readable), ...(note !== undefined && { note }) };
  }

  /** Whether `init` finds its hash in the lock file. */
  async #isCovered(archive: ProviderArchive, zip: Hash, locked: readonly Hash[]): Promise<boolean> {
    if (locked.includes(zip)) return true;
    const computed = new Set(locked.filter((hash) => hash.startsWith('h1:')));
    if (computed.size === 0) return false;
    for (let look = 0; look < HASH_LOOKS; look += 1) {
      const { archives } = await this.#providers.listPackages(archive.provider, archive.version);
      const known = archives.find((one) => one.archive.toString() === archive.toString())?.hashes ?? [];
      if (known.some((hash) => computed.has(hash))) return true;
      if (known.some((hash) => hash.startsWith('h1:'))) return false;
      await delay(HASH_LOOK_MS);
    }
    return false;
  }

  async #failed(wanted: WantedItem, error: unknown): Promise<Warmed> {
    if (!(error instanceof LarderError)) {
      this.#logger.error('something could not be warmed', { wanted: nameOf(wanted), error });
      return { outcome: 'failed', reason: 'an internal error; the log of the server says more' };
    }
    const { message: reason } = error;
    if (hasCode(error, 'NOT_MIRRORED')) return { outcome: 'unsupported', reason };
    if (hasCode(error, 'NOT_FOUND') && (await this.#hasOnlyOtherPlatforms(wanted))) {
      return { outcome: 'unsupported', reason };
    }
    // A stored file that is being compared is served a moment later.
    const isBusy = hasCode(error, 'STORAGE_FAILED') && (error as StorageFailed).busy;
    const mayPass = isBusy || (isUnreachable(error) && error.reason !== 'sealed');
    return { outcome: 'failed', reason, ...(mayPass && { mayPass }) };
  }

  /** A version without this platform is as its publisher wanted it. */
  async #hasOnlyOtherPlatforms(wanted: WantedItem): Promise<boolean> {
    if (wanted.kind !== 'archive') return false;
    const { provider, version, platform } = wanted.archive;
    const { archives = [] } = (await this.#providers.listPackages(provider, version).catch(() => undefined)) ?? {};
    return archives.length > 0 && !archives.some(({ archive }) => String(archive.platform) === String(platform));
  }
}

/** What it is called among the items of a job: `readItem` reads it. */
export function nameOf(wanted: WantedItem): string {
  if (wanted.kind === 'archive') {
    const { provider, version, platform } = wanted.archive;
    return `${provider} ${version} ${platform}`;
  }
  const { module, version } = wanted.release;
  return `${module.hostname}/${module.written} ${version}`;
}

/** Whose it is. */
export function addressOf(wanted: WantedItem): ProviderAddress | ModuleAddress {
  return wanted.kind === 'archive' ? wanted.archive.provider : wanted.release.module;
}

function bytesOf({ size }: { readonly size: number | undefined }): { bytes?: number } {
  return size === undefined ? {} : { bytes: size };
}

/** Not every registry has SHA256SUMS. */
function unlessAbsent(error: unknown): void {
  if (!hasCode(error, 'NOT_FOUND')) throw error;
}

/** What is here is here, whatever becomes of what belongs to it. */
async function trouble(work: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    if (error instanceof LarderError) return `clients may find it incomplete: ${error.message}`;
    throw error;
  }
}
