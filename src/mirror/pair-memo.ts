/**
 * Remembers what was made of two objects, by their identity. Right only for objects that never change: a new state
 * must be a new object. Forgets by itself once either of them is no longer in use.
 */
export class PairMemo<T> {
  readonly #made = new WeakMap<object, WeakMap<object, { readonly value: T }>>();

  /** What was made of the two before, or else what `make` makes now. */
  get(one: object, other: object, make: () => T): T {
    let ofOne = this.#made.get(one);
    if (!ofOne) {
      ofOne = new WeakMap();
      this.#made.set(one, ofOne);
    }
    const known = ofOne.get(other);
    if (known) return known.value;
    const value = make();
    ofOne.set(other, { value });
    return value;
  }
}
