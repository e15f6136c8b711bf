import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Cron } from 'croner';
import type { Platform } from '../address/platform.ts';
import type { Logger } from '../logger.ts';
import { metadataKeys } from '../store/keys.ts';
import type { MetadataStore } from '../store/metadata-store.ts';
import type { Wish } from './wanted.ts';
import { MirrorIsSealed, type WarmJobs } from './warm-jobs.ts';

/** Timers cannot wait for longer than 24 days, and clocks are set meanwhile; in milliseconds. */
const MAX_WAIT_MS = 60_000;
/** Replicas that find the same moment come see each other within this time, in milliseconds. */
const CLAIM_MS = 200;
/** How long it is remembered who ran what was due; their clocks differ by less. In milliseconds. */
const CLAIM_KEEP_MS = 24 * 3_600_000;

/** What is warmed again and again. */
export interface Schedule {
  /** Absolute path of a warm list, lock file or configuration. */
  readonly file: string;
  /** Five fields, in the time zone of the process. */
  readonly cron: string;
  readonly platforms: readonly Platform[] | undefined;
}

/** The clock, and how it is waited. */
export interface Clock {
  now(): number;
  /** Resolves after so many milliseconds, or when `signal` says so. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

const SYSTEM_CLOCK: Clock = {
  now: Date.now,
  wait: (ms, signal) => wait(ms, undefined, { signal, ref: false }).catch(() => {}),
};

/**
 * Begins jobs when they are due; on one replica each. The file is read each time. What was due while nobody ran is not
 * made up for, and neither is what was due while the mirror was sealed; what still runs is not begun again.
 */
export class WarmSchedules {
  readonly #schedules: readonly Schedule[];
  readonly #jobs: Pick<WarmJobs, 'create' | 'list'>;
  readonly #store: Pick<MetadataStore, 'get' | 'put'>;
  readonly #client: Wish['client'];
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #instance = randomUUID();
  readonly #closing = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor(deps: {
    schedules: readonly Schedule[];
    jobs: Pick<WarmJobs, 'create' | 'list'>;
    store: Pick<MetadataStore, 'get' | 'put'>;
    /** Whose rules hold for what is in the files. */
    client: Wish['client'];
    logger: Logger;
    clock?: Clock;
  }) {
    this.#schedules = deps.schedules;
    this.#jobs = deps.jobs;
    this.#store = deps.store;
    this.#client = deps.client;
    this.#logger = deps.logger;
    this.#clock = deps.clock ?? SYSTEM_CLOCK;
    // Each schedule listens.
    setMaxListeners(0, this.#closing.signal);
  }

  start(): void {
    const names = distinctNames(this.#schedules);
    this.#running = Promise.all(
      this.#schedules.map((schedule, index) => this.#follow(schedule, names[index] ?? schedule.file)),
    );
  }

  /** Begins nothing any more. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #follow(schedule: Schedule, name: string): Promise<void> {
    const cron = new Cron(schedule.cron, { mode: '5-part', paused: true });
    const { signal } = this.#closing;
    let due = cron.nextRun(new Date(this.#clock.now()));
    while (due && !signal.aborted) {
      const left = due.getTime() - this.#clock.now();
      if (left > 0) {
        await this.#clock.wait(Math.min(left, MAX_WAIT_MS), signal);
        continue;
      }
      await this.#run(schedule, name, due).catch((error: unknown) => {
        const { file } = schedule;
        if (error instanceof MirrorIsSealed) {
          this.#logger.warn('what is scheduled is not warmed, this mirror is sealed', { file });
        } else {
          this.#logger.error('what is scheduled could not be warmed', { file, error });
        }
      });
      due = cron.nextRun(new Date(Math.max(this.#clock.now(), due.getTime())));
    }
  }

  async #run({ file, platforms = [] }: Schedule, name: string, due: Date): Promise<void> {
    if (!(await this.#claims(metadataKeys.scheduled(name, due.toISOString())))) return;
    const by = `schedule:${name}`;
    if ((await this.#jobs.list()).some((job) => job.by === by && job.state === 'running')) {
      this.#logger.warn('what is scheduled is still being warmed, and is not begun again', { file });
      return;
    }
    const text = await readFile(file, 'utf8');
    const wish: Wish = { files: [{ path: path.basename(file), text }], platforms, client: this.#client };
    const { id } = await this.#jobs.create(wish, by);
    this.#logger.info('what is scheduled is being warmed', { file, job: id });
  }

  /** Whether it is ours to run. Where replicas have no store in common, it is everybody's. */
  async #claims(key: string): Promise<boolean> {
    if (await this.#store.get(key)) return false;
    await this.#store.put(key, { value: this.#instance, fetchedAt: Date.now() }, CLAIM_KEEP_MS);
    await wait(CLAIM_MS);
    return (await this.#store.get(key))?.value === this.#instance;
  }
}

/** What they are called where jobs are listed. The same on all replicas, which may keep their files in different places. */
function distinctNames(schedules: readonly Schedule[]): string[] {
  const names = schedules.map(({ file }) => path.basename(file));
  return names.map((name, index) => {
    const earlier = names.slice(0, index).filter((other) => other === name).length;
    return earlier === 0 ? name : `${name}#${earlier + 1}`;
  });
}
