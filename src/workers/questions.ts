import { answeredWithin } from '../time-limit.ts';

/** Carries messages between two processes, in order. What cannot be sent any more is lost, and nobody is told. */
export interface Wire {
  send(message: object): void;
  receive(listener: (message: unknown) => void): void;
}

/** What is answered to whom, by the name of the question. What they throw is told to whoever asks. */
export type Answers = Readonly<Record<string, (given: unknown) => unknown>>;

type Message =
  | { readonly kind: 'question'; readonly id: number; readonly name: string; readonly given: unknown }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'refusal'; readonly id: number; readonly reason: string };

interface Asker {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
}

/** Questions that two processes ask each other, and the answers to them. */
export class Questions {
  readonly #wire: Wire;
  readonly #answers: Answers;
  readonly #asked = new Map<number, Asker>();
  #last = 0;

  constructor(deps: { wire: Wire; answers: Answers }) {
    this.#wire = deps.wire;
    this.#answers = deps.answers;
    this.#wire.receive((message) => this.#take(message as Message));
  }

  /** @throws Error with the reason of the other side, or when it says nothing for so long */
  async ask(name: string, given: unknown, timeLimitMs: number): Promise<unknown> {
    this.#last += 1;
    const id = this.#last;
    const answer = new Promise<unknown>((resolve, reject) => this.#asked.set(id, { resolve, reject }));
    try {
      this.#wire.send({ kind: 'question', id, name, given } satisfies Message);
      return await answeredWithin(answer, timeLimitMs);
    } finally {
      this.#asked.delete(id);
    }
  }

  #take(message: Message): void {
    if (message?.kind === 'question') void this.#answer(message);
    else if (message?.kind === 'answer') this.#asked.get(message.id)?.resolve(message.value);
    else if (message?.kind === 'refusal') this.#asked.get(message.id)?.reject(new Error(message.reason));
  }

  async #answer({ id, name, given }: Message & { kind: 'question' }): Promise<void> {
    try {
      const value = await this.#answers[name]?.(given);
      this.#wire.send({ kind: 'answer', id, value } satisfies Message);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#wire.send({ kind: 'refusal', id, reason } satisfies Message);
    }
  }
}
