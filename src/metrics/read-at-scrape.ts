import { type Aggregator, Counter, Gauge, type Registry } from 'prom-client';

/** One series: its labels, by name, and its value. */
export type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

/** A metric whose values rest elsewhere and are looked up when somebody asks: counting them costs whoever counts nothing more. */
export interface Looked {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
  /** What several workers of one machine have together; unless given, the sum. */
  readonly together?: Aggregator;
  /** A plain number where there are no labels. */
  readonly read: () => number | Iterable<Sample> | Promise<number | Iterable<Sample>>;
}

/** What was read before and is not any more is gone. */
export function gaugeOf(registry: Registry, { name, help, labels = [], together = 'sum', read }: Looked): void {
  new Gauge({
    name,
    help,
    labelNames: labels,
    aggregator: together,
    registers: [registry],
    async collect() {
      const samples = samplesOf(await read());
      this.reset();
      for (const [of, value] of samples) this.set(of, value);
    },
  });
}

/** Values only grow, and begin with the process. */
export function counterOf(registry: Registry, { name, help, labels = [], read }: Looked): void {
  new Counter({
    name,
    help,
    labelNames: labels,
    registers: [registry],
    async collect() {
      const samples = samplesOf(await read());
      this.reset();
      for (const [of, value] of samples) this.inc(of, value);
    },
  });
}

function samplesOf(read: number | Iterable<Sample>): Iterable<Sample> {
  return typeof read === 'number' ? [[{}, read]] : read;
}
