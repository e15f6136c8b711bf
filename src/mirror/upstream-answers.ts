import type { MetadataRead } from '../cache/metadata-cache.ts';
import { hasCode } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { loggerFor } from '../request-origin.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { notStored, type Wanted } from './not-stored.ts';

/** Said with an answer that upstream could not confirm. */
export interface StaleNote {
  /** Since upstream last confirmed it; 0 when the answer is made of what is stored alone. */
  readonly ageSeconds: number;
  /** Why upstream could not be asked, fit for clients to see. */
  readonly reason: string;
  /** What somebody asks a sealed mirror for, which has nothing of it. */
  readonly missing?: string;
}

/** What upstream said, if anything; `stale` is there to be spread into what is made of it. */
export interface UpstreamAnswer<T> {
  readonly answer?: T;
  readonly stale?: { readonly stale: StaleNote };
  /** Milliseconds since the epoch: until then the answer stays the same, unless something changes here. */
  readonly freshUntil?: number | undefined;
}

/** What a sealed mirror goes by. */
const AS_STORED = { freshUntil: Number.POSITIVE_INFINITY } as const;

/** Asks upstreams, and says when what is stored has to stand in for their answer. */
export class UpstreamAnswers {
  readonly #isSealed: () => boolean;
  readonly #logger: Logger;
  readonly #now: () => number;

  constructor(deps: { isSealed: () => boolean; logger: Logger; now?: (() => number) | undefined }) {
    this.#isSealed = deps.isSealed;
    this.#logger = deps.logger;
    this.#now = deps.now ?? Date.now;
  }

  get isSealed(): boolean {
    return this.#isSealed();
  }

  /** @throws UpstreamUnreachable when Larder is sealed: upstream would have to be asked for this */
  demandOpen(upstream: Upstream, wanted: Wanted): void {
    if (this.#isSealed()) throw notStored(upstream, wanted);
  }

  /**
   * Upstream's answer, or none when it is in trouble, or knows nothing, and what is stored can stand in for it.
   * @param haveStored asked only then, where finding it out takes time
   * @param wanted what it is about, for whoever asks a sealed mirror for what it does not have
   * @throws what `read` throws when nothing can
   */
  async ask<T>(
    upstream: Upstream,
    read: () => Promise<MetadataRead<T>>,
    haveStored: boolean | (() => Promise<boolean>),
    wanted: Wanted,
  ): Promise<UpstreamAnswer<T>> {
    const isThere = async () => (typeof haveStored === 'boolean' ? haveStored : haveStored());
    // Remembered lists name what is not here: a sealed mirror offers only what it can give.
    if (this.#isSealed() && (await isThere())) return AS_STORED;
    try {
      this.demandOpen(upstream, wanted);
      const { value, fetchedAt, stale, freshUntil } = await read();
      this.demandOpen(upstream, wanted);
      if (!stale) return { answer: value, freshUntil };
      const ageSeconds = Math.max(0, Math.round((this.#now() - fetchedAt) / 1000));
      return { answer: value, stale: { stale: { ageSeconds, reason: stale.reason.message } } };
    } catch (error) {
      const isSealed = this.#isSealed();
      if (!(await isThere()) || !(error instanceof Error)) throw isSealed ? notStored(upstream, wanted) : error;
      if (isSealed) return AS_STORED;
      if (hasCode(error, 'NOT_FOUND')) return {};
      loggerFor(upstream.origin, this.#logger).warn('answered from what is stored', {
        upstream: upstream.hostname.toString(),
        error,
      });
      return { stale: { stale: { ageSeconds: 0, reason: error.message } } };
    }
  }
}

/** Where upstream decides who may have what, what is stored stands in for nothing it does not tell this requester. */
export function isForAll({ partition }: Upstream): boolean {
  return partition === undefined;
}
