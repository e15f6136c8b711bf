import type { LeaseNote } from '../store/leases.ts';
import type { Answers } from './questions.ts';

/** Of whom a worker asks for a lease, under a name of its own making. */
export interface LeaseRequest {
  readonly key: string;
  readonly holder: string;
}

/** What is noted under a lease. */
export interface LeaseNotice extends LeaseRequest {
  readonly text: string;
}

/** A token: it is yours. A note: that of whoever has it. */
export type LeaseReply = { readonly token: number } | { readonly heldBy: LeaseNote };

interface Held {
  readonly worker: number;
  readonly holder: string;
  readonly token: number;
  text: string | undefined;
}

/** The leases of all workers of one machine, kept by the process that supervises them. It hears of every death at once. */
export class LeaseDesk {
  readonly #held = new Map<string, Held>();
  /** As the clock says, so that a supervisor that was started anew goes on where its predecessor was. */
  #lastToken = Date.now();

  /** What is answered to the worker. */
  answersFor(worker: number): Answers {
    return {
      acquireLease: (given) => this.#acquire(given as LeaseRequest, worker),
      lookAtLease: (given) => this.#note(given as string),
      noteLease: (given) => {
        const { key, holder, text } = given as LeaseNotice;
        const held = this.#held.get(key);
        if (held?.holder === holder) held.text = text;
      },
      releaseLease: (given) => {
        const { key, holder } = given as LeaseRequest;
        if (this.#held.get(key)?.holder === holder) this.#held.delete(key);
      },
    };
  }

  /** Others may have what the worker held. If it lives, it may take and give back others as before. */
  left(worker: number): void {
    for (const [key, held] of this.#held) if (held.worker === worker) this.#held.delete(key);
  }

  #acquire({ key, holder }: LeaseRequest, worker: number): LeaseReply {
    const heldBy = this.#note(key);
    if (heldBy) return { heldBy };
    this.#lastToken += 1;
    this.#held.set(key, { worker, holder, token: this.#lastToken, text: undefined });
    return { token: this.#lastToken };
  }

  #note(key: string): LeaseNote | undefined {
    const held = this.#held.get(key);
    return held && { token: held.token, text: held.text };
  }
}
