import { HclFault, type HclPosition, type HclRange } from './hcl-syntax.ts';

const BYTE_ORDER_MARK = '\uFEFF';
const IDENTIFIER = /[\p{ID_Start}_][\p{ID_Continue}-]*/uy;

/** Goes through a text from left to right and knows about spaces, comments and lines. */
export class HclCursor {
  readonly text: string;
  offset: number;
  readonly #lineStarts: number[];

  constructor(text: string) {
    this.text = text;
    this.offset = text.startsWith(BYTE_ORDER_MARK) ? 1 : 0;
    this.#lineStarts = [this.offset];
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.#lineStarts.push(at + 1);
  }

  get isAtEnd(): boolean {
    return this.offset >= this.text.length;
  }

  /** One UTF-16 unit, empty at the end. */
  get next(): string {
    return this.text.charAt(this.offset);
  }

  looksAt(expected: string): boolean {
    return this.text.startsWith(expected, this.offset);
  }

  /** Steps over `expected` if it is there. */
  take(expected: string): boolean {
    if (!this.looksAt(expected)) return false;
    this.offset += expected.length;
    return true;
  }

  /** Steps over what a sticky pattern finds here. */
  match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.offset;
    const found = pattern.exec(this.text) ?? undefined;
    if (found) this.offset += found[0].length;
    return found;
  }

  identifier(): string | undefined {
    return this.match(IDENTIFIER)?.[0];
  }

  /** Spaces, tabs and comments within a line. */
  skipBlanks(): void {
    for (;;) {
      if (this.next === ' ' || this.next === '\t') this.offset += 1;
      else if (this.looksAt('/*')) this.#skipLongComment();
      else return;
    }
  }

  /** The same, and line ends. */
  skipLines(): void {
    for (this.skipBlanks(); !this.isAtEnd && this.isAtLineEnd; this.skipBlanks()) {
      const end = this.text.indexOf('\n', this.offset);
      this.offset = end < 0 ? this.text.length : end + 1;
    }
  }

  /** Whether nothing but a comment follows on this line. */
  get isAtLineEnd(): boolean {
    if (this.isAtEnd || this.next === '\n' || this.next === '#') return true;
    return this.looksAt('//') || this.looksAt('\r\n');
  }

  /** Where the next line begins: at the end of the text when there is none. */
  nextLineFrom(offset: number): number {
    const end = this.text.indexOf('\n', offset);
    return end < 0 ? this.text.length : end + 1;
  }

  position(offset: number): HclPosition {
    let low = 0;
    let high = this.#lineStarts.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.#lineStarts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return { offset, line: low + 1, column: Math.max(1, offset - (this.#lineStarts[low] ?? 0) + 1) };
  }

  /** From there to here. */
  rangeFrom(start: number): HclRange {
    return { start: this.position(start), end: this.position(this.offset) };
  }

  #skipLongComment(): void {
    const end = this.text.indexOf('*/', this.offset + 2);
    if (end < 0) throw new HclFault('the comment that begins here is not closed', this.offset);
    this.offset = end + 2;
  }
}
