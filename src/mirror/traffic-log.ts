import { z } from 'zod';

/** What has gone through, counted from whenever counting began. */
export interface TrafficTotals {
  /** Of clients: not of operators, people and machines. */
  readonly requests: number;
  /** Look-ups of documents, archives and packages that were answered with what was here. */
  readonly hits: number;
  /** Those for which upstream had to be asked. */
  readonly misses: number;
  /** Those that were answered with what was here although it was too old, because upstream could not be had. */
  readonly stale: number;
  /** Requests answered with a 5xx. */
  readonly failures: number;
  /** To clients, headers included. */
  readonly bytesServed: number;
  /** From upstream, bodies alone. */
  readonly bytesFetched: number;
}

const NAMES = ['requests', 'hits', 'misses', 'stale', 'failures', 'bytesServed', 'bytesFetched'] as const;

export const NO_TRAFFIC: TrafficTotals = {
  requests: 0,
  hits: 0,
  misses: 0,
  stale: 0,
  failures: 0,
  bytesServed: 0,
  bytesFetched: 0,
};

export function sum(one: TrafficTotals, other: TrafficTotals): TrafficTotals {
  return combined((name) => one[name] + other[name]);
}

/** What has come to `before` since. Never negative. */
export function difference(after: TrafficTotals, before: TrafficTotals): TrafficTotals {
  return combined((name) => Math.max(0, after[name] - before[name]));
}

export function isNothing(totals: TrafficTotals): boolean {
  return NAMES.every((name) => totals[name] === 0);
}

/** How finely time is divided, and how many of the divisions are kept. */
export interface Resolution {
  readonly stepMs: number;
  readonly count: number;
}

/** A number of the division, then the totals in the order of `NAMES`. */
const rowsShape = z.array(z.array(z.number().nonnegative()).length(NAMES.length + 1));

/** The latest divisions of time with what went through in each. Those without traffic take up no room. */
export class TrafficLog {
  readonly #resolution: Resolution;
  /** By number of the division since the epoch. */
  readonly #divisions = new Map<number, TrafficTotals>();

  constructor(resolution: Resolution) {
    this.#resolution = resolution;
  }

  /** @param now milliseconds since the epoch */
  add(totals: TrafficTotals, now: number): void {
    const current = this.#divisionAt(now);
    this.#divisions.set(current, sum(this.#divisions.get(current) ?? NO_TRAFFIC, totals));
    for (const division of this.#divisions.keys()) {
      if (!this.#isKept(division, current)) this.#divisions.delete(division);
    }
  }

  addAll(other: TrafficLog, now: number): void {
    const current = this.#divisionAt(now);
    for (const [division, totals] of other.#divisions) {
      if (!this.#isKept(division, current)) continue;
      this.#divisions.set(division, sum(this.#divisions.get(division) ?? NO_TRAFFIC, totals));
    }
  }

  /** The latest divisions, the one of now included, oldest first, those without traffic too. */
  latest(now: number, count = this.#resolution.count): { at: Date; totals: TrafficTotals }[] {
    const current = this.#divisionAt(now);
    return Array.from({ length: count }, (_, index) => {
      const division = current - count + 1 + index;
      return {
        at: new Date(division * this.#resolution.stepMs),
        totals: this.#divisions.get(division) ?? NO_TRAFFIC,
      };
    });
  }

  /** JSON-compatible. */
  encode(): unknown {
    return [...this.#divisions].map(([division, totals]) => [division, ...NAMES.map((name) => totals[name])]);
  }

  /** Of what `encode` made; whatever else it is given is an empty log. */
  static decode(resolution: Resolution, stored: unknown): TrafficLog {
    const log = new TrafficLog(resolution);
    const rows = rowsShape.safeParse(stored).data ?? [];
    for (const [division = 0, ...numbers] of rows.slice(-resolution.count)) {
      log.#divisions.set(
        division,
        combined((name) => numbers[NAMES.indexOf(name)] ?? 0),
      );
    }
    return log;
  }

  #divisionAt(now: number): number {
    return Math.floor(now / this.#resolution.stepMs);
  }

  /** A clock that was put back leaves divisions that are still to come: those are not kept for ever either. */
  #isKept(division: number, current: number): boolean {
    return Math.abs(current - division) < this.#resolution.count;
  }
}

function combined(value: (name: (typeof NAMES)[number]) => number): TrafficTotals {
  return Object.fromEntries(NAMES.map((name) => [name, value(name)])) as unknown as TrafficTotals;
}
