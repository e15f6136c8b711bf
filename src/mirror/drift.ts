import type { ProviderArchive } from '../address/archive.ts';
import type { Sha256 } from '../address/hash.ts';
import { ModuleRelease } from '../address/module.ts';
import type { Logger } from '../logger.ts';

interface Noticed {
  /** What was seen first, and is the only thing served. */
  readonly first: Sha256;
  /** What upstream has now. */
  readonly published: Sha256;
  readonly noticedAt: Date;
}

/** An archive of which upstream published other bytes than it first did, under the same version. */
export interface ArchiveDrift extends Noticed {
  readonly archive: ProviderArchive;
}

/** A module version that upstream moved: a package that is made of it now is not the one that was made first. */
export interface ModuleDrift extends Noticed {
  readonly release: ModuleRelease;
}

export type Drift = ArchiveDrift | ModuleDrift;

/** More than this many at a time is not drift but another registry under an old name. */
const MAX_REPORTS = 10_000;

/** Every drift that was noticed since the start, each once: for the log, the metrics and the inventory. */
export class DriftReports {
  readonly #reports = new Map<string, Drift>();
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #tellOthers: (subject: string) => void;

  constructor(deps: {
    logger: Logger;
    /** Tells other processes what an operator has decided. */
    tellOthers?: ((subject: string) => void) | undefined;
    now?: () => number;
  }) {
    this.#logger = deps.logger;
    this.#now = deps.now ?? Date.now;
    this.#tellOthers = deps.tellOthers ?? (() => {});
  }

  get all(): readonly Drift[] {
    return [...this.#reports.values()];
  }

  report(subject: ProviderArchive | ModuleRelease, first: Sha256, published: Sha256): void {
    const key = subject.toString();
    if (this.#reports.get(key)?.published === published || this.#reports.size >= MAX_REPORTS) return;
    const noticed: Noticed = { first, published, noticedAt: new Date(this.#now()) };
    const isModule = subject instanceof ModuleRelease;
    this.#reports.set(key, isModule ? { release: subject, ...noticed } : { archive: subject, ...noticed });
    this.#logger.warn('upstream now publishes other bytes under the same version; what was seen first is kept', {
      ...(isModule ? { module: subject.module.toString(), version: subject.version.toString() } : { archive: key }),
      first,
      published,
    });
  }

  /** An operator has decided, whoever noticed it. */
  settle(subject: ProviderArchive | ModuleRelease): void {
    this.settleHere(subject.toString());
    this.#tellOthers(subject.toString());
  }

  /** The same of this process alone. @param subject as text; without it all: what has not been settled is noticed again */
  settleHere(subject?: string): void {
    if (subject === undefined) this.#reports.clear();
    else this.#reports.delete(subject);
  }
}

export function isOfArchive(drift: Drift): drift is ArchiveDrift {
  return 'archive' in drift;
}

export function isOfModule(drift: Drift): drift is ModuleDrift {
  return 'release' in drift;
}
