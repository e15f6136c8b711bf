/**
 * Counts what this process changes in what it would answer: archives, packages, what is remembered of upstreams, being
 * sealed. What was made of all that holds for as long as the count stays the same; what other processes change does not
 * show here.
 */
export class Changes {
  #count = 0;

  get count(): number {
    return this.#count;
  }

  note(): void {
    this.#count += 1;
  }
}
