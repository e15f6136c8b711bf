/** How long one kind of metadata is good for, in milliseconds. */
export interface Freshness {
  /** Served without asking upstream. */
  readonly freshForMs: number;
  /** Served beyond that only while upstream gives no usable answer. Counted from when it was fetched. */
  readonly keepForMs: number;
  /** How long "it does not exist" is believed. */
  readonly absentForMs: number;
}
