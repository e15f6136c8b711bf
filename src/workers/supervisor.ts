import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../logger.ts';
import { settledWithin } from '../time-limit.ts';
import { GatheredMetrics, type MetricValues } from './gathered-metrics.ts';
import { LeaseDesk } from './lease-desk.ts';
import { Questions, type Wire } from './questions.ts';
import type { WorkerPlace } from './worker-line.ts';

/** How a worker ended; `code` is `null` when a signal ended it. */
export interface WorkerEnd {
  readonly code: number | null;
  readonly signal: string | null;
}

/** A process that was just started to be a worker. */
export interface WorkerProcess {
  readonly id: number;
  readonly pid: number | undefined;
  readonly wire: Wire;
  readonly ended: Promise<WorkerEnd>;
  kill(signal: NodeJS.Signals): void;
}

/** Milliseconds. */
export interface SupervisorTimes {
  /** Before a worker that died is started again; twice as long each time that it dies soon. */
  readonly pauseMs: number;
  readonly longestPauseMs: number;
  /** Whoever lived for so long did not die soon. */
  readonly steadyMs: number;
  /** Workers are asked so often whether they are there, and killed when they do not say so in time. */
  readonly lookMs: number;
  readonly silenceMs: number;
  /** Others may have what somebody holds who has not said so for that long. */
  readonly holdMs: number;
}

const TIMES: SupervisorTimes = {
  pauseMs: 500,
  longestPauseMs: 30_000,
  steadyMs: 60_000,
  lookMs: 5_000,
  silenceMs: 30_000,
  // As long as a lease of Redis stays with a replica that is not heard of.
  holdMs: 10_000,
};

/** For its metrics, in milliseconds. */
const METRICS_MS = 1_000;
/** For a worker to take up news, in milliseconds. */
const NEWS_MS = 20_000;
/** Of a worker that a signal ended. */
const KILLED = 1;

interface Live {
  readonly process: WorkerProcess;
  readonly questions: Questions;
  readonly ready: Promise<void>;
  isReady: boolean;
}

/**
 * Starts workers and starts those again that die, until it is told to end. It serves nobody itself; what workers of one
 * machine have to agree on goes through it: leases, metrics, news.
 */
export class Supervisor {
  readonly #count: number;
  readonly #fork: () => WorkerProcess;
  readonly #logger: Logger;
  readonly #times: SupervisorTimes;
  readonly #desk = new LeaseDesk();
  readonly #metrics = new GatheredMetrics();
  readonly #live = new Map<number, Live>();
  readonly #ending = new AbortController();
  #hasBegun = false;
  /** Settled once the worker that was last started alone listens, or has ended. */
  #alone: Promise<unknown> = Promise.resolve();
  #worst = 0;

  constructor(deps: { count: number; fork: () => WorkerProcess; logger: Logger; times?: Partial<SupervisorTimes> }) {
    this.#count = deps.count;
    this.#fork = deps.fork;
    this.#logger = deps.logger;
    this.#times = { ...TIMES, ...deps.times };
  }

