import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Logger } from '../logger.ts';
import { metadataKeys } from '../store/keys.ts';
import type { MetadataStore } from '../store/metadata-store.ts';
import { difference, isNothing, NO_TRAFFIC, TrafficLog, type TrafficTotals } from './traffic-log.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const MINUTES = { stepMs: MINUTE_MS, count: 60 };
const QUARTERS = { stepMs: 15 * MINUTE_MS, count: 7 * 24 * 4 };
const QUARTERS_OF_A_DAY = 24 * 4;

/** How long anything is kept of a replica that writes nothing any more. */
const KEEP_MS = QUARTERS.stepMs * QUARTERS.count;
/** How often it is looked what went through. */
const NOTE_MS = 10_000;
/** Every so many looks it is written down: what a process that is killed has counted since is lost. */
const NOTES_PER_SAVE = 3;
/** A replica says this often that there is more to come. What is said less recently is what a dead one left. */
const SIGN_OF_LIFE_MS = HOUR_MS;
/** With more of them, those that little went through are forgotten: processes that never got far, mostly. */
const MAX_REPLICAS = 200;

/** What went through in one minute, or in a quarter of an hour. */
export interface TrafficPoint extends TrafficTotals {
  /** When it began. */
  readonly at: Date;
}

/** The last 60 minutes by the minute; the last day and the last seven days by the quarter of an hour. */
export type TrafficRange = 'hour' | 'day' | 'week';

const indexShape = z.array(z.object({ id: z.string().max(100), at: z.number(), requests: z.number() }));
const recordShape = z.object({ minutes: z.unknown(), quarters: z.unknown() });

type ReplicaEntry = z.output<typeof indexShape>[number];

interface Logs {
  readonly minutes: TrafficLog;
  readonly quarters: TrafficLog;
}

/**
 * What went through all replicas, over the last week. Each replica (each run of a process, to be exact) writes down its
 * own counts in the metadata store, where nobody else changes them; whoever asks adds them up. While the store does not
 * answer there is only what went through here.
 */
export class TrafficHistory {
  readonly #store: Pick<MetadataStore, 'get' | 'put'>;
  readonly #totals: () => TrafficTotals;
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #id = randomUUID();
  readonly #own = newLogs();
  /** What silent replicas left: it does not change before they show that they are alive. */
  readonly #left = new Map<string, { readonly at: number; readonly logs: Logs }>();
  #noted = NO_TRAFFIC;
  #requests = 0;
  #isUnsaved = false;
  #saving: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: {
    store: Pick<MetadataStore, 'get' | 'put'>;
    /** What has gone through here since the start. */
    totals: () => TrafficTotals;
    logger: Logger;
    now?: () => number;
  }) {
    this.#store = deps.store;
    this.#totals = deps.totals;
    this.#logger = deps.logger;
    this.#now = deps.now ?? Date.now;
  }

  /** Keeps looking what goes through, until `close`. */
  start(): void {
    let notes = 0;
    this.#timer ??= setInterval(() => {
      this.note();
      notes += 1;
      if (notes % NOTES_PER_SAVE === 0) void this.save();
    }, NOTE_MS).unref();
  }

  /** Takes up what went through since the last look. */
  note(): void {
    const totals = this.#totals();
    const since = difference(totals, this.#noted);
    this.#noted = totals;
    if (isNothing(since)) return;
    const now = this.#now();
    this.#own.minutes.add(since, now);
    this.#own.quarters.add(since, now);
    this.#requests += since.requests;
    this.#isUnsaved = true;
  }

  /** Writes down what was taken up. Never rejects: what could not be written is written the next time. */
  save(): Promise<void> {
    this.#saving = this.#saving.then(() => this.#save());
    return this.#saving;
  }

  /** Oldest first, without gaps; the last one is not over yet. Of other replicas it may lack half a minute. */
  async points(range: TrafficRange): Promise<readonly TrafficPoint[]> {
    this.note();
    const { minutes, quarters } = await this.#everywhere();
    const now = this.#now();
    const divisions =
      range === 'hour' ? minutes.latest(now) : quarters.latest(now, range === 'day' ? QUARTERS_OF_A_DAY : undefined);
    return divisions.map(({ at, totals }) => ({ at, ...totals }));
  }

  /** Writes down the rest. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.note();
    await this.save();
  }

  async #everywhere(): Promise<Logs> {
    const all = newLogs();
    const add = ({ minutes, quarters }: Logs) => {
      all.minutes.addAll(minutes, this.#now());
      all.quarters.addAll(quarters, this.#now());
    };
    add(this.#own);
    try {
      const others = (await this.#index()).filter(({ id }) => id !== this.#id);
      for (const id of this.#left.keys()) if (!others.some((other) => other.id === id)) this.#left.delete(id);
      for (const logs of await Promise.all(others.map((other) => this.#logsOf(other)))) add(logs);
    } catch (error) {
      this.#logger.debug('what went through other replicas cannot be read', { error });
    }
    return all;
  }

  async #logsOf({ id, at }: ReplicaEntry): Promise<Logs> {
    const left = this.#left.get(id);
    if (left?.at === at) return left.logs;
    const { data } = recordShape.safeParse((await this.#store.get(metadataKeys.trafficOf(id)))?.value);
    const logs = {
      minutes: TrafficLog.decode(MINUTES, data?.minutes),
      quarters: TrafficLog.decode(QUARTERS, data?.quarters),
    };
    // It would have said that it is alive.
    if (this.#now() - at > 2 * SIGN_OF_LIFE_MS) this.#left.set(id, { at, logs });
    return logs;
  }

  async #save(): Promise<void> {
    if (!this.#isUnsaved) return;
    this.#isUnsaved = false;
    try {
      const record = { minutes: this.#own.minutes.encode(), quarters: this.#own.quarters.encode() };
      await this.#put(metadataKeys.trafficOf(this.#id), record);
      await this.#signOn();
    } catch (error) {
      this.#isUnsaved = true;
      this.#logger.debug('what went through cannot be written down', { error });
    }
  }

  /** Another replica that signs on at the same moment may undo it: then it is done again when there is more to save. */
  async #signOn(): Promise<void> {
    const now = this.#now();
    const index = await this.#index();
    const own = index.find(({ id }) => id === this.#id);
    if (own && now - own.at < SIGN_OF_LIFE_MS) return;
    const others = index
      .filter(({ id }) => id !== this.#id)
      .sort((a, b) => b.requests - a.requests)
      .slice(0, MAX_REPLICAS - 1);
    await this.#put(metadataKeys.traffic, [...others, { id: this.#id, at: now, requests: this.#requests }]);
  }

  async #index(): Promise<readonly ReplicaEntry[]> {
    const entries = indexShape.safeParse((await this.#store.get(metadataKeys.traffic))?.value).data ?? [];
    return entries.filter(({ at }) => this.#now() - at < KEEP_MS);
  }

  async #put(key: string, value: unknown): Promise<void> {
    await this.#store.put(key, { value, fetchedAt: this.#now() }, KEEP_MS);
  }
}

function newLogs(): Logs {
  return { minutes: new TrafficLog(MINUTES), quarters: new TrafficLog(QUARTERS) };
}
