/** A place in a text. */
export interface HclPosition {
  /** UTF-16 units from the very beginning, a byte order mark included: fit for `text.slice`. */
  readonly offset: number;
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units; a byte order mark does not count. */
  readonly column: number;
}

export interface HclRange {
  readonly start: HclPosition;
  /** Behind the last character. */
  readonly end: HclPosition;
}

export interface HclString {
  readonly kind: 'string';
  /** Escapes resolved. What stands within `${…}` or `%{…}` is kept as written: nothing is evaluated. */
  readonly value: string;
  /** Holds `${…}` or `%{…}`, so that `value` is not what the author meant. */
  readonly isTemplate: boolean;
  readonly range: HclRange;
}

export type HclValue =
  | HclString
  | { readonly kind: 'number'; readonly value: number; readonly range: HclRange }
  | { readonly kind: 'boolean'; readonly value: boolean; readonly range: HclRange }
  | { readonly kind: 'null'; readonly range: HclRange }
  | { readonly kind: 'list'; readonly items: readonly HclValue[]; readonly range: HclRange }
  | { readonly kind: 'object'; readonly entries: readonly HclEntry[]; readonly range: HclRange };

export interface HclEntry {
  readonly key: string;
  readonly value: HclValue;
  readonly range: HclRange;
}

/** `NAME = VALUE` */
export interface HclAttribute {
  readonly kind: 'attribute';
  readonly name: string;
  readonly value: HclValue;
  readonly range: HclRange;
}

/** `TYPE "LABEL" { … }` */
export interface HclBlock {
  readonly kind: 'block';
  readonly type: string;
  readonly labels: readonly HclString[];
  readonly body: readonly HclItem[];
  /** From the type to the closing brace. */
  readonly range: HclRange;
  /** Between the braces. */
  readonly bodyRange: HclRange;
}

export type HclItem = HclAttribute | HclBlock;

/** What is wrong, and where. Never quotes values: they may be secrets. */
export interface HclDiagnostic {
  readonly message: string;
  readonly position: HclPosition;
  /** The top-level item that is left out because of it, in so far as its beginning could be read. */
  readonly item: { readonly type: string; readonly labels: readonly string[] } | undefined;
}

export interface HclDocument {
  /** What could be read, in order. */
  readonly body: readonly HclItem[];
  /** In order. Empty: all of it could be read. */
  readonly diagnostics: readonly HclDiagnostic[];
}

/** Thrown within the reader only; outside it is an HclDiagnostic. */
export class HclFault extends Error {
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}
