import { randomBytes, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import pLimit from 'p-limit';
import { kindOf } from '../configuration/file-kinds.ts';
import { NotFound } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { MetadataStore } from '../store/metadata-store.ts';
import { fetchedFor, type Job, type JobHead, type JobOwner, NO_FINDINGS, totalsOf } from './job.ts';
import { JobStore, KEEP_MS, PIECE_ITEMS } from './job-store.ts';
import type { WantedItem, Wish } from './wanted.ts';
import type { Outcome, Warm } from './warm.ts';
import { type MayWarm, type PlanWish, type RunDeps, WarmRun } from './warm-run.ts';

/** How often it is looked whether a job has lost its replica, in milliseconds. */
const LOOK_MS = 5_000;
/** A replica that shows no life for so long is taken for dead, in milliseconds. */
const DEAD_MS = 15_000;
/** Two replicas that want the same job see each other within this time, in milliseconds. */
const CLAIM_MS = 200;
/** A job is written down every second, and jobs are listed: names of files, so many of them. */
const MAX_FILES_SHOWN = 20;
/** When this process began, in milliseconds since the epoch: in containers every one of them has the number 1. */
const STARTED_AT = Math.round(performance.timeOrigin);
/** Packages at once: half of what can be made, the rest is for clients. */
const CONCURRENT_PACKAGES = 2;

/** What runs cannot be begun again. */
export class JobIsRunning extends Error {}

/**
 * Jobs that warm: kept in the metadata store, so that every replica can tell of them and none is lost with a process.
 * One replica runs a job; when it shows no life any more, another one or the next start goes on with it.
 */
export class WarmJobs {
  readonly #store: JobStore;
  readonly #runs = new Map<string, { run: WarmRun; ended: Promise<void> }>();
  readonly #deps: Omit<ConstructorParameters<typeof WarmRun>[2], 'store' | 'inTurn'>;
  readonly #onEnd: (head: JobHead) => void;
  readonly #logger: Logger;
  readonly #looks: { readonly everyMs: number; readonly deadAfterMs: number };
  readonly #archives: ReturnType<typeof pLimit>;
  readonly #packages: ReturnType<typeof pLimit>;
  readonly #instance = randomUUID();
  readonly #closing = new AbortController();
  readonly #retrying = new Set<string>();
  readonly #beats = new Map<string, { beat: string; seenAt: number }>();
  #looking: Promise<void> = Promise.resolve();

  constructor(deps: {
    store: MetadataStore;
    warm: Pick<Warm, 'bring'>;
    /** Whether something is here now. */
    isStored: RunDeps['isStored'];
    plan: PlanWish;
    /** @throws Forbidden when they may have nothing any more */
    mayWarm: (by: string) => Promise<MayWarm>;
    /** Archives at once, for all jobs together. */
    concurrency: number;
    onOutcome?: (outcome: Outcome) => void;
    onEnd?: (head: JobHead) => void;
    /** Milliseconds before what was in trouble is tried again. */
    secondTryMs?: number;
    /** How often it is looked for jobs that were left behind, and after which silence one is; in milliseconds. */
    looks?: { readonly everyMs: number; readonly deadAfterMs: number };
    logger: Logger;
  }) {
    this.#store = new JobStore(deps);
    this.#deps = {
      warm: deps.warm,
      isStored: deps.isStored,
      plan: deps.plan,
      mayWarm: deps.mayWarm,
      onOutcome: deps.onOutcome ?? (() => {}),
      secondTryMs: deps.secondTryMs,
      logger: deps.logger,
    };
    this.#onEnd = deps.onEnd ?? (() => {});
    this.#logger = deps.logger;
    this.#looks = deps.looks ?? { everyMs: LOOK_MS, deadAfterMs: DEAD_MS };
    this.#archives = pLimit(deps.concurrency);
    this.#packages = pLimit(Math.min(deps.concurrency, CONCURRENT_PACKAGES));
  }

  /** Those that run here. */
  get running(): number {
    return this.#runs.size;
  }

  /** Aborted when nothing is to be watched any more. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Goes on with what was left behind, now and whenever a replica dies. */
  start(): void {
    this.#looking = this.#look();
  }

  /** Leaves the jobs where they are. Resolves when that is written down. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const { run } of this.#runs.values()) run.handOver();
    await Promise.all([this.#looking, ...[...this.#runs.values()].map(({ ended }) => ended)]);
  }

  /**
   * Resolves when the job is written down; it has begun by then.
   * @param by `token:NAME`, or `schedule:FILE`
   * @throws StorageFailed
   */
  async create(wish: Wish, by: string): Promise<JobHead> {
    const id = newId();
    const now = new Date();
    const pieces = await this.#store.putWish(id, withoutUnread(wish));
    const head: JobHead = {
      id,
      state: 'running',
      by,
      createdAt: now.toISOString(),
      wish: {
        files: wish.files.slice(0, MAX_FILES_SHOWN).map(({ path }) => path),
        count: wish.files.length,
        platforms: wish.platforms.map(String),
        client: wish.client,
        pieces,
      },
      isPlanned: false,
      totals: totalsOf([]),
      bytes: 0,
      sequence: 0,
      owner: this.#owner(),
    };
    await this.#store.putHead(head);
    await this.#store.enter(id, { isRunning: true, createdAt: now.getTime() });
    this.#begin({ head, items: [], findings: NO_FINDINGS });
    return head;
  }

  /** Newest first. @throws StorageFailed */
  async list(): Promise<readonly JobHead[]> {
    const entries = await this.#store.index();
    const heads = await Promise.all(entries.map(({ id }) => this.#runs.get(id)?.run.job.head ?? this.#store.head(id)));
    return heads.filter((head) => head !== undefined);
  }

  /** @throws NotFound, StorageFailed */
  async get(id: string): Promise<Job> {
    const job = this.#runs.get(id)?.run.job ?? (await this.#store.job(id));
    if (job && Date.now() - Date.parse(job.head.createdAt) < KEEP_MS) return job;
    throw new NotFound(`there is no job ${id}`, { hint: 'jobs are kept for 30 days, and the last 100 of them' });
  }

  /** What has ended stays as it is. Elsewhere it ends within moments. @throws NotFound, StorageFailed */
  async cancel(id: string): Promise<JobHead> {
    const { head } = await this.get(id);
    if (head.state !== 'running') return head;
    const here = this.#runs.get(id);
    if (here) {
      here.run.cancel();
      await here.ended;
      return (await this.get(id)).head;
    }
    await this.#store.requestCancel(id);
    return head;
  }

  /**
   * Does again what failed, and what was not done.
   * @throws NotFound, StorageFailed
   * @throws JobIsRunning
   */
  async retry(id: string): Promise<JobHead> {
    if (this.#retrying.has(id)) throw new JobIsRunning();
    this.#retrying.add(id);
    try {
      return await this.#retry(id);
    } finally {
      this.#retrying.delete(id);
    }
  }

  async #retry(id: string): Promise<JobHead> {
    if ((await this.get(id)).head.state === 'running') throw new JobIsRunning();
    // It may have ended without having written all of it down.
    await this.#runs.get(id)?.ended;
    const { head, items, findings } = await this.get(id);
    if (head.state === 'running') throw new JobIsRunning();
    // What is not known to be there is looked for anew: there may be a version by now.
    // Of items that were lost nothing is known but that they were there.
    const isWhole = items.length === head.totals.items;
    const isPlanned = head.isPlanned && isWhole && !items.some(({ kind, outcome }) => !kind && outcome === 'failed');
    const left = items.map(({ name, kind, ...rest }) =>
      rest.outcome === 'failed' ? { name, kind } : { name, kind, ...rest },
    );
    const job: Job = {
      head: { ...head, state: 'running', endedAt: undefined, reason: undefined, isPlanned, owner: this.#owner() },
      items: left,
      findings,
    };
    await this.#putWhole(job);
    await this.#store.enter(id, { isRunning: true, createdAt: Date.parse(head.createdAt) });
    this.#begin(job);
    return (await this.get(id)).head;
  }

  /** Calls back after changes of a job that runs here; `undefined` when it does not. @returns ends that */
  onChange(id: string, listener: () => void): (() => void) | undefined {
    return this.#runs.get(id)?.run.onChange(listener);
  }

  #begin(job: Job): void {
    const { id } = job.head;
    const run = new WarmRun(job, job.head.owner ?? this.#owner(), {
      ...this.#deps,
      store: this.#store,
      inTurn: (wanted, work) => this.#turns(wanted)(work),
    });
    const ended = run.run().then(() => {
      if (this.#runs.get(id)?.run === run) this.#runs.delete(id);
      const { head } = run.job;
      if (head.state !== 'running') this.#onEnd(head);
    });
    this.#runs.set(id, { run, ended });
    if (this.#closing.signal.aborted) run.handOver();
  }

  #turns({ kind }: WantedItem): ReturnType<typeof pLimit> {
    return kind === 'archive' ? this.#archives : this.#packages;
  }

  async #look(): Promise<void> {
    for (let isFirst = true; !this.closing.aborted; isFirst = false) {
      try {
        for (const { id, isRunning } of await this.#store.index()) {
          if (isRunning && !this.#runs.has(id)) await this.#takeOverIfLeft(id, isFirst);
        }
      } catch (error) {
        // Silence of the store is none of the others.
        this.#beats.clear();
        this.#logger.debug('it could not be looked for jobs that were left behind', { error });
      }
      await delay(this.#looks.everyMs, undefined, { signal: this.closing }).catch(() => {});
    }
  }

  async #takeOverIfLeft(id: string, isFirst: boolean): Promise<void> {
    const head = await this.#store.head(id);
    if (head?.state !== 'running' || !this.#isLeft(head, isFirst)) return;
    const owner = this.#owner();
    await this.#store.putHead({ ...head, owner });
    await delay(CLAIM_MS, undefined, { signal: this.closing });
    const job = await this.#store.job(id);
    if (job?.head.owner?.instance !== owner.instance) return;
    this.#logger.info('a job that was left behind is gone on with', { job: id });
    const { totals, sequence } = job.head;
    // Outcomes that were told of and not written down had numbers, too.
    this.#begin({
      head: {
        ...job.head,
        sequence: sequence + totals.items + 1,
        bytes: fetchedFor(job.items),
        isPlanned: job.head.isPlanned && job.items.length === totals.items,
      },
      items: job.items,
      findings: job.findings,
    });
  }

  /** Nobody's, or that of somebody who shows no life. */
  #isLeft({ id, owner }: JobHead, isFirst: boolean): boolean {
    if (!owner || (isFirst && isGone(owner))) return true;
    const beat = `${owner.instance} ${owner.beat}`;
    const seen = this.#beats.get(id);
    if (seen?.beat === beat) return performance.now() - seen.seenAt >= this.#looks.deadAfterMs;
    this.#beats.set(id, { beat, seenAt: performance.now() });
    return false;
  }

  async #putWhole({ head, items }: Job): Promise<void> {
    await this.#store.forgetCancel(head.id);
    for (let piece = 0; piece * PIECE_ITEMS < items.length; piece += 1) {
      await this.#store.putItems(head.id, items, piece);
    }
    await this.#store.putHead({ ...head, totals: totalsOf(items) });
  }

  #owner(): JobOwner {
    return { instance: this.#instance, host: hostname(), pid: process.pid, startedAt: STARTED_AT, beat: 0 };
  }
}

/** Times of day that people can read, and that sort. */
function newId(): string {
  const time = new Date()
    .toISOString()
    .replace(/[-:]|\..*/g, '')
    .replace('T', '-');
  return `${time}-${randomBytes(3).toString('hex')}`;
}

/** A process of this very machine that is not there any more, or whose number we have now. */
function isGone({ host, pid, startedAt }: JobOwner): boolean {
  if (host !== hostname()) return false;
  if (pid === process.pid) return startedAt !== STARTED_AT;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/** What is not read is not kept either: it may hold secrets. That it was there is told all the same. */
function withoutUnread(wish: Wish): Wish {
  const files = wish.files.map((file) => (kindOf(file.path) === 'other' ? { ...file, text: '' } : file));
  return { ...wish, files };
}
