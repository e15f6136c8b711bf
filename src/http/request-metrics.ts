import { Counter, Histogram, type Registry } from 'prom-client';
import { LookUps } from '../cache/look-ups.ts';

/** What paths begin with, or are. Whatever matches none of it is `other`. */
const DOORS: readonly (readonly [door: string, prefixes: readonly string[], paths: readonly string[]])[] = [
  ['providers', ['/providers/'], []],
  ['registry', ['/registry/'], ['/.well-known/terraform.json']],
  ['get', ['/get/'], []],
  ['admin', ['/admin/'], []],
  ['ui', ['/ui/'], ['/ui']],
  ['health', [], ['/healthz', '/readyz', '/metrics']],
  ['page', [], ['/', '/style.css', '/ca.pem']],
];
const OTHER = 'other';

/** The doors of those whom all this is for; the others are for operators, people and machines. */
const CLIENT_DOORS: readonly string[] = ['providers', 'registry', 'get'];

/** Seconds. Clients give up on lists after 10 s; archives take as long as they take. */
const BUCKETS = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 8, 10, 30, 120];

/** By the outcome of the answer. */
const AUTH_FAILURES: Readonly<Record<string, string>> = {
  UNAUTHENTICATED: 'unauthenticated',
  TOO_MANY_ATTEMPTS: 'too_many_attempts',
  FORBIDDEN: 'forbidden',
  LINK_EXPIRED: 'link_expired',
  LINK_NOT_VALID: 'link_not_valid',
};

/** Outcomes are words of our own, a few dozen at most; beyond this, something is wrong with that. */
const MAX_OUTCOMES = 64;

/** A request whose answer is over. */
export interface FinishedRequest {
  /** Of the request target, without its query. */
  readonly path: string;
  /** `undefined` when there was no answer. */
  readonly status: number | undefined;
  readonly outcome: string | undefined;
  /** What went over the connection. */
  readonly bytes: number;
  readonly seconds: number;
}

/** What clients asked for and got, since the start. */
export interface ClientTraffic {
  readonly requests: number;
  /** Answers with a 5xx. */
  readonly failures: number;
  /** Headers included. */
  readonly bytes: number;
}

interface DoorMetrics {
  readonly isForClients: boolean;
  readonly outcomes: Map<string, Tally>;
  readonly bytes: Tally;
  readonly seconds: { observe(value: number): void };
}

/** What has come together since it was last handed to its counter: a plain addition is all that a request pays. */
class Tally {
  readonly #counter: { inc(value: number): void };
  #pending = 0;
  #settled = 0;

  constructor(counter: { inc(value: number): void }) {
    this.#counter = counter;
  }

  /** All that ever came together. */
  get total(): number {
    return this.#settled + this.#pending;
  }

  add(value: number): void {
    this.#pending += value;
  }

  settle(): void {
    if (this.#pending > 0) this.#counter.inc(this.#pending);
    this.#settled += this.#pending;
    this.#pending = 0;
  }
}

/** Counts requests. Labels are resolved once each, and counters brought up to date when they are read. */
export class RequestMetrics {
  /** Documents that were answered again as they were put together a moment ago. */
  readonly ready = new LookUps();
  readonly #requests: Counter<'door' | 'outcome'>;
  readonly #doors: ReadonlyMap<string, DoorMetrics>;
  readonly #authFailures: ReadonlyMap<string, { inc(): void }>;
  readonly #stale: Counter;
  #clientFailures = 0;

  /** @param registry where nobody else has registered the same */
  constructor(registry: Registry) {
    const registers = [registry];
    this.#requests = new Counter({
      name: 'larder_requests_total',
      help: 'Requests whose answer is over, by door and by what became of them.',
      labelNames: ['door', 'outcome'],
      registers,
      collect: () => {
        for (const { outcomes } of this.#doors.values()) for (const tally of outcomes.values()) tally.settle();
      },
    });
    const bytes = new Counter({
      name: 'larder_response_bytes_total',
      help: 'Bytes sent, headers included, by door.',
      labelNames: ['door'],
      registers,
      collect: () => {
        for (const { bytes: tally } of this.#doors.values()) tally.settle();
      },
    });
    const seconds = new Histogram({
      name: 'larder_request_seconds',
      help: 'From the beginning of a request to the end of its answer, by door.',
      labelNames: ['door'],
      buckets: BUCKETS,
      registers,
    });
    const authFailures = new Counter({
      name: 'larder_auth_failures_total',
      help: 'Requests refused because of their token or link, by kind.',
      labelNames: ['kind'],
      registers,
    });
    this.#stale = new Counter({
      name: 'larder_stale_answers_total',
      help: 'Answers that upstream could not confirm.',
      registers,
    });
    this.#doors = new Map(
      [...DOORS.map(([door]) => door), OTHER].map((door) => [
        door,
        {
          isForClients: CLIENT_DOORS.includes(door),
          outcomes: new Map(),
          bytes: new Tally(bytes.labels(door)),
          seconds: seconds.labels(door),
        },
      ]),
    );
    this.#authFailures = new Map(
      Object.entries(AUTH_FAILURES).map(([code, kind]) => [code, authFailures.labels(kind)]),
    );
    // So that they are there before the first of them.
    for (const kind of Object.values(AUTH_FAILURES)) authFailures.inc({ kind }, 0);
  }

  count({ path, status, outcome = plainOutcome(status), bytes, seconds }: FinishedRequest): void {
    const door = doorOf(path);
    const metrics = this.#doors.get(door);
    if (!metrics) return;
    this.#outcome(door, metrics, outcome).add(1);
    metrics.bytes.add(bytes);
    metrics.seconds.observe(seconds);
    if (outcome === 'stale') this.#stale.inc();
    if (metrics.isForClients && (status ?? 0) >= 500) this.#clientFailures += 1;
    this.#authFailures.get(outcome)?.inc();
  }

  get clientTraffic(): ClientTraffic {
    const doors = [...this.#doors.values()].filter(({ isForClients }) => isForClients);
    const totals = (tallies: Iterable<Tally>) => [...tallies].reduce((sum, { total }) => sum + total, 0);
    return {
      failures: this.#clientFailures,
      requests: totals(doors.flatMap(({ outcomes }) => [...outcomes.values()])),
      bytes: totals(doors.map(({ bytes }) => bytes)),
    };
  }

  #outcome(door: string, { outcomes }: DoorMetrics, outcome: string): Tally {
    const name = outcomes.size < MAX_OUTCOMES || outcomes.has(outcome) ? outcome : OTHER;
    let tally = outcomes.get(name);
    if (!tally) {
      tally = new Tally(this.#requests.labels(door, name.toLowerCase()));
      outcomes.set(name, tally);
    }
    return tally;
  }
}

function doorOf(path: string): string {
  for (const [door, prefixes, paths] of DOORS) {
    if (prefixes.some((prefix) => path.startsWith(prefix)) || paths.includes(path)) return door;
  }
  return OTHER;
}

function plainOutcome(status: number | undefined): string {
  if (status === undefined) return 'aborted';
  if (status === 304) return 'not-modified';
  return status < 400 ? 'ok' : 'error';
}
