import pLimit from 'p-limit';
import { NotFound, StorageFailed } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { MetadataStore } from '../store/metadata-store.ts';
import { type Job, type JobHead, type JobItem, type JobPage, NO_FINDINGS, totalsOf } from './job.ts';
import { newOwner } from './job-owners.ts';
import { JobStore, KEEP_MS, PIECE_ITEMS } from './job-store.ts';
import { LeftJobs, type Looks } from './left-jobs.ts';
import { jobAgain, newJob } from './new-job.ts';
import { Opening } from './opening.ts';
import type { MayWarm, PlanWish } from './planned-wish.ts';
import type { WantedItem, Wish } from './wanted.ts';
import type { Outcome, Warm } from './warm.ts';
import { type RunDeps, WarmRun } from './warm-run.ts';

/** Packages at once: half of what can be made, the rest is for clients. */
const CONCURRENT_PACKAGES = 2;

/** What runs cannot be begun again. */
export class JobIsRunning extends Error {}

/** Nothing can be brought in while the mirror is sealed. */
export class MirrorIsSealed extends Error {}

/**
 * Jobs that warm: kept in the metadata store, so that every replica can tell of them and none is lost with a process.
 * One replica runs a job; when it shows no life any more, another one or the next start goes on with it.
 */
export class WarmJobs {
  readonly #store: JobStore;
  readonly #runs = new Map<string, { run: WarmRun; ended: Promise<void> }>();
  readonly #deps: Omit<ConstructorParameters<typeof WarmRun>[2], 'store' | 'inTurn'>;
  readonly #onEnd: (head: JobHead) => void | Promise<void>;
  readonly #opening: Opening;
  readonly #logger: Logger;
  readonly #left: LeftJobs;
  readonly #archives: ReturnType<typeof pLimit>;
  readonly #packages: ReturnType<typeof pLimit>;
  readonly #owner = newOwner();
  readonly #closing = new AbortController();
  readonly #retrying = new Set<string>();
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
    /** Told when a job that ran here has ended. */
    onEnd?: (head: JobHead) => void | Promise<void>;
    /** Never sealed without it. */
    opening?: Opening;
    /** Milliseconds before what was in trouble is tried again. */
    secondTryMs?: number;
    /** How it is looked for jobs that were left behind. */
    looks?: Partial<Looks>;
    logger: Logger;
  }) {
    const { logger, onOutcome = () => {}, onEnd = () => {}, opening = new Opening() } = deps;
    this.#store = new JobStore(deps);
    this.#deps = {
      warm: deps.warm,
      isStored: deps.isStored,
      plan: deps.plan,
      mayWarm: deps.mayWarm,
      onOutcome: (outcome) => {
        try {
          onOutcome(outcome);
        } catch (error) {
          logger.error('what has become of an item could not be told', { error });
        }
      },
      opening,
      secondTryMs: deps.secondTryMs,
      logger,
    };
    this.#onEnd = onEnd;
    this.#opening = opening;
    this.#logger = logger;
    this.#left = new LeftJobs({
      store: this.#store,
      owner: this.#owner,
      runsHere: (id) => this.#runs.has(id),
      goOn: (job) => this.#begin(job),
      looks: deps.looks,
      logger,
    });
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
    this.#looking = this.#left.watch(this.closing);
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
   * @throws StorageFailed: then nothing of it stays
   * @throws MirrorIsSealed
   */
  async create(wish: Wish, by: string): Promise<JobHead> {
    if (this.#opening.isSealed) throw new MirrorIsSealed();
    const { head, pieces } = newJob(wish, by, this.#owner);
    const { id, createdAt } = head;
    try {
      await this.#store.putWish(id, pieces);
      await this.#store.putHead(head);
      await this.#store.enter(id, { isRunning: true, createdAt: Date.parse(createdAt) });
    } catch (error) {
      await this.#store.discard(head);
      throw error;
    }
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
    return found(id, this.#runs.get(id)?.run.job ?? (await this.#store.job(id)));
  }

  /** Without what it consists of. @throws NotFound, StorageFailed */
  async head(id: string): Promise<JobHead> {
    const head = this.#runs.get(id)?.run.job.head ?? (await this.#store.head(id));
    return found(id, head && { head }).head;
  }

  /**
   * Some of its items, and everything else of it.
   * @param options.after how many items come before those
   * @throws NotFound, StorageFailed
   */
  async page(id: string, options: { after: number; count: number }): Promise<Job & Pick<JobPage, 'next'>> {
    const here = this.#runs.get(id)?.run.job;
    if (here) return { ...here, ...pageOf(here.items, options) };
    const head = await this.head(id);
    return { head, ...(await this.#store.page(head, options)), findings: await this.#store.findings(id) };
  }

  /** What has ended stays as it is. Elsewhere it ends within moments. @throws NotFound, StorageFailed */
  async cancel(id: string): Promise<JobHead> {
    const head = await this.head(id);
    if (head.state !== 'running') return head;
    const here = this.#runs.get(id);
    if (here) {
      here.run.cancel();
      await Promise.race([here.ended, here.run.unwritten]);
      return this.head(id);
    }
    await this.#store.requestCancel(id);
    return head;
  }

  /**
   * Does again what failed, and what was not done.
   * @throws NotFound, StorageFailed
   * @throws JobIsRunning, MirrorIsSealed
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
    if ((await this.head(id)).state === 'running') throw new JobIsRunning();
    if (this.#opening.isSealed) throw new MirrorIsSealed();
    // It may have ended without having written all of it down.
    const here = this.#runs.get(id);
    await Promise.race([here?.ended, here?.run.unwritten]);
    if (here && this.#runs.get(id) === here) throw new StorageFailed('writing down the end of a job', undefined);
    const before = await this.get(id);
    const { state, createdAt } = before.head;
    if (state === 'running') throw new JobIsRunning();
    const job = jobAgain(before, this.#owner);
    try {
      await this.#putWhole(job);
      await this.#store.enter(id, { isRunning: true, createdAt: Date.parse(createdAt) });
    } catch (error) {
      // It has ended as before, as far as the store lets us say so.
      await this.#putWhole(before).catch(() => {});
      throw error;
    }
    this.#begin(job);
    return this.head(id);
  }

  /** Calls back after changes of a job that runs here; `undefined` when it does not. @returns ends that */
  onChange(id: string, listener: () => void): (() => void) | undefined {
    return this.#runs.get(id)?.run.onChange(listener);
  }

  #begin(job: Job): void {
    const { id } = job.head;
    const run = new WarmRun(job, this.#owner, {
      ...this.#deps,
      store: this.#store,
      inTurn: (wanted, work) => this.#turns(wanted)(work),
    });
    const ended = run.run().then((isOver) => {
      if (this.#runs.get(id)?.run === run) this.#runs.delete(id);
      return isOver ? this.#tell(run.job.head) : undefined;
    });
    this.#runs.set(id, { run, ended });
    if (this.#closing.signal.aborted) run.handOver();
  }

  /** Never rejects: a job has ended, whoever cannot hear of it. */
  async #tell(head: JobHead): Promise<void> {
    try {
      await this.#onEnd(head);
    } catch (error) {
      this.#logger.error('the end of a job could not be told', { job: head.id, error });
    }
  }

  #turns({ kind }: WantedItem): ReturnType<typeof pLimit> {
    return kind === 'archive' ? this.#archives : this.#packages;
  }

  async #putWhole({ head, items }: Job): Promise<void> {
    await this.#store.forgetCancel(head.id);
    for (let piece = 0; piece * PIECE_ITEMS < items.length; piece += 1) {
      await this.#store.putItems(head.id, items, piece);
    }
    await this.#store.putHead({ ...head, totals: totalsOf(items) });
  }
}

/** Unless there is none, or it is as old as none that is kept. @throws NotFound */
function found<T extends { readonly head: JobHead }>(id: string, job: T | undefined): T {
  if (job && Date.now() - Date.parse(job.head.createdAt) < KEEP_MS) return job;
  throw new NotFound(`there is no job ${id}`, { hint: 'jobs are kept for 30 days, and the last 100 of them' });
}

function pageOf(items: readonly JobItem[], { after, count }: { after: number; count: number }): JobPage {
  const end = after + count;
  return { items: items.slice(after, end), next: end < items.length ? end : undefined };
}
