import { randomUUID } from 'node:crypto';
import { StorageFailed } from '../errors.ts';
import type { HeldElsewhere, Lease, LeaseNote, Leases } from '../store/leases.ts';
import type { LeaseNotice, LeaseReply, LeaseRequest } from './lease-desk.ts';
import type { Questions } from './questions.ts';

/** The supervisor does little else than answer: it is in trouble when that takes longer, in milliseconds. */
const TIME_LIMIT_MS = 1_000;

/** Leases that the workers of one machine share, through the process that supervises them. */
export class WorkerLeases implements Leases {
  readonly #supervisor: Pick<Questions, 'ask'>;
  readonly #open = new Set<WorkerLease>();
  #unshared = 0;

  constructor(deps: { supervisor: Pick<Questions, 'ask'> }) {
    this.#supervisor = deps.supervisor;
  }

  get unshared(): number {
    return this.#unshared;
  }

  async acquire(key: string): Promise<Lease | HeldElsewhere> {
    const mine: LeaseRequest = { key, holder: randomUUID() };
    let token = 0;
    try {
      const reply = (await this.#ask('acquireLease', mine)) as LeaseReply;
      if ('heldBy' in reply) return reply;
      token = reply.token;
    } catch {
      this.#unshared += 1;
    }
    const lease = new WorkerLease({
      token,
      note: (text) => this.#tell('noteLease', { ...mine, text } satisfies LeaseNotice),
      // Also one that was given too late.
      release: () => this.#tell('releaseLease', mine),
      onEnd: () => void this.#open.delete(lease),
    });
    this.#open.add(lease);
    return lease;
  }

  async look(key: string): Promise<LeaseNote | undefined> {
    try {
      return (await this.#ask('lookAtLease', key)) as LeaseNote | undefined;
    } catch (error) {
      throw new StorageFailed('asking the supervisor who fetches it', error);
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((lease) => lease.release()));
  }

  #ask(question: string, given: unknown): Promise<unknown> {
    return this.#supervisor.ask(question, given, TIME_LIMIT_MS);
  }

  async #tell(what: string, given: unknown): Promise<void> {
    await this.#ask(what, given).catch(() => {});
  }
}

/** Nobody takes it away: whoever lives has it until it is given back. */
class WorkerLease implements Lease {
  readonly token: number;
  readonly #note: (text: string) => Promise<void>;
  readonly #release: () => Promise<void>;
  readonly #onEnd: () => void;
  #hasEnded = false;

  constructor(deps: {
    token: number;
    note: (text: string) => Promise<void>;
    release: () => Promise<void>;
    onEnd: () => void;
  }) {
    this.token = deps.token;
    this.#note = deps.note;
    this.#release = deps.release;
    this.#onEnd = deps.onEnd;
  }

  async note(text: string): Promise<void> {
    if (!this.#hasEnded) await this.#note(text);
  }

  async release(): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#onEnd();
    await this.#release();
  }
}
