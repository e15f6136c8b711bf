import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import type { Diagnostic } from '../configuration/requirements.ts';
import { hasCode, LarderError } from '../errors.ts';
import type { Logger } from '../logger.ts';
import {
  fetchedFor,
  itemsOf,
  type Job,
  type JobFindings,
  type JobHead,
  type JobItem,
  type JobOwner,
  totalsOf,
  wantedOf,
} from './job.ts';
import { type JobStore, PIECE_ITEMS } from './job-store.ts';
import type { PlannedItem, WantedItem, Wish } from './wanted.ts';
import { type Arriving, addressOf, type Outcome, type Warm, type Warmed } from './warm.ts';

/** What changed is written down, and what others want is looked at, this often in milliseconds. */
const FLUSH_MS = 1_000;
/** Trouble that may pass gets so much time before what it kept away is asked for once more, in milliseconds. */
const SECOND_TRY_MS = 5_000;
/** Items under way of one job; how many are fetched at once is bounded for all jobs together. */
const WORKERS = 16;
/** Of those, what is told of a wish: the rest would drown it. */
const MAX_DIAGNOSTICS = 1_000;

/** Whether somebody may have something warmed. */
export type MayWarm = (address: MirroredAddress) => boolean;

/** What a wish comes down to, and what there was to say about it. */
export interface PlannedWish {
  readonly items: readonly PlannedItem[];
  readonly diagnostics: readonly Diagnostic[];
  /** Names of what had to be fetched to find that out. */
  readonly broughtIn: ReadonlySet<string>;
}

export type PlanWish = (wish: Wish, mayWarm: MayWarm, signal: AbortSignal) => Promise<PlannedWish>;

/** What runs of all jobs share. */
export interface RunDeps {
  readonly store: JobStore;
  readonly warm: Pick<Warm, 'bring'>;
  readonly plan: PlanWish;
  /** By whom a job was wanted. @throws Forbidden when they may have nothing any more */
  readonly mayWarm: (by: string) => Promise<MayWarm>;
  /** Waits for a turn. */
  readonly inTurn: <T>(wanted: WantedItem, work: () => Promise<T>) => Promise<T>;
  readonly onOutcome: (outcome: Outcome) => void;
  /** Whether it is here now. */
  readonly isStored: (wanted: WantedItem) => Promise<boolean>;
  readonly secondTryMs?: number | undefined;
  readonly logger: Logger;
}

type End = 'finished' | 'cancelled' | 'failed';

/** One job while it runs here. What it has done is written down as it goes on, so that it can be gone on with elsewhere. */
export class WarmRun {
  readonly #deps: RunDeps;
  readonly #abort = new AbortController();
  readonly #dirty = new Set<number>();
  readonly #arriving = new Set<Arriving>();
  readonly #listeners = new Set<() => void>();
  #head: JobHead;
  #owner: JobOwner;
  #items: JobItem[];
  #totals: JobHead['totals'];
  #fetched: number;
  #findings: JobFindings;
  #broughtIn: ReadonlySet<string> = new Set();
  #left: 'cancelled' | 'handed over' | 'lost' | undefined;
  #isStoreFailing = false;

