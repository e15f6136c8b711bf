import { setTimeout as delay } from 'node:timers/promises';
import { hasCode, LarderError } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { type Job, type JobItem, type JobOwner, wantedOf } from './job.ts';
import { findingsOf, versionOf } from './job-findings.ts';
import { JobProgress } from './job-progress.ts';
import { BEAT_MS, JobRecord } from './job-record.ts';
import type { JobStore } from './job-store.ts';
import { Leaving, type WayOut } from './leaving.ts';
import type { Opening } from './opening.ts';
import type { MayWarm, PlannedWish, PlanWish } from './planned-wish.ts';
import type { PlannedItem, WantedItem, Wish } from './wanted.ts';
import { addressOf, type Outcome, type Warm, type Warmed } from './warm.ts';

/** Trouble that may pass gets so much time before what it kept away is asked for once more, in milliseconds. */
const SECOND_TRY_MS = 5_000;
/** Items under way of one job; how many are fetched at once is bounded for all jobs together. */
const WORKERS = 16;

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
  /** While the mirror is sealed a job waits. */
  readonly opening: Opening;
  readonly secondTryMs?: number | undefined;
  readonly logger: Logger;
}

/** One job while it runs here. What it has done is written down as it goes on, so that it can be gone on with elsewhere. */
export class WarmRun {
  readonly #deps: RunDeps;
  readonly #progress: JobProgress;
  readonly #record: JobRecord;
  // Each worker listens.
  readonly #leaving = new Leaving({ listeners: 4 * WORKERS });
  readonly #handingOver = new AbortController();
  #toldUnwritten = () => {};
  /** Resolves when it has ended and the store does not take that yet. */
  readonly unwritten = new Promise<void>((resolve) => {
    this.#toldUnwritten = resolve;
  });
  readonly #broughtIn = new Set<string>();

