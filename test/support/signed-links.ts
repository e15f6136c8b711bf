import { createHmac, randomBytes } from 'node:crypto';

/** Links as S3 signs them, in so far as a client can tell. */
export class SignedLinks {
  readonly #lifetimeMs: number;
  readonly #now: () => number;
  #secret = randomBytes(16);

  constructor(lifetimeMs: number, now: () => number) {
    this.#lifetimeMs = lifetimeMs;
    this.#now = now;
  }

  query(path: string): string {
    const issued = this.#now();
    return `?X-Amz-Date=${issued}&X-Amz-Expires=${this.#lifetimeMs / 1000}&X-Amz-Signature=${this.#sign(path, issued)}`;
  }

  accepts(path: string, query: string): boolean {
    const parameters = new URLSearchParams(query);
    const issued = Number(parameters.get('X-Amz-Date'));
    return parameters.get('X-Amz-Signature') === this.#sign(path, issued) && this.#now() <= issued + this.#lifetimeMs;
  }

  expireAll(): void {
    this.#secret = randomBytes(16);
  }

  #sign(path: string, issued: number): string {
    return createHmac('sha256', this.#secret).update(`${path} ${issued}`).digest('hex');
  }
}
