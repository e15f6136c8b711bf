import { LRUCache } from 'lru-cache';
import { isUnreachable, type UnreachableReason, UpstreamUnreachable } from '../errors.ts';

/** State of one origin, for the health page. */
export interface CircuitState {
  readonly origin: string;
  /** `closed`: failing now and then; `open`: left alone; `half-open`: one request is finding out. */
  readonly state: 'closed' | 'open' | 'half-open';
  readonly reason: UnreachableReason;
  /** Milliseconds until it is asked again; 0 unless open. */
  readonly retryAfterMs: number;
  readonly failures: number;
}

/** A single 500 may be one bad page: only this many failed requests in a row speak of the whole host. */
const FAILING_IN_A_ROW = 3;
/** Upstreams name hosts in their answers: they shall not fill our memory with them. */
const MAX_ORIGINS = 1_000;
/** A Retry-After is obeyed between these: 0 would mean hammering, a day would outlast whatever the trouble was. */
const MIN_BUSY_MS = 1_000;
const MAX_BUSY_MS = 60_000;

interface Trouble {
  failures: number;
  /** The last of them. */
  failure: UpstreamUnreachable;
  openUntil: number;
  probing: boolean;
}

/** What a request holds while it is under way. Exactly one of the outcomes is told, then `release`. */
export interface Passage {
  /** The host answered: whatever the answer was, it is well. */
  answered(): void;
  /** The request came to nothing, retries included. */
  failed(error: unknown): void;
  /** Always called. An outcome that was never told (the caller lost interest) changes nothing. */
  release(): void;
}

/**
 * Leaves hosts alone that have just failed, so that a dead registry costs its clients nothing but one try now and then.
 * One circuit an origin. After the pause a single request goes through; the others wait for what it finds.
 */
export class Circuits {
  readonly #now: () => number;
  readonly #openMs: number;
  readonly #troubles = new LRUCache<string, Trouble>({ max: MAX_ORIGINS });

  constructor(deps: { now: () => number; openMs: number }) {
    this.#now = deps.now;
    this.#openMs = deps.openMs;
  }

  /** @throws UpstreamUnreachable while the host is left alone */
  enter(url: URL): Passage {
    const trouble = this.#troubles.get(url.origin);
    if (!trouble || trouble.openUntil === 0) return this.#passage(url, undefined);
    const remainingMs = this.#remainingMs(trouble);
    if (remainingMs > 0 || trouble.probing) {
      // Clients ask twice and show neither answer: whoever asks after them still has to learn why.
      const { reason, detail, hint } = trouble.failure;
      throw new UpstreamUnreachable(url.host, reason, `is left alone for a moment: it ${detail}`, {
        retryAfterMs: Math.max(remainingMs, MIN_BUSY_MS),
        hint,
      });
    }
    trouble.probing = true;
    return this.#passage(url, trouble);
  }

  /** Every host is as good as any other again. */
  forget(): void {
    this.#troubles.clear();
  }

  states(): readonly CircuitState[] {
    return [...this.#troubles].map(([origin, trouble]) => {
      const { failures, failure, openUntil, probing } = trouble;
      const remainingMs = this.#remainingMs(trouble);
      return {
        origin,
        state: openUntil === 0 ? 'closed' : remainingMs > 0 && !probing ? 'open' : 'half-open',
        reason: failure.reason,
        retryAfterMs: remainingMs,
        failures,
      };
    });
  }

  #remainingMs({ openUntil }: Trouble): number {
    const left = Math.max(0, openUntil - this.#now());
    // More than was ever set: the clock was put back.
    return left <= Math.max(this.#openMs, MAX_BUSY_MS) ? left : 0;
  }

  #passage(url: URL, probe: Trouble | undefined): Passage {
    return {
      answered: () => void this.#troubles.delete(url.origin),
      failed: (error) => {
        // Absent, refused or nonsense: but it answered.
        if (isUnreachable(error)) this.#record(url, error);
        else this.#troubles.delete(url.origin);
      },
      release: () => {
        if (probe) probe.probing = false;
      },
    };
  }

  #record(url: URL, failure: UpstreamUnreachable): void {
    const { reason, retryAfterMs } = failure;
    const known = this.#troubles.get(url.origin);
    const failures = (known?.failures ?? 0) + 1;
    let openMs = this.#openMs;
    if (reason === 'busy') openMs = Math.min(Math.max(retryAfterMs ?? openMs, MIN_BUSY_MS), MAX_BUSY_MS);
    if (reason === 'failing' && failures < FAILING_IN_A_ROW) openMs = 0;
    this.#troubles.set(url.origin, {
      failures,
      failure,
      openUntil: openMs === 0 ? 0 : this.#now() + openMs,
      probing: false,
    });
  }
}
