import { settledWithin } from '../time-limit.ts';

/** For one command, in milliseconds. Redis answers in well under a millisecond, or it is in trouble. */
export const REDIS_TIME_LIMIT_MS = 250;
/** How often it is tried whether trouble has passed, in milliseconds. */
const PROBE_MS = 500;
/** After a command that took too long: it may have been us who were busy. */
const FIRST_PROBE_MS = 20;

/** What Redis answers to a command that it understood and will not carry out. `ERR` and `WRONGTYPE` are about the command. */
const REFUSALS =
  /^(OOM|READONLY|NOPERM|NOAUTH|WRONGPASS|MISCONF|NOREPLICAS|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY|UNKILLABLE)\b/;

/** Redis cannot be used now. `code` says why, in one word that is fit for strangers. */
export class RedisTrouble extends Error {
  readonly code: string;

  constructor(code: string, cause: unknown) {
    super(
      code === 'TIMEOUT' ? `redis has not answered within ${REDIS_TIME_LIMIT_MS} ms` : `redis is in trouble: ${code}`,
    );
    this.cause = cause;
    this.code = code;
  }
}

/** It carries out what it is asked; it answers, and refuses; it does not answer. */
export type CircuitState = 'well' | 'refusing' | 'away';

/**
 * Keeps requests from waiting for one part of Redis. The first that gets no answer in time costs its time limit; from
 * then on all fail at once, and whether Redis is back is tried in the background, so that nobody ever waits for that.
 *
 * While Redis refuses (it is full, a replica, or does not let us) it still answers at once: it goes on being asked, as
 * some of it may work.
 */
export class RedisCircuit {
  readonly #probe: () => Promise<unknown>;
  readonly #onTrouble: (state: 'refusing' | 'away', reason: RedisTrouble) => void;
  readonly #onWell: () => void;
  #state: CircuitState = 'well';
  #reason: RedisTrouble | undefined;
  /** Of a short hiccup nobody is told. */
  #isTold = false;
  #timer: NodeJS.Timeout | undefined;
  #isProbing = false;
  #isClosed = false;

  /** @param deps.probe rejects as long as there is trouble; its time is limited here */
  constructor(deps: {
    probe: () => Promise<unknown>;
    onTrouble: (state: 'refusing' | 'away', reason: RedisTrouble) => void;
    onWell: () => void;
  }) {
    this.#probe = deps.probe;
    this.#onTrouble = deps.onTrouble;
    this.#onWell = deps.onWell;
  }

  /** `undefined` when all is well. */
  get trouble(): RedisTrouble | undefined {
    return this.#state === 'well' ? undefined : this.#reason;
  }

  /** @throws RedisTrouble without an answer, or at once; Redis's own error where it answers one */
  async run<T>(command: () => Promise<T>): Promise<T> {
    if (this.#state === 'away' && this.#reason) throw this.#reason;
    try {
      return await limited(command);
    } catch (error) {
      this.#note(error);
      throw error;
    }
  }

  /** What is known not to answer is not asked again; anything else is. @throws RedisTrouble */
  async test(): Promise<void> {
    if (this.#state !== 'away') await this.#try();
    if (this.trouble) throw this.trouble;
  }

  /** The connection is gone: whoever asks fails at once. */
  lost(error: unknown): void {
    this.#enter('away', asTrouble(error), { tell: true });
  }

  /** Something has changed for the better: it is tried now. */
  retry(): void {
    if (this.#state !== 'well') this.#schedule(0);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #note(error: unknown): void {
    if (isRefusal(error)) this.#enter('refusing', asTrouble(error), { tell: true });
    else if (!isReply(error)) this.#enter('away', asTrouble(error), { tell: !isTimeout(error) });
  }

  #enter(state: 'refusing' | 'away', reason: RedisTrouble, { tell }: { tell: boolean }): void {
    if (this.#isClosed) return;
    this.#state = state;
    this.#reason = reason;
    if (tell && !this.#isTold) {
      this.#isTold = true;
      this.#onTrouble(state, reason);
    }
    if (!this.#timer && !this.#isProbing) this.#schedule(this.#isTold ? PROBE_MS : FIRST_PROBE_MS);
  }

  #schedule(delayMs: number): void {
    if (this.#isClosed || this.#isProbing) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#try(), delayMs).unref();
  }

  async #try(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isProbing = true;
    let failure: unknown;
    try {
      await limited(this.#probe);
    } catch (error) {
      failure = error;
    } finally {
      this.#isProbing = false;
    }
    if (failure === undefined) this.#mend();
    else if (isRefusal(failure)) this.#enter('refusing', asTrouble(failure), { tell: true });
    else this.#enter('away', asTrouble(failure), { tell: true });
  }

  #mend(): void {
    this.#state = 'well';
    this.#reason = undefined;
    if (this.#isTold) this.#onWell();
    this.#isTold = false;
  }
}

async function limited<T>(command: () => Promise<T>): Promise<T> {
  const answer = command().then((value) => ({ value }));
  const answered = await settledWithin(answer, REDIS_TIME_LIMIT_MS);
  if (!answered) throw new RedisTrouble('TIMEOUT', undefined);
  return answered.value;
}

function isTimeout(error: unknown): boolean {
  return error instanceof RedisTrouble && error.code === 'TIMEOUT';
}

function isRefusal(error: unknown): boolean {
  return error instanceof Error && REFUSALS.test(error.message);
}

/** Errors that Redis answers begin with a word in capitals. */
function isReply(error: unknown): boolean {
  return error instanceof Error && /^[A-Z]{2,} /.test(error.message);
}

function asTrouble(error: unknown): RedisTrouble {
  if (error instanceof RedisTrouble) return error;
  const { code, message = '' } = (error ?? {}) as { code?: unknown; message?: string };
  const [, refusal] = REFUSALS.exec(message) ?? [];
  return new RedisTrouble(refusal ?? (typeof code === 'string' ? code : 'NO_CONNECTION'), error);
}
