import { setTimeout as delay } from 'node:timers/promises';
import { NotFound } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { JobFindings, JobHead, JobOwner } from './job.ts';
import type { JobProgress } from './job-progress.ts';
import type { JobStore } from './job-store.ts';
import type { Wish } from './wanted.ts';

/** What changed is written down, and what others want is looked at, this often in milliseconds: the beat of a job. */
export const BEAT_MS = 1_000;

/**
 * A job that runs here as others see it: how far it is is written down again and again, which shows as well that it is
 * alive, and what they want of it is learnt. A store that fails keeps nobody from warming.
 */
export class JobRecord {
  readonly #store: JobStore;
  readonly #progress: JobProgress;
  readonly #onCancel: () => void;
  readonly #onLost: () => void;
  readonly #logger: Logger;
  #owner: JobOwner;
  /** Pieces of items that there may be in the store. */
  #written: number;
  /** As they are written down. */
  #findings: JobFindings | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #isLost = false;
  #isStoreFailing = false;

  constructor(deps: {
    store: JobStore;
    progress: JobProgress;
    /** Who runs it here. */
    owner: JobOwner;
    /** Somebody wants it to end. */
    onCancel: () => void;
    /** It is somebody else's now. */
    onLost: () => void;
    logger: Logger;
  }) {
    this.#store = deps.store;
    this.#progress = deps.progress;
    this.#owner = deps.owner;
    this.#onCancel = deps.onCancel;
    this.#onLost = deps.onLost;
    this.#logger = deps.logger;
    this.#written = deps.progress.pieces;
    this.#findings = deps.progress.job.findings;
  }

  /** Until it has ended, or is lost. Never rejects. */
  async keepUp(ended: AbortSignal): Promise<void> {
    for (;;) {
      await delay(BEAT_MS, undefined, { signal: ended }).catch(() => {});
      if (ended.aborted || this.#isLost) return;
      await this.#unlessFailing(async () => {
        await this.#look();
        await this.#flush();
      });
    }
  }

  /** @throws NotFound when it is not kept any more, StorageFailed */
  async wish(): Promise<Wish> {
    const wish = await this.#store.wish(this.#progress.job.head);
    if (wish) return wish;
    throw new NotFound('what was asked for is not kept any more; ask for it again');
  }

  /** What has changed, at once. Never rejects. */
  async write(): Promise<void> {
    await this.#unlessFailing(() => this.#flush());
  }

  /** Whether it is somebody else's. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** The last that is written down here, unless it is somebody else's. Never rejects. @returns whether it could be */
  async settle(): Promise<boolean> {
    const { id, createdAt, state } = this.#progress.job.head;
    return this.#unlessFailing(async () => {
      const head = await this.#store.head(id);
      if (this.#isTaken(head)) {
        // Whoever goes on with it has not heard of that.
        if (state === 'cancelled') await this.#store.requestCancel(id);
        return this.#lose();
      }
      // Meanwhile it may have forgotten what it knew.
      if (!head) this.#markAll();
      await this.#flush();
      await this.#store.putHead({ ...this.#progress.job.head, owner: undefined });
      await this.#store.enter(id, { isRunning: state === 'running', createdAt: Date.parse(createdAt) });
      await this.#store.forgetCancel(id);
    });
  }

  /** What others want of it. */
  async #look(): Promise<void> {
    const { id, createdAt } = this.#progress.job.head;
    const head = await this.#store.head(id);
    if (!head) this.#markAll();
    if (this.#isTaken(head)) return this.#lose();
    if (await this.#store.isCancelRequested(id)) this.#onCancel();
    // Replicas that enter jobs at the same moment may lose each other's.
    const entry = (await this.#store.index()).find((one) => one.id === id);
    if (!entry?.isRunning) await this.#store.enter(id, { isRunning: true, createdAt: Date.parse(createdAt) });
  }

  #isTaken(head: JobHead | undefined): boolean {
    return head?.owner !== undefined && head.owner.instance !== this.#owner.instance;
  }

  #lose(): void {
    this.#isLost = true;
    this.#onLost();
  }

  /** The store has lost what was written down: all of it is written again, but for the wish, which nobody has any more. */
  #markAll(): void {
    this.#findings = undefined;
    this.#progress.markAll();
  }

  /** The head last: whoever finds it finds all that it tells of. */
  async #flush(): Promise<void> {
    if (this.#isLost) return;
    const { head, findings } = this.#progress.job;
    if (findings !== this.#findings) await this.#store.putFindings(head.id, findings);
    this.#findings = findings;
    this.#written = Math.max(this.#written, this.#progress.pieces);
    await this.#progress.eachChanged((piece) => this.#store.putItems(head.id, this.#progress.items, piece));
    await this.#store.dropItems(head.id, this.#progress.pieces, this.#written);
    this.#written = this.#progress.pieces;
    this.#owner = { ...this.#owner, beat: this.#owner.beat + 1 };
    const { isPlanned } = head;
    await this.#store.putHead({ ...this.#progress.job.head, isPlanned, owner: this.#owner });
  }

  /** One after another, so that nothing older replaces what is newer. */
  async #unlessFailing(work: () => Promise<void>): Promise<boolean> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => {});
    try {
      await turn;
      this.#isStoreFailing = false;
      return true;
    } catch (error) {
      if (!this.#isStoreFailing) {
        const { id } = this.#progress.job.head;
        this.#logger.warn('the progress of a job could not be written down', { job: id, error });
      }
      this.#isStoreFailing = true;
      return false;
    }
  }
}