  constructor(job: Job, owner: JobOwner, deps: RunDeps) {
    this.#deps = deps;
    this.#progress = new JobProgress(job);
    this.#record = new JobRecord({
      store: deps.store,
      progress: this.#progress,
      owner,
      onCancel: () => this.cancel(),
      onLost: () => this.#leave('lost'),
      logger: deps.logger,
    });
  }

  /** As it is now. */
  get job(): Job {
    return this.#progress.job;
  }

  /** Calls back after every change. @returns ends that */
  onChange(listener: () => void): () => void {
    return this.#progress.onChange(listener);
  }

  /** What is under way is not broken off: others may be waiting for it. */
  cancel(): void {
    this.#leave('cancelled');
  }

  /** Stops where it is, for the next start or another replica to go on. */
  handOver(): void {
    this.#handingOver.abort();
    this.#leave('handed over');
  }

  /** Runs to its end, good or bad, or until it is to be left. Never rejects. @returns whether it ended here */
  async run(): Promise<boolean> {
    const ended = new AbortController();
    const beating = this.#record.keepUp(ended.signal);
    let reason: string | undefined;
    try {
      await this.#work();
    } catch (error) {
      if (!this.#leaving.how) reason = this.#reasonOf(error);
    }
    ended.abort();
    await beating;
    if (this.#leaving.how === 'lost') return false;
    if (this.#leaving.how === 'cancelled') this.#progress.end('cancelled', undefined);
    else if (!this.#leaving.how) this.#progress.end(reason === undefined ? 'finished' : 'failed', reason);
    let isWritten = await this.#record.settle();
    this.#progress.changed();
    if (!isWritten) this.#toldUnwritten();
    // Until the store takes it, this is the only place where it is known how it ended. Others would run it again.
    const { signal } = this.#handingOver;
    while (!isWritten && !signal.aborted) {
      await delay(BEAT_MS, undefined, { signal, ref: false }).catch(() => {});
      isWritten = await this.#record.settle();
    }
    return this.#progress.job.head.state !== 'running' && !this.#record.isLost;
  }

  async #work(): Promise<void> {
    const { head } = this.#progress.job;
    const may = await this.#deps.mayWarm(head.by);
    if (!head.isPlanned) await this.#plan(may);
    const again = await this.#pass(this.#progress.waiting, may, { isLast: false });
    if (again.length > 0) {
      await delay(this.#deps.secondTryMs ?? SECOND_TRY_MS, undefined, { signal: this.#leaving.signal });
      await this.#pass(again, may, { isLast: true });
    }
    await this.#lookAgain();
  }

  async #plan(may: MayWarm): Promise<void> {
    const planned = await this.#planWhileOpen(await this.#record.wish(), may);
    const { items, broughtIn } = planned;
    // Those that it was not told of one by one.
    for (const item of items) this.#found(item);
    for (const name of broughtIn) this.#broughtIn.add(name);
    this.#progress.planned(items, findingsOf(planned));
    await this.#record.write();
  }

  /** A sealed mirror has other lists: what they tell is not what there is. */
  async #planWhileOpen(wish: Wish, may: MayWarm): Promise<PlannedWish> {
    for (;;) {
      await this.#untilOpen();
      const { untilSealed } = this.#deps.opening;
      const signal = AbortSignal.any([this.#leaving.signal, untilSealed]);
      this.#progress.beginPlanning();
      const onPlanned = (item: PlannedItem) => {
        if (!signal.aborted) this.#found(item);
      };
      try {
        const planned = await this.#leaving.unlessLeft(this.#deps.plan(wish, may, { signal, onPlanned }));
        this.#leaving.signal.throwIfAborted();
        if (planned && !signal.aborted) return planned;
      } catch (error) {
        if (this.#leaving.how || !signal.aborted) throw error;
      }
    }
  }

  #found(item: PlannedItem): void {
    const outcome = this.#progress.found(item);
    if (outcome) this.#deps.onOutcome(outcome);
  }

  /** What was brought in may have had to make room for what came after it. */
  async #lookAgain(): Promise<void> {
    for (const [index, item] of this.#progress.items.entries()) {
      const wanted = item.outcome === 'present' || item.outcome === 'stored' ? wantedOf(item) : undefined;
      this.#leaving.signal.throwIfAborted();
      // A disk that does not tell says nothing of what was brought in.
      if (!wanted || (await this.#deps.isStored(wanted).catch(() => true))) continue;
      this.#note(index, {
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
        this.#leaving.signal.throwIfAborted();
        const warmed = await this.#bringWhileOpen(index, may);
        if (!warmed) continue;
        if (warmed.mayPass && !isLast) again.push(index);
        else this.#note(index, warmed);
      }
    };
    await Promise.all(Array.from({ length: Math.min(WORKERS, indexes.length) }, work));
    return again;
  }

  /** What did not come, or not whole, because the mirror was sealed meanwhile is asked for again once it is open. */
  async #bringWhileOpen(index: number, may: MayWarm): Promise<Warmed | undefined> {
    for (;;) {
      await this.#untilOpen();
      const { untilSealed } = this.#deps.opening;
      const warmed = await this.#bring(index, may);
      if (!warmed || !untilSealed.aborted) return warmed;
      const isHere = warmed.outcome === 'present' || warmed.outcome === 'stored';
      if (isHere && warmed.note === undefined) return warmed;
      if (warmed.outcome === 'stored') this.#broughtIn.add((this.#progress.items[index] as JobItem).name);
    }
  }

  /** `undefined` when it was not waited for to the end. */
  async #bring(index: number, may: MayWarm): Promise<Warmed | undefined> {
    const wanted = wantedOf(this.#progress.items[index] as JobItem);
    if (!wanted) return { outcome: 'failed', reason: 'it is not known what this is' };
    const address = addressOf(wanted);
    if (!may(address)) return { outcome: 'failed', reason: `this token is not for ${address}` };
    const locked = this.#progress.job.findings.locks[versionOf(wanted)];
    let arrived = () => {};
    try {
      return await this.#leaving.unlessLeft(
        this.#deps.inTurn(wanted, async () => {
          // It may have become time to leave while it waited for its turn.
          if (this.#leaving.how) return undefined;
          return this.#deps.warm.bring(wanted, {
            locked,
            onArriving: (one) => {
              arrived = this.#progress.arriving(one);
            },
          });
        }),
      );
    } finally {
      arrived();
    }
  }

  #note(index: number, warmed: Warmed): void {
    const isNew = warmed.outcome === 'present' && this.#broughtIn.has((this.#progress.items[index] as JobItem).name);
    const noted: Warmed = isNew ? { ...warmed, outcome: 'stored' } : warmed;
    this.#progress.record(index, noted);
    this.#deps.onOutcome(noted.outcome);
  }

  /** @throws when it is to be left meanwhile */
  async #untilOpen(): Promise<void> {
    const { opening, logger } = this.#deps;
    if (!opening.isSealed) return;
    const job = this.#progress.job.head.id;
    if (this.#progress.pause(true)) logger.info('a job waits until this mirror is unsealed', { job });
    await opening.untilOpen(this.#leaving.signal);
    if (this.#progress.pause(false)) logger.info('a job goes on, this mirror was unsealed', { job });
  }

  #reasonOf(error: unknown): string {
    if (error instanceof LarderError && !hasCode(error, 'STORAGE_FAILED')) return error.message;
    this.#deps.logger.error('a job failed', { job: this.#progress.job.head.id, error });
    return error instanceof LarderError ? error.message : 'an internal error; the log of the server says more';
  }

  #leave(how: WayOut): void {
    this.#leaving.leave(how);
    this.#progress.changed();
  }
}
