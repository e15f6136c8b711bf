import type { Leases } from '../store/leases.ts';
import type { MetricValues } from './gathered-metrics.ts';
import { Questions, type Wire } from './questions.ts';
import { WorkerLeases } from './worker-leases.ts';

/** For the place of a worker, and for word that it listens, in milliseconds. A machine that starts is busy. */
const START_MS = 30_000;
/** For the metrics of all workers, in milliseconds. Those that are late count by what they said last. */
const METRICS_MS = 5_000;
/** For the others to take up news, in milliseconds: sealing waits for what is under way. */
const NEWS_MS = 20_000;

/** Where a worker stands among the others. */
export interface WorkerPlace {
  /** The first that this supervisor started. */
  readonly isFirst: boolean;
  /** No other worker is running. */
  readonly isAlone: boolean;
}

/** What one worker asks the others, or tells them. */
export interface News {
  readonly topic: string;
  readonly about: unknown;
}

/** Metrics of one process. */
export interface OwnMetrics {
  readonly contentType: string;
  values(): Promise<MetricValues>;
  text(): Promise<string>;
}

/** The line of a worker to the process that supervises it, and through it to the other workers of the machine. */
export class WorkerLine {
  readonly leases: Leases;
  readonly #supervisor: Questions;
  readonly #heard = new Map<string, (about: unknown) => unknown>();
  #metrics: OwnMetrics | undefined;

  constructor(deps: { wire: Wire }) {
    this.#supervisor = new Questions({
      wire: deps.wire,
      answers: {
        areYouThere: () => true,
        metrics: () => this.#metrics?.values() ?? [],
        news: (given) => {
          const { topic, about } = given as News;
          return this.#heard.get(topic)?.(about);
        },
      },
    });
    this.leases = new WorkerLeases({ supervisor: this.#supervisor });
  }

  async place(): Promise<WorkerPlace> {
    return (await this.#supervisor.ask('place', undefined, START_MS)) as WorkerPlace;
  }

  /** Whoever comes now is served, and signals are heeded. */
  async ready(): Promise<void> {
    await this.#supervisor.ask('ready', undefined, START_MS);
  }

  /** Those of all workers together, where one's own are asked for. */
  gathering(metrics: OwnMetrics): { readonly contentType: string; text(): Promise<string> } {
    this.#metrics = metrics;
    const { contentType } = metrics;
    const all = async () => String(await this.#supervisor.ask('allMetrics', undefined, METRICS_MS));
    // Its own are better than none.
    return { contentType, text: () => all().catch(() => metrics.text()) };
  }

  /**
   * What the others answer, each of them once it has done whatever it does about it; those that do not answer in time, or
   * fail, are left out. Never rejects.
   */
  async askOthers(topic: string, about?: unknown): Promise<readonly unknown[]> {
    const news: News = { topic, about };
    return (await this.#supervisor.ask('askOthers', news, NEWS_MS).catch(() => [])) as unknown[];
  }

  /** What is answered, and done, when one of the others asks. */
  hear(topic: string, take: (about: unknown) => unknown): void {
    this.#heard.set(topic, take);
  }
}
