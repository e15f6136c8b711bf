import pLimit from 'p-limit';
import { ProviderArchive } from '../address/archive.ts';
import { StorageFailed } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore } from '../store/archive-store.ts';
import type { Holds } from '../store/holds.ts';
import type { LastUses } from '../store/last-uses.ts';
import type { ModuleStore } from '../store/module-store.ts';
import type { Reservation, Room, Subject } from '../store/room.ts';
import { settledWithin } from '../time-limit.ts';
import type { DiskUse, Occupant } from './disk-use.ts';
import type { Pins } from './pins.ts';

/** Once it evicts, it makes this much room, as part of the limit: it does not have to for each archive then. */
const SPARE = 0.05;
/** What just came is not evicted: whoever it was brought for is about to read it. */
const YOUNG_MS = 500;
/** How long an arrival waits for others to be read or stored, when only they leave no room. */
const PATIENCE_MS = 15_000;
const LOOK_AGAIN_MS = 250;
/** How long the first arrivals wait until it is known what is stored. */
const FIRST_WALK_PATIENCE_MS = 3_000;
const WALK_INTERVAL_MS = 10 * 60_000;
/** While the count turns out wrong, because other processes store things, too. */
const SHARED_WALK_INTERVAL_MS = 60_000;

type Stores = {
  readonly archives: Pick<ArchiveStore, 'find' | 'getRelease' | 'discard'>;
  readonly packages: Pick<ModuleStore, 'discard' | 'recall'>;
};

/**
 * Keeps archives and module packages together below a limit: before something arrives, what was not used for the longest
 * time is evicted until there is room. What is pinned, being read, or could not be had again as it was, stays. What was
 * first seen of a version (SHA256SUMS, records of packages) is not evicted and takes up no room here.
 *
 * Several processes on one directory each count by themselves and correct their count from the disk. An archive that
 * another one evicted is taken off the count when its turn comes here, so nothing is evicted twice over.
 */