  /**
   * The first worker is alone until it listens: it makes what all of them share, and tells what keeps it from starting.
   * @returns the exit code once all have ended: the worst of theirs
   */
  async run(): Promise<number> {
    const first = this.#start();
    const failed = await Promise.race([first.ready, first.process.ended]);
    if (failed) return this.#ending.signal.aborted ? this.#worst : (failed.code ?? KILLED);
    const others = Array.from({ length: this.#count - 1 }, () => this.#keep(this.#start()));
    await Promise.all([this.#keep(first), ...others]);
    return this.#worst;
  }

  /** Workers that listen take up renewed certificates, and begin their audit log anew. */
  reload(): void {
    // Whoever does not listen yet would die of it, and has just read them.
    for (const { process, isReady } of this.#live.values()) if (isReady) process.kill('SIGHUP');
  }

  /** Workers finish what is under way; none is started again. */
  end(): void {
    this.#ending.abort();
    for (const { process } of this.#live.values()) process.kill('SIGTERM');
  }

  /** Nothing is waited for any more. */
  kill(): void {
    this.#ending.abort();
    for (const { process } of this.#live.values()) process.kill('SIGKILL');
  }

  async #keep(started: Live): Promise<void> {
    const { pauseMs, longestPauseMs, steadyMs } = this.#times;
    const { signal: ending } = this.#ending;
    let pause = pauseMs;
    for (let live = started; ; live = this.#start()) {
      const since = performance.now();
      const end = await live.process.ended;
      if (ending.aborted) return;
      if (performance.now() - since > steadyMs) pause = pauseMs;
      const { id: worker, pid } = live.process;
      this.#logger.error('a worker has ended, and is started again', { worker, pid, ...end, afterMs: pause });
      await delay(pause, undefined, { signal: ending }).catch(() => {});
      // When all have died, it may have been of what they share: one looks after that before the others come.
      for (let alone: Promise<unknown> | undefined; alone !== this.#alone; await alone) alone = this.#alone;
      if (ending.aborted) return;
      pause = Math.min(2 * pause, longestPauseMs);
    }
  }

  #start(): Live {
    const process = this.#fork();
    const place: WorkerPlace = { isFirst: !this.#hasBegun, isAlone: this.#live.size === 0 };
    this.#hasBegun = true;
    let becomeReady = () => {};
    const ready = new Promise<void>((resolve) => {
      becomeReady = resolve;
    });
    const questions = new Questions({
      wire: process.wire,
      answers: {
        ...this.#desk.answersFor(process.id),
        place: () => place,
        ready: () => {
          live.isReady = true;
          becomeReady();
        },
        allMetrics: () => this.#allMetrics(),
        askOthers: (news) => this.#askOthers(process.id, news),
      },
    });
    const live: Live = { process, questions, ready, isReady: false };
    this.#live.set(process.id, live);
    void process.ended.then((end) => this.#left(live, end));
    if (place.isAlone) this.#alone = Promise.race([ready, process.ended]);
    void ready.then(() => this.#lookAfter(live));
    return live;
  }

  async #left({ process, isReady }: Live, { code, signal }: WorkerEnd): Promise<void> {
    this.#live.delete(process.id);
    this.#desk.left(process.id);
    // Whoever was told to end before it could heed it has nothing to finish.
    const isInnocent = !isReady && signal === 'SIGTERM';
    if (this.#ending.signal.aborted && !isInnocent) this.#worst = Math.max(this.#worst, code ?? KILLED);
    await this.#metrics.left(process.id).catch((error: unknown) => {
      this.#logger.warn('what a worker had counted is lost', { worker: process.id, error });
    });
  }

  /** One that hangs would keep its leases, and its clients waiting. One that comes to itself in time goes on without them. */
  async #lookAfter(live: Live): Promise<void> {
    const { lookMs, silenceMs, holdMs } = this.#times;
    const { id: worker, pid } = live.process;
    while (this.#live.has(worker)) {
      await delay(lookMs, undefined, { ref: false });
      const answer = live.questions.ask('areYouThere', undefined, silenceMs).catch(() => false);
      if ((await settledWithin(answer, holdMs)) === undefined && this.#live.has(worker)) {
        this.#logger.warn('a worker does not answer: others may fetch what it was fetching', { worker, pid });
        this.#desk.left(worker);
      }
      const isThere = await answer;
      if (isThere || !this.#live.has(worker)) continue;
      this.#logger.error('a worker does not answer, and is killed', { worker, pid, silentForMs: silenceMs });
      live.process.kill('SIGKILL');
      return;
    }
  }

  #allMetrics(): Promise<string> {
    const listening = [...this.#live.values()].filter(({ isReady }) => isReady);
    return this.#metrics.text(
      listening.map(({ process, questions }) => ({
        id: process.id,
        metrics: async () => (await questions.ask('metrics', undefined, METRICS_MS)) as MetricValues,
      })),
    );
  }

  async #askOthers(worker: number, news: unknown): Promise<unknown[]> {
    const others = [...this.#live.values()].filter(({ process, isReady }) => isReady && process.id !== worker);
    const answers = await Promise.all(
      others.map(({ questions }) => questions.ask('news', news, NEWS_MS).catch(() => undefined)),
    );
    return answers.filter((answer) => answer !== undefined);
  }
}
