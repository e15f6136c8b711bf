/** One thing that is measured. */
export interface Metric {
  readonly name: string;
  readonly unit: string;
  readonly better: 'more' | 'less';
}

/** A value for each metric, by its name. */
export type Measurement = Readonly<Record<string, number>>;

export interface Contender {
  readonly name: string;
  /** One round. What has to be got ready for it, and its clean-up, belong inside but not into the values. */
  measure(): Promise<Measurement>;
}

/** Larder, and what it is compared with (where there is anything). */
export interface Comparison {
  readonly workload: string;
  readonly metrics: readonly Metric[];
  readonly larder: Contender;
  readonly reference?: Contender;
}

export interface Samples {
  readonly name: string;
  readonly samples: readonly number[];
  readonly median: number;
  /** (largest − smallest) / median: what was noise on the machine, mostly. */
  readonly spread: number;
}

export interface Result extends Metric {
  readonly workload: string;
  readonly larder: Samples;
  readonly reference?: Samples;
  /** Larder to reference: the median of the rounds' ratios, each of two measurements made one after the other. */
  readonly ratio?: number;
}

/** Measures both in turn, `rounds` times, after one round of each that does not count. */
export async function compare(comparison: Comparison, rounds: number): Promise<Result[]> {
  const { workload, metrics, larder, reference } = comparison;
  const contenders = reference ? [larder, reference] : [larder];
  const measured = new Map(contenders.map((contender) => [contender, [] as Measurement[]]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const contender of contenders) {
      const measurement = await contender.measure();
      if (round > 0) measured.get(contender)?.push(measurement);
    }
  }
  return metrics.map((metric) => {
    const samplesOf = (contender: Contender): Samples => {
      const samples = (measured.get(contender) ?? []).map((measurement) => measurement[metric.name] ?? Number.NaN);
      const middle = median(samples);
      return {
        name: contender.name,
        samples,
        median: middle,
        spread: (Math.max(...samples) - Math.min(...samples)) / middle,
      };
    };
    const ours = samplesOf(larder);
    if (!reference) return { workload, ...metric, larder: ours };
    const theirs = samplesOf(reference);
    const ratios = ours.samples.map((sample, round) => sample / (theirs.samples[round] ?? Number.NaN));
    return { workload, ...metric, larder: ours, reference: theirs, ratio: median(ratios) };
  });
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}
