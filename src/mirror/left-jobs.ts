import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../logger.ts';
import { fetchedFor, type Job, type JobHead, type JobOwner } from './job.ts';
import { seemsGone } from './job-owners.ts';
import { BEAT_MS } from './job-record.ts';
import type { JobStore } from './job-store.ts';

/** Two replicas that want the same job see each other within this time, in milliseconds. */
const CLAIM_MS = 200;

/** How long is waited for a sign of life, in milliseconds. */
export interface Looks {
  readonly everyMs: number;
  /** A replica that shows no life for so long is taken for dead. */
  readonly deadAfterMs: number;
  /** One that seems to be gone from this machine has to be silent for so long: a few beats, for those of a busy one are late. */
  readonly goneAfterMs: number;
}

const LOOKS: Looks = { everyMs: 5_000, deadAfterMs: 15_000, goneAfterMs: 3 * BEAT_MS };

/**
 * Jobs that nobody runs any more: they were handed over, or their replica shows no life. That is seen by their beat
 * alone, which stands still; nothing else tells a replica that is dead from one in another container.
 */
export class LeftJobs {
  readonly #store: JobStore;
  readonly #owner: JobOwner;
  readonly #runsHere: (id: string) => boolean;
  readonly #goOn: (job: Job) => void;
  readonly #looks: Looks;
  readonly #logger: Logger;
  readonly #beats = new Map<string, { readonly beat: string; readonly seenAt: number }>();

  constructor(deps: {
    store: JobStore;
    /** Who goes on with them. */
    owner: JobOwner;
    runsHere: (id: string) => boolean;
    goOn: (job: Job) => void;
    looks?: Partial<Looks> | undefined;
    logger: Logger;
  }) {
    this.#store = deps.store;
    this.#owner = deps.owner;
    this.#runsHere = deps.runsHere;
    this.#goOn = deps.goOn;
    this.#looks = { ...LOOKS, ...deps.looks };
    this.#logger = deps.logger;
  }

  /** Takes them over, now and whenever a replica dies, until `closing` says so. Never rejects. */
  async watch(closing: AbortSignal): Promise<void> {
    while (!closing.aborted) {
      let pause = this.#looks.everyMs;
      try {
        pause = await this.#look(closing);
      } catch (error) {
        // Silence of the store is none of the others.
        this.#beats.clear();
        this.#logger.debug('it could not be looked for jobs that were left behind', { error });
      }
      await delay(pause, undefined, { signal: closing }).catch(() => {});
    }
  }

  /** Resolves to the milliseconds until something may have changed. */
  async #look(closing: AbortSignal): Promise<number> {
    const { everyMs, goneAfterMs } = this.#looks;
    let pause = everyMs;
    for (const { id, isRunning } of await this.#store.index()) {
      if (!isRunning || this.#runsHere(id)) continue;
      const head = await this.#store.head(id);
      if (head?.state !== 'running') continue;
      if (this.#isLeft(head)) await this.#takeOver(head, closing);
      else if (head.owner && seemsGone(head.owner)) pause = Math.min(everyMs, goneAfterMs);
    }
    return pause;
  }

  /** Nobody's, or that of somebody who shows no life. */
  #isLeft({ id, owner }: JobHead): boolean {
    if (!owner) return true;
    const beat = `${owner.instance} ${owner.beat}`;
    const seen = this.#beats.get(id);
    if (seen?.beat !== beat) {
      this.#beats.set(id, { beat, seenAt: performance.now() });
      return false;
    }
    const { deadAfterMs, goneAfterMs } = this.#looks;
    const silence = performance.now() - seen.seenAt;
    return silence >= deadAfterMs || (silence >= goneAfterMs && seemsGone(owner));
  }

  async #takeOver(head: JobHead, closing: AbortSignal): Promise<void> {
    await this.#store.putHead({ ...head, owner: this.#owner });
    await delay(CLAIM_MS, undefined, { signal: closing });
    const job = await this.#store.job(head.id);
    if (job?.head.owner?.instance !== this.#owner.instance) return;
    this.#beats.delete(head.id);
    this.#logger.info('a job that was left behind is gone on with', { job: head.id });
    const { totals, sequence } = job.head;
    this.#goOn({
      head: {
        ...job.head,
        // Outcomes that were told of and not written down had numbers, too.
        sequence: sequence + totals.items + 1,
        bytes: fetchedFor(job.items),
        isPlanned: job.head.isPlanned && job.items.length === totals.items,
      },
      items: job.items,
      findings: job.findings,
    });
  }
}
