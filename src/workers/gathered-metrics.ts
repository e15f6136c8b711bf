import pLimit from 'p-limit';
import { AggregatorRegistry, type Registry } from 'prom-client';

/** What one worker counts and measures: metrics with their values. */
export type MetricValues = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** Somebody whose metrics can be had. */
export interface Measured {
  readonly id: number;
  metrics(): Promise<MetricValues>;
}

/**
 * The metrics of all workers as one: counters are added up, and so are gauges unless they say otherwise (their
 * `aggregator`). What workers had counted that are dead by now stays in the sums: counters never fall.
 */
export class GatheredMetrics {
  /** What each of them said last, for when it does not answer. */
  readonly #last = new Map<number, MetricValues>();
  /** What dead ones had counted. */
  #left: MetricValues = [];
  /** Several may die at once, and each adds to what those before it left. */
  readonly #inTurn = pLimit(1);

  /** In the text format of Prometheus. Never rejects. */
  async text(workers: readonly Measured[]): Promise<string> {
    await Promise.all(
      workers.map(async (worker) => {
        const values = await worker.metrics().catch(() => undefined);
        if (values) this.#last.set(worker.id, values);
      }),
    );
    return merged([...this.#last.values(), this.#left]).metrics();
  }

  /** The worker is dead. */
  left(id: number): Promise<void> {
    return this.#inTurn(async () => {
      const last = this.#last.get(id) ?? [];
      const counted = last.filter(({ type }) => COUNTED.has(String(type)));
      try {
        this.#left = await merged([this.#left, counted]).getMetricsAsJSON();
      } finally {
        // At once with the above: at no moment is it missing from the sums, or in them twice.
        this.#last.delete(id);
      }
    });
  }
}

const COUNTED: ReadonlySet<string> = new Set(['counter', 'histogram']);

function merged(all: readonly MetricValues[]): Registry {
  return AggregatorRegistry.aggregate([...all]);
}