  constructor(job: Job, owner: JobOwner, deps: RunDeps) {
    this.#deps = deps;
    this.#owner = owner;
    // Each worker listens.
    setMaxListeners(2 * WORKERS, this.#abort.signal);
    this.#head = { ...job.head, state: 'running', endedAt: undefined, reason: undefined };
    this.#items = [...job.items];
    this.#findings = job.findings;
    this.#totals = totalsOf(this.#items);
    this.#fetched = fetchedFor(this.#items);
  }

  /** As it is now. */
  get job(): Job {
    const arriving = [...this.#arriving].reduce((sum, { written }) => sum + written, 0);
    return {
      head: { ...this.#head, totals: { ...this.#totals }, bytes: this.#fetched + arriving, owner: this.#owner },
      items: this.#items,
      findings: this.#findings,
    };
  }

  /** Calls back after every change. @returns ends that */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** What is under way is not broken off: others may be waiting for it. */
  cancel(): void {
    this.#leave('cancelled');
  }

  /** Stops where it is, for the next start or another replica to go on. */
  handOver(): void {
    this.#leave('handed over');
  }

  /** Runs to its end, good or bad, or until it is to be left. Never rejects. */
  async run(): Promise<void> {
    const ended = new AbortController();
    const beating = this.#beat(ended.signal);
    let end: End = 'finished';
    try {
      await this.#work();
    } catch (error) {
      if (!this.#left) {
        end = 'failed';
        this.#head = { ...this.#head, reason: this.#reasonOf(error) };
      }
    }
    ended.abort();
    await beating;
    if (this.#left === 'lost') return;
    if (this.#left === 'cancelled') end = 'cancelled';
    if (this.#left !== 'handed over') {
      this.#head = { ...this.#head, state: end, endedAt: new Date().toISOString() };
    }
    await this.#settle();
    this.#changed();
  }

  async #work(): Promise<void> {
    const may = await this.#deps.mayWarm(this.#head.by);
    if (!this.#head.isPlanned) await this.#plan(may);
    const waiting = [...this.#items.keys()].filter((index) => this.#items[index]?.outcome === undefined);
    const again = await this.#pass(waiting, may, { isLast: false });
    if (again.length > 0) {
      await delay(this.#deps.secondTryMs ?? SECOND_TRY_MS, undefined, { signal: this.#abort.signal });
      await this.#pass(again, may, { isLast: true });
    }
    await this.#lookAgain();
  }

  async #plan(may: MayWarm): Promise<void> {
    const { store, plan } = this.#deps;
    const { id } = this.#head;
    const wish = await store.wish(this.#head);
    if (!wish) throw new LostWish();
    const planned = await this.#unlessLeft(plan(wish, may, this.#abort.signal));
    if (!planned) return this.#abort.signal.throwIfAborted();
    const { items, diagnostics } = planned;
    const before = new Map(this.#items.filter(isHere).map((item) => [`${item.kind ?? ''} ${item.name}`, item]));
    this.#items = itemsOf(items).map((item) => {
      const known = before.get(`${item.kind ?? ''} ${item.name}`);
      return known ?? (item.outcome ? { ...item, sequence: this.#next() } : item);
    });
    this.#findings = { diagnostics: diagnostics.slice(0, MAX_DIAGNOSTICS), locks: locksOf(items) };
    this.#broughtIn = planned.broughtIn;
    this.#totals = totalsOf(this.#items);
    this.#fetched = fetchedFor(this.#items);
    await store.putFindings(id, this.#findings);
    for (let piece = 0; piece * PIECE_ITEMS < this.#items.length; piece += 1) {
      await store.putItems(id, this.#items, piece);
    }
    this.#head = { ...this.#head, isPlanned: true };
    // Only now: whoever goes on with it finds all of it.
    await store.putHead(this.job.head);
    for (const { outcome } of this.#items) if (outcome) this.#deps.onOutcome(outcome);
    this.#changed();
  }

  /** What was brought in may have had to make room for what came after it. */
  async #lookAgain(): Promise<void> {
    for (const [index, item] of this.#items.entries()) {
      const wanted = item.outcome === 'present' || item.outcome === 'stored' ? wantedOf(item) : undefined;
      this.#abort.signal.throwIfAborted();
      // A disk that does not tell says nothing of what was brought in.
      if (!wanted || (await this.#deps.isStored(wanted).catch(() => true))) continue;
      this.#totals[item.outcome as 'present' | 'stored'] -= 1;
      this.#record(index, {
        outcome: 'failed',
        reason: 'it is not here any more: limits.disk left no room for it, or it was purged or found damaged meanwhile',
      });
    }
  }

  /** Resolves to those that are worth another try. */
  async #pass(indexes: readonly number[], may: MayWarm, { isLast }: { isLast: boolean }): Promise<number[]> {
    const again: number[] = [];
    const queue = indexes.values();
    const work = async () => {
      for (const index of queue) {
        this.#abort.signal.throwIfAborted();
        const warmed = await this.#bring(index, may);
        if (!warmed) continue;
        if (warmed.mayPass && !isLast) again.push(index);
        else this.#record(index, warmed);
      }
    };
    await Promise.all(Array.from({ length: Math.min(WORKERS, indexes.length) }, work));
    return again;
  }

  /** `undefined` when it was not waited for to the end. */
  async #bring(index: number, may: MayWarm): Promise<Warmed | undefined> {
    const item = this.#items[index] as JobItem;
    const wanted = wantedOf(item);
    if (!wanted) return { outcome: 'failed', reason: 'it is not known what this is' };
    const address = addressOf(wanted);
    if (!may(address)) return { outcome: 'failed', reason: `this token is not for ${address}` };
    const locked = this.#findings.locks[versionOf(wanted)];
    let arriving: Arriving | undefined;
    const onArriving = (one: Arriving) => {
      arriving = one;
      this.#arriving.add(one);
    };
    try {
      return await this.#unlessLeft(
        this.#deps.inTurn(wanted, async () => {
          // It may have become time to leave while it waited for its turn.
          if (this.#left) return undefined;
          return this.#deps.warm.bring(wanted, { locked, onArriving });
        }),
      );
    } finally {
      if (arriving) this.#arriving.delete(arriving);
    }
  }

  #record(index: number, { mayPass: _, ...result }: Warmed): void {
    const { name, kind } = this.#items[index] as JobItem;
    const isNew = result.outcome === 'present' && this.#broughtIn.has(name);
    const warmed = isNew ? { ...result, outcome: 'stored' as const } : result;
    this.#items[index] = { name, kind, ...warmed, sequence: this.#next() };
    this.#totals[warmed.outcome] += 1;
    if (warmed.outcome === 'stored') this.#fetched += warmed.bytes ?? 0;
    this.#dirty.add(Math.floor(index / PIECE_ITEMS));
    this.#deps.onOutcome(warmed.outcome);
    this.#changed();
  }

  #next(): number {
    const sequence = this.#head.sequence + 1;
    this.#head = { ...this.#head, sequence };
    return sequence;
  }

  /** Whoever looks sees that it is alive. */
  async #beat(ended: AbortSignal): Promise<void> {
    for (;;) {
      await delay(FLUSH_MS, undefined, { signal: ended }).catch(() => {});
      if (ended.aborted || this.#left === 'lost') return;
      await this.#tryToStore(async () => {
        await this.#look();
        if (this.#left !== 'lost') await this.#flush();
      });
    }
  }

  /** What others want of it. */
  async #look(): Promise<void> {
    const { store } = this.#deps;
    const { id, createdAt } = this.#head;
    const head = await store.head(id);
    if (!head) await this.#putAnew();
    if (head?.owner && head.owner.instance !== this.#owner.instance) return this.#leave('lost');
    if (await store.isCancelRequested(id)) this.cancel();
    // Replicas that enter jobs at the same moment may lose each other's.
    const entry = (await store.index()).find((one) => one.id === id);
    if (!entry?.isRunning) await store.enter(id, { isRunning: true, createdAt: Date.parse(createdAt) });
  }

  /** The store has lost what was written down: all of it is written again, but for the wish, which nobody has any more. */
  async #putAnew(): Promise<void> {
    await this.#deps.store.putFindings(this.#head.id, this.#findings);
    for (let piece = 0; piece * PIECE_ITEMS < this.#items.length; piece += 1) this.#dirty.add(piece);
  }

  async #flush(): Promise<void> {
    const { store } = this.#deps;
    const { id } = this.#head;
    for (const piece of [...this.#dirty]) {
      this.#dirty.delete(piece);
      try {
        await store.putItems(id, this.#items, piece);
      } catch (error) {
        this.#dirty.add(piece);
        throw error;
      }
    }
    this.#owner = { ...this.#owner, beat: this.#owner.beat + 1 };
    await store.putHead(this.job.head);
  }

  /** The last that is written down here. */
  async #settle(): Promise<void> {
    const { store } = this.#deps;
    const { id, createdAt, state } = this.#head;
    await this.#tryToStore(async () => {
      await this.#flush();
      await store.putHead({ ...this.job.head, owner: undefined });
      await store.enter(id, { isRunning: state === 'running', createdAt: Date.parse(createdAt) });
      await store.forgetCancel(id);
    });
  }

  /** A store that fails keeps nobody from warming: what was done is found to be there. */
  async #tryToStore(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.#isStoreFailing = false;
    } catch (error) {
      if (!this.#isStoreFailing) {
        this.#deps.logger.warn('the progress of a job could not be written down', { job: this.#head.id, error });
      }
      this.#isStoreFailing = true;
    }
  }

  #reasonOf(error: unknown): string {
    if (error instanceof LarderError && !hasCode(error, 'STORAGE_FAILED')) return error.message;
    this.#deps.logger.error('a job failed', { job: this.#head.id, error });
    return error instanceof LarderError ? error.message : 'an internal error; the log of the server says more';
  }

  #leave(how: 'cancelled' | 'handed over' | 'lost'): void {
    this.#left ??= how;
    this.#abort.abort();
    this.#changed();
  }

  async #unlessLeft<T>(work: Promise<T>): Promise<T | undefined> {
    const { signal } = this.#abort;
    // Nobody hears how it ends.
    work.catch(() => {});
    if (signal.aborted) return undefined;
    let onAbort = () => {};
    const left = new Promise<undefined>((resolve) => {
      onAbort = () => resolve(undefined);
      signal.addEventListener('abort', onAbort);
    });
    try {
      return await Promise.race([work, left]);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}

class LostWish extends LarderError {
  readonly code = 'NOT_FOUND';

  constructor() {
    super('what was asked for is not kept any more; ask for it again');
  }
}

function isHere({ outcome }: JobItem): boolean {
  return outcome === 'present' || outcome === 'stored' || outcome === 'unsupported';
}

/** What is locked is a version of a provider, on whatever platform. */
function versionOf(wanted: WantedItem): string {
  const version = wanted.kind === 'archive' ? wanted.archive.version : wanted.release.version;
  return `${addressOf(wanted)} ${version}`;
}

function locksOf(items: readonly PlannedItem[]): JobFindings['locks'] {
  return Object.fromEntries(
    items.flatMap((one) => ('wanted' in one && one.locked ? [[versionOf(one.wanted), [...one.locked]]] : [])),
  );
}
