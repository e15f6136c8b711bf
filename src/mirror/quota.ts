import pLimit from 'p-limit';
import { StorageFailed } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { Holds } from '../store/holds.ts';
import type { LastUses } from '../store/last-uses.ts';
import { type Reservation, type Room, type Subject, unlimitedRoom } from '../store/room.ts';
import { settledWithin } from '../time-limit.ts';
import type { DiskUse } from './disk-use.ts';
import { type EvictableStores, Evictions } from './evictions.ts';
import type { Pins } from './pins.ts';

/** Once it evicts, it makes this much room, as part of the limit: it does not have to for each archive then. */
const SPARE = 0.05;
/** How long an arrival waits for others to be read or stored, when only they leave no room. */
const PATIENCE_MS = 15_000;
const LOOK_AGAIN_MS = 250;
/** How long the first arrivals wait until it is known what is stored. */
const FIRST_WALK_PATIENCE_MS = 3_000;
const WALK_INTERVAL_MS = 10 * 60_000;
/** While the count turns out wrong, because other processes store things, too, or could not be made. */
const SHARED_WALK_INTERVAL_MS = 60_000;

/** What an arrival asks for, in bytes. */
interface Demand {
  /** It holds so much already, which is in nobody's way but others'. */
  readonly own: number;
  /** So much more it cannot do without. */
  readonly least: number;
  /** So much more it would take, if it is free. */
  readonly most: number;
}

/** Why there is no room, and whether that may change by itself. */
interface Obstacle {
  readonly why: string;
  readonly passes: boolean;
}

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
  readonly #isSealed: () => boolean;
  readonly #logger: Logger;
  readonly #evictions: Evictions;
  /** Two that evict at a time would both make the same room. */
  readonly #inTurn = pLimit(1);
  #stores: EvictableStores | undefined;
  #reserved = 0;
  /** The first walk: what comes before its end is not known to fit. Later ones only correct the count. */
  #known: Promise<unknown> = Promise.resolve();
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
    this.#isSealed = deps.isSealed;
    this.#logger = deps.logger;
    this.#evictions = new Evictions(deps);
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
    return this.#evictions.count;
  }

  /** Finds out, in the background, what is stored, and keeps to the limit from then on. */
  begin(stores: EvictableStores): void {
    this.#stores = stores;
    this.#walked = this.#walk();
    this.#known = this.#walked;
  }

  /** Resolves when it is known what is stored, and no more than the limit is. */
  async settled(): Promise<void> {
    await this.#walked;
  }

  async reserve(least: number, most = least): Promise<Reservation> {
    const limit = this.#limit;
    if (limit === undefined) return unlimitedRoom.reserve(least);
    await settledWithin(this.#known, FIRST_WALK_PATIENCE_MS);
    let own = await this.#setAside({ own: 0, least, most }, limit);
    let isReleased = false;
    return {
      get bytes() {
        return own;
      },
      grow: async (leastInAll, mostInAll = leastInAll) => {
        if (leastInAll <= own) return;
        const more = await this.#setAside({ own, least: leastInAll - own, most: mostInAll - own }, limit);
        // It may have been given up while it waited.
        if (isReleased) this.#reserved -= more;
        else own += more;
      },
      release: () => {
        if (isReleased) return;
        isReleased = true;
        this.#reserved -= own;
      },
    };
  }

  came(subject: Subject, bytes: number): void {
    this.#use.came(subject, bytes);
  }

  went(subject: Subject): void {
    this.#use.went(subject);
  }

  /** What waits for room is refused. Resolves when it has stopped looking at the disk. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#walked;
  }

  /** Waits its turn only while something is looked at or evicted, never while another one waits. @returns how much it has become */
  async #setAside(demand: Demand, limit: number): Promise<number> {
    const { own, least } = demand;
    if (own + least > limit) throw noRoom(own + least, limit, 'it alone is larger than that');
    const until = performance.now() + PATIENCE_MS;
    for (let isAgain = false; ; isAgain = true) {
      if (this.#fits(least, limit)) return this.#take(demand, limit);
      const obstacle = await this.#inTurn(() => this.#makeRoom(demand, limit, isAgain));
      if (this.#fits(least, limit)) return this.#take(demand, limit);
      const left = until - performance.now();
      if (!obstacle.passes || left <= 0 || this.#closed) throw noRoom(least, limit, obstacle.why);
      if (!isAgain) this.#logger.info('an arrival waits for room', { bytes: least, why: obstacle.why });
      await this.#holds.released(Math.min(LOOK_AGAIN_MS, left));
    }
  }

  #fits(bytes: number, limit: number): boolean {
    return this.#use.bytes + this.#reserved + bytes <= limit;
  }

  #take({ least, most }: Demand, limit: number): number {
    const free = limit - this.#use.bytes - this.#reserved;
    const bytes = Math.max(least, Math.min(most, free));
    this.#reserved += bytes;
    return bytes;
  }

  /** For what is demanded at least, and some more. @returns what is in the way, if it is not enough. @throws StorageFailed */
  async #makeRoom({ own, least }: Demand, limit: number, isAgain: boolean): Promise<Obstacle> {
    if (this.#fits(least, limit)) return NOTHING;
    if (this.#isSealed()) {
      return { why: 'while this mirror is sealed nothing is evicted: it could not be had again', passes: false };
    }
    if (!this.#stores) return { why: 'it is not known yet what is stored', passes: true };
    const survey = await this.#evictions.survey({ isAgain });
    const { pinned, irreplaceable } = survey;
    const lost = irreplaceable > 0 ? `, ${irreplaceable} could not be had again as they are` : '';
    const why = `${pinned} bytes are pinned${lost}`;
    const staying = pinned + irreplaceable;
    if (staying + own + least > limit) return { why, passes: false };
    // Nothing is evicted in vain.
    const busy = survey.busy + this.#reserved;
    const needed = staying + busy + least;
    if (needed > limit) return { why: `${busy - own} bytes are arriving or being read`, passes: true };

    const spared = limit * (1 - SPARE);
    const goal = needed <= spared ? spared : limit;
    await this.#evictions.evict(this.#stores, survey, () => this.#closed || this.#fits(least, goal));
    return { why: `${why}, and others came first`, passes: true };
  }

  async #walk(): Promise<void> {
    let isRight = false;
    try {
      const wrong = await this.#use.walk(() => !this.#closed);
      isRight = wrong === 0;
      this.#evictions.reconsider();
      const limit = this.#limit;
      if (limit !== undefined) await this.#inTurn(() => this.#makeRoom({ own: 0, least: 0, most: 0 }, limit, false));
    } catch (error) {
      this.#logger.warn('it could not be found out how much room is taken up', { error });
    }
    if (this.#closed) return;
    const next = isRight ? WALK_INTERVAL_MS : SHARED_WALK_INTERVAL_MS;
    this.#timer = setTimeout(() => {
      this.#walked = this.#walk();
    }, next).unref();
  }
}

const NOTHING: Obstacle = { why: 'nothing is in the way', passes: true };

function noRoom(bytes: number, limit: number, why: string): StorageFailed {
  const reached = Object.assign(new Error(`${bytes} bytes do not fit: ${why}`), { code: 'EDQUOT' });
  return new StorageFailed(`making room for ${bytes} bytes within limits.disk (${limit} bytes; ${why})`, reached, {
    hint: 'raise limits.disk, take pins back (larder unpin) or purge what is not needed',
  });
}
