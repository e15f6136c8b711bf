import { ProviderArchive } from '../address/archive.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore } from '../store/archive-store.ts';
import type { Holds } from '../store/holds.ts';
import type { LastUses } from '../store/last-uses.ts';
import type { ModuleStore } from '../store/module-store.ts';
import type { Subject } from '../store/room.ts';
import type { DiskUse, Occupant } from './disk-use.ts';
import type { Pins } from './pins.ts';

/** What just came is not evicted: whoever it was brought for is about to read it. */
const YOUNG_MS = 500;
/** Those who wait together look together: a survey of 50,000 archives takes a tenth of a second. */
const SURVEY_MS = 250;

/** What is evicted from. */
export type EvictableStores = {
  readonly archives: Pick<ArchiveStore, 'peek' | 'getRelease' | 'discard'>;
  readonly packages: Pick<ModuleStore, 'discard' | 'recall'>;
};

/** What is in whose way. Sizes in bytes. */
export interface Survey {
  readonly pinned: number;
  /** Could not be had again as it is. */
  readonly irreplaceable: number;
  /** Being read, or only just stored. */
  readonly busy: number;
  /** What could be evicted, least recently used first. */
  readonly movable: readonly Occupant[];
}

/** Tells what may be evicted, and evicts it. What is pinned, being read, or could not be had again as it was, stays. */
export class Evictions {
  readonly #use: DiskUse;
  readonly #holds: Holds;
  readonly #uses: LastUses;
  readonly #pins: Pins;
  readonly #logger: Logger;
  /** Could not be had again as they are, as far as was looked. */
  readonly #irreplaceable = new Set<string>();
  #survey: { readonly survey: Survey; readonly at: number } | undefined;
  #count = 0;

  constructor(deps: { use: DiskUse; holds: Holds; uses: LastUses; pins: Pins; logger: Logger }) {
    this.#use = deps.use;
    this.#holds = deps.holds;
    this.#uses = deps.uses;
    this.#pins = deps.pins;
    this.#logger = deps.logger;
  }

  /** Archives and packages evicted since the start. */
  get count(): number {
    return this.#count;
  }

  /** What could not be had again is looked at anew. */
  reconsider(): void {
    this.#irreplaceable.clear();
  }

  /** @param isAgain whoever asks has done so before: what another one has found a moment ago will do. @throws StorageFailed */
  async survey({ isAgain }: { isAgain: boolean }): Promise<Survey> {
    const last = this.#survey;
    if (isAgain && last && performance.now() - last.at < SURVEY_MS) return last.survey;
    const isPinned = await this.#pins.look();
    let [pinned, irreplaceable, busy] = [0, 0, 0];
    const movable: Occupant[] = [];
    for (const occupant of this.#use.byLastUse()) {
      const { subject, path, size } = occupant;
      if (isPinned(addressOf(subject), subject.version)) pinned += size;
      else if (this.#irreplaceable.has(path)) irreplaceable += size;
      else if (this.#isBusy(occupant)) busy += size;
      else movable.push(occupant);
    }
    const survey: Survey = { pinned, irreplaceable, busy, movable };
    this.#survey = { survey, at: performance.now() };
    return survey;
  }

  /**
   * One after the other, until it is enough or there are no more. Those that turn out to be in use, or irreplaceable, stay,
   * and are told apart in the next survey.
   */
  async evict(stores: EvictableStores, { movable }: Survey, isEnough: () => boolean): Promise<void> {
    this.#survey = undefined;
    let count = 0;
    let size = 0;
    for (const occupant of movable) {
      if (isEnough()) break;
      if (!(await this.#evictOne(stores, occupant))) continue;
      count += 1;
      size += occupant.size;
    }
    if (count > 0) this.#logger.info('made room', { evicted: count, bytes: size, left: this.#use.bytes });
  }

  /** @returns whether it is gone by our doing */
  async #evictOne(stores: EvictableStores, occupant: Occupant): Promise<boolean> {
    const { subject, path, usedAt, size } = occupant;
    try {
      // Another process may have seen it used since.
      const lastUse = await this.#uses.of(path, new Date(usedAt));
      if (lastUse.getTime() > usedAt) {
        occupant.usedAt = lastUse.getTime();
        return false;
      }
      if (!(await isReplaceable(stores, subject))) {
        this.#irreplaceable.add(path);
        return false;
      }
      if (this.#isBusy(occupant)) return false;
      if (subject instanceof ProviderArchive) await stores.archives.discard(subject);
      else await stores.packages.discard(subject);
    } catch (error) {
      this.#logger.warn('something could not be evicted', { subject: subject.toString(), error });
      return false;
    }
    this.#count += 1;
    this.#logger.info('evicted', { subject: subject.toString(), size, lastUse: new Date(usedAt).toISOString() });
    return true;
  }

  #isBusy({ path, cameAt }: Occupant): boolean {
    return this.#holds.has(path) || performance.now() - cameAt < YOUNG_MS;
  }
}

/**
 * Whether what it must be is remembered elsewhere, and upstream has it. A record of a package outlives it; that of an
 * archive does not.
 */
async function isReplaceable({ archives, packages }: EvictableStores, subject: Subject): Promise<boolean> {
  if (!(subject instanceof ProviderArchive)) return (await packages.recall(subject))?.brought !== true;
  const kept = await archives.getRelease(subject.provider, subject.version);
  const stored = kept && (await archives.peek(subject));
  // What is not recorded is a rest of something, and there is no digest to lose.
  return kept !== undefined && (stored === undefined || kept.shasums.includes(stored.sha256));
}

function addressOf(subject: Subject) {
  return subject instanceof ProviderArchive ? subject.provider : subject.module;
}
