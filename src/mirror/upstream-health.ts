import { failureReason } from '../upstream/failures.ts';
import type { UpstreamCall, UpstreamObserver } from '../upstream/observer.ts';

/** What is known of one configured upstream, as far as this process asked. */
export interface UpstreamReport {
  /** `HOST[:PORT]` */
  readonly hostname: string;
  readonly state: UpstreamState;
  readonly lastSuccessAt?: Date;
  readonly lastFailure?: UpstreamFailure;
}

/** `left alone`: it just failed, or a host of its archives did, and is not asked for some seconds. */
export type UpstreamState = 'ok' | 'failing' | 'left alone' | 'not asked yet';

export interface UpstreamFailure {
  readonly at: Date;
  /** One word, as in the metrics. */
  readonly reason: string;
  /** In plain words; names the host that failed, which may be one that the upstream led to. */
  readonly message: string;
}

/** A host that upstream led to and that failed may never be asked again: that speaks against the upstream for so long. */
const FAILURE_COUNTS_MS = 15 * 60_000;
/** Hosts in trouble that are remembered for one upstream. */
const MAX_HOSTS = 32;

interface Record {
  lastSuccessAt: number | undefined;
  lastFailure: UpstreamFailure | undefined;
  /** Hosts that failed when they were last asked, with the time. */
  readonly failing: Map<string, number>;
}

/** How each configured upstream does, as seen by the requests that were made for its sake. */
export class UpstreamHealth implements Partial<UpstreamObserver> {
  readonly #records: ReadonlyMap<string, Record>;
  readonly #leftAlone: () => readonly string[];
  readonly #now: () => number;

  constructor(deps: {
    /** `HOST[:PORT]` of all configured upstreams. */
    hostnames: readonly string[];
    /** `HOST[:PORT]` of all that are left alone at the moment. */
    leftAlone: () => readonly string[];
    now?: () => number;
  }) {
    this.#records = new Map(
      deps.hostnames.map((name) => [name, { lastSuccessAt: undefined, lastFailure: undefined, failing: new Map() }]),
    );
    this.#leftAlone = deps.leftAlone;
    this.#now = deps.now ?? Date.now;
  }

  ended({ upstream, host }: UpstreamCall, error: unknown): void {
    const record = this.#records.get(String(upstream.hostname));
    const reason = failureReason(error);
    // A token of a client's own that was refused says nothing of the upstream.
    if (!record || (reason === 'refused' && upstream.partition !== undefined)) return;
    const now = this.#now();
    if (reason === undefined) {
      record.lastSuccessAt = now;
      record.failing.delete(host);
      return;
    }
    record.lastFailure = { at: new Date(now), reason, message: (error as Error).message };
    // The newest ones come last.
    record.failing.delete(host);
    record.failing.set(host, now);
    const [oldest] = record.failing.keys();
    if (record.failing.size > MAX_HOSTS && oldest !== undefined) record.failing.delete(oldest);
  }

  /** One for each configured upstream, in the order of the configuration. */
  report(): readonly UpstreamReport[] {
    const leftAlone = new Set(this.#leftAlone());
    return [...this.#records].map(([hostname, record]) => ({
      hostname,
      state: this.#state(hostname, record, leftAlone),
      ...(record.lastSuccessAt !== undefined && { lastSuccessAt: new Date(record.lastSuccessAt) }),
      ...(record.lastFailure && { lastFailure: record.lastFailure }),
    }));
  }

  #state(
    hostname: string,
    { failing, lastSuccessAt, lastFailure }: Record,
    leftAlone: ReadonlySet<string>,
  ): UpstreamState {
    if (lastSuccessAt === undefined && !lastFailure) return 'not asked yet';
    if (leftAlone.has(hostname) || [...failing.keys()].some((host) => leftAlone.has(host))) return 'left alone';
    const now = this.#now();
    const isFailing = [...failing.values()].some((at) => at > (lastSuccessAt ?? 0) || now - at < FAILURE_COUNTS_MS);
    return isFailing ? 'failing' : 'ok';
  }
}