export class Quota implements Room {
  readonly #limit: number | undefined;
  readonly #use: DiskUse;
  readonly #holds: Holds;
  readonly #uses: LastUses;
  readonly #pins: Pins;
  readonly #isSealed: () => boolean;
  readonly #logger: Logger;
  readonly #inTurn = pLimit(1);
  /** Could not be had again as they are, as far as was looked. */
  readonly #irreplaceable = new Set<string>();
  #stores: Stores | undefined;
  #reserved = 0;
  #evictions = 0;
  #walked: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(deps: {
    /** Bytes; without one everything is only counted. */
    limit: number | undefined;
    use: DiskUse;
    holds: Holds;
    uses: LastUses;
    pins: Pins;
    isSealed: () => boolean;
    logger: Logger;
  }) {
    this.#limit = deps.limit;
    this.#use = deps.use;
    this.#holds = deps.holds;
    this.#uses = deps.uses;
    this.#pins = deps.pins;
    this.#isSealed = deps.isSealed;
    this.#logger = deps.logger;
  }

  /** Bytes that may be taken up. */
  get limit(): number | undefined {
    return this.#limit;
  }

  /** Bytes that are taken up, as far as is known. */
  get used(): number {
    return this.#use.bytes;
  }

  /** Archives and packages evicted since the start. */
  get evictions(): number {
    return this.#evictions;
  }

  /** Finds out, in the background, what is stored, and keeps to the limit from then on. */
  begin(stores: Stores): void {
    this.#stores = stores;
    this.#walked = this.#walk();
  }

  /** Resolves when it is known what is stored, and no more than the limit is. */
  async settled(): Promise<void> {
    await this.#walked;
  }

  async reserve(bytes: number): Promise<Reservation> {
    const limit = this.#limit;
    if (limit !== undefined) {
      if (bytes > limit) throw noRoom(bytes, limit, 'it alone is larger than that');
      await settledWithin(this.#walked, FIRST_WALK_PATIENCE_MS);
      const until = performance.now() + PATIENCE_MS;
      await this.#inTurn(() => this.#makeRoom(bytes, limit, until));
    }
    let isReserved = true;
    return {
      release: () => {
        if (!isReserved) return;
        isReserved = false;
        if (limit !== undefined) this.#reserved -= bytes;
      },
    };
  }

  came(subject: Subject, bytes: number): void {
    this.#use.came(subject, bytes);
  }

  went(subject: Subject): void {
    this.#use.went(subject);
  }

  /** Resolves when it has stopped looking at the disk. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#walked;
  }

  async #makeRoom(bytes: number, limit: number, until: number): Promise<void> {
    for (;;) {
      const blocked = this.#fits(bytes, limit) ? undefined : await this.#evict(bytes, limit);
      if (this.#fits(bytes, limit)) {
        this.#reserved += bytes;
        return;
      }
      const left = until - performance.now();
      if (!blocked?.passes || left <= 0) throw noRoom(bytes, limit, blocked?.why ?? 'everything is in use');
      await this.#holds.released(Math.min(LOOK_AGAIN_MS, left));
    }
  }

  #fits(bytes: number, limit: number): boolean {
    return this.#use.bytes + this.#reserved + bytes <= limit;
  }

  /** As much as is needed for so many bytes, and some more. @returns what is in the way, if that is not enough. @throws StorageFailed */
  async #evict(bytes: number, limit: number): Promise<{ why: string; passes: boolean } | undefined> {
    if (this.#isSealed()) {
      return { why: 'while this mirror is sealed nothing is evicted: it could not be had again', passes: false };
    }
    const isPinned = await this.#pins.look();
    const kept = { pinned: 0, irreplaceable: 0 };
    const movable: Occupant[] = [];
    let busy = this.#reserved;
    for (const occupant of this.#use.byLastUse()) {
      const { subject, path, size } = occupant;
      if (isPinned(addressOf(subject), subject.version)) kept.pinned += size;
      else if (this.#irreplaceable.has(path)) kept.irreplaceable += size;
      else if (this.#isBusy(occupant)) busy += size;
      else movable.push(occupant);
    }
    const staying = kept.pinned + kept.irreplaceable;
    const why =
      `${kept.pinned} bytes are pinned` +
      (kept.irreplaceable > 0 ? `, ${kept.irreplaceable} could not be had again as they are` : '');
    if (staying + bytes > limit) return { why, passes: false };
    // Nothing is evicted in vain.
    if (staying + busy + bytes > limit) return { why: `${busy} bytes are arriving or being read`, passes: true };

    const spared = limit * (1 - SPARE);
    const goal = staying + busy + bytes <= spared ? spared : limit;
    await this.#evictUntil(() => this.#use.bytes + this.#reserved + bytes <= goal, movable);
    // Those that turned out to be in use, or irreplaceable, are told apart the next time.
    return { why, passes: true };
  }

  async #evictUntil(isEnough: () => boolean, movable: readonly Occupant[]): Promise<void> {
    let count = 0;
    let size = 0;
    for (const occupant of movable) {
      if (isEnough() || this.#closed) break;
      if (!(await this.#evictOne(occupant))) continue;
      count += 1;
      size += occupant.size;
    }
    if (count > 0) this.#logger.info('made room', { evicted: count, bytes: size, left: this.#use.bytes });
  }

  /** @returns whether it is gone by our doing */
  async #evictOne(occupant: Occupant): Promise<boolean> {
    const { subject, path, usedAt, size } = occupant;
    try {
      // Another process may have seen it used since.
      const lastUse = await this.#uses.of(path, new Date(usedAt));
      if (lastUse.getTime() > usedAt) {
        occupant.usedAt = lastUse.getTime();
        return false;
      }
      if (!(await this.#isReplaceable(subject))) {
        this.#irreplaceable.add(path);
        return false;
      }
      if (this.#isBusy(occupant)) return false;
      await this.#discard(subject);
    } catch (error) {
      this.#logger.warn('something could not be evicted', { subject: subject.toString(), error });
      return false;
    }
    this.#evictions += 1;
    this.#logger.info('evicted', { subject: subject.toString(), size, lastUse: new Date(usedAt).toISOString() });
    return true;
  }

  #isBusy({ path, cameAt }: Occupant): boolean {
    return this.#holds.has(path) || performance.now() - cameAt < YOUNG_MS;
  }

  /**
   * Whether what it must be is remembered elsewhere, and upstream has it. A record of a package outlives it; that of an
   * archive does not.
   */
  async #isReplaceable(subject: Subject): Promise<boolean> {
    if (!(subject instanceof ProviderArchive)) return (await this.#stores?.packages.recall(subject))?.brought !== true;
    const archives = this.#stores?.archives;
    const kept = await archives?.getRelease(subject.provider, subject.version);
    const stored = kept && (await archives?.find(subject));
    // What is not recorded is a rest of something, and there is no digest to lose.
    return kept !== undefined && (stored === undefined || kept.shasums.includes(stored.sha256));
  }

  async #discard(subject: Subject): Promise<void> {
    if (subject instanceof ProviderArchive) await this.#stores?.archives.discard(subject);
    else await this.#stores?.packages.discard(subject);
  }

  async #walk(): Promise<void> {
    let wrong = 0;
    try {
      wrong = await this.#use.walk(() => !this.#closed);
      this.#irreplaceable.clear();
      const limit = this.#limit;
      if (limit !== undefined && !this.#fits(0, limit)) await this.#inTurn(() => this.#evict(0, limit));
    } catch (error) {
      this.#logger.warn('it could not be found out how much room is taken up', { error });
    }
    if (this.#closed) return;
    const next = wrong > 0 ? SHARED_WALK_INTERVAL_MS : WALK_INTERVAL_MS;
    this.#timer = setTimeout(() => {
      this.#walked = this.#walk();
    }, next).unref();
  }
}

function addressOf(subject: Subject) {
  return subject instanceof ProviderArchive ? subject.provider : subject.module;
}

function noRoom(bytes: number, limit: number, why: string): StorageFailed {
  const reached = Object.assign(new Error(`${bytes} bytes do not fit: ${why}`), { code: 'EDQUOT' });
  return new StorageFailed(`making room for ${bytes} bytes within limits.disk (${limit} bytes; ${why})`, reached, {
    hint: 'raise limits.disk, take pins back (larder unpin) or purge what is not needed',
  });
}
