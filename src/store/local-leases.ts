import type { HeldElsewhere, Lease, LeaseNote, Leases } from './leases.ts';

/** Leases within one process: there are no other replicas, or none that are known of. */
export class LocalLeases implements Leases {
  readonly unshared = 0;
  readonly #held = new Map<string, { token: number; text: string | undefined }>();
  #lastToken = 0;

  async acquire(key: string): Promise<Lease | HeldElsewhere> {
    const current = this.#held.get(key);
    if (current) return { heldBy: { ...current } };
    this.#lastToken += 1;
    const mine: { token: number; text: string | undefined } = { token: this.#lastToken, text: undefined };
    this.#held.set(key, mine);
    return {
      token: mine.token,
      note: async (text) => {
        mine.text = text;
      },
      release: async () => {
        if (this.#held.get(key) === mine) this.#held.delete(key);
      },
    };
  }

  async look(key: string): Promise<LeaseNote | undefined> {
    const current = this.#held.get(key);
    return current && { ...current };
  }

  async close(): Promise<void> {
    this.#held.clear();
  }
}
