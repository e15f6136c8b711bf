import { Counter, Histogram, type Registry } from 'prom-client';
import { STORE_OPERATIONS, type StoreOperation } from '../store/measured-metadata-store.ts';
import type { MetadataStore } from '../store/metadata-store.ts';
import { gaugeOf } from './read-at-scrape.ts';

/** Seconds. Redis on the same network answers within a millisecond, and is given up after a quarter of a second. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.01, 0.05, 0.1, 0.25, 0.5];

/** How the metadata store does: Redis, or the embedded one. */
export class StoreMetrics {
  readonly #registry: Registry;
  readonly #failures: ReadonlyMap<StoreOperation, { inc(): void }>;
  readonly #seconds: ReadonlyMap<StoreOperation, { observe(value: number): void }>;

  /** @param registry where nobody else has registered the same */
  constructor(registry: Registry) {
    this.#registry = registry;
    const failures = new Counter({
      name: 'larder_metadata_store_failures_total',
      help: 'Operations of Redis or the embedded metadata store that failed.',
      labelNames: ['operation'],
      registers: [registry],
    });
    const seconds = new Histogram({
      name: 'larder_metadata_store_seconds',
      help: 'What operations of Redis or the embedded metadata store took, failed ones included.',
      labelNames: ['operation'],
      buckets: BUCKETS,
      registers: [registry],
    });
    this.#failures = byOperation((operation) => failures.labels({ operation }));
    this.#seconds = byOperation((operation) => seconds.labels({ operation }));
    // So that they are there before the first of them.
    for (const operation of STORE_OPERATIONS) failures.inc({ operation }, 0);
  }

  /** An operation is over. */
  readonly count = (operation: StoreOperation, seconds: number, failed: boolean): void => {
    this.#seconds.get(operation)?.observe(seconds);
    if (failed) this.#failures.get(operation)?.inc();
  };

  /** Called once. Each look asks the store whether it answers. */
  observe(store: Pick<MetadataStore, 'check'>, kind: 'redis' | 'embedded'): void {
    gaugeOf(this.#registry, {
      name: 'larder_metadata_store_up',
      help: 'Whether the metadata store answers now; the kind is redis or embedded.',
      labels: ['kind'],
      together: 'min',
      read: async () => [[{ kind }, await store.check().then(isUp, isDown)]],
    });
  }
}

const isUp = () => 1;
const isDown = () => 0;

function byOperation<T>(of: (operation: StoreOperation) => T): ReadonlyMap<StoreOperation, T> {
  return new Map(STORE_OPERATIONS.map((operation) => [operation, of(operation)]));
}
