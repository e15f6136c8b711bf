import { HclCursor } from './hcl-cursor.ts';
import { readHeredoc, readQuoted } from './hcl-strings.ts';
import {
  type HclAttribute,
  type HclBlock,
  type HclDiagnostic,
  type HclDocument,
  type HclEntry,
  HclFault,
  type HclItem,
  type HclString,
  type HclValue,
} from './hcl-syntax.ts';

/** A lock file of a thousand providers has less. */
const MAX_LENGTH = 1024 * 1024;
/** Blocks, lists and objects within each other. */
const MAX_DEPTH = 64;
/** Whoever has so many does not read on. It also bounds how often one stretch of text is read. */
const MAX_DIAGNOSTICS = 50;

const NUMBER = /-?\d+(\.\d+)?([eE][+-]?\d+)?(?![\w.])/y;
/** What stands at the beginning of a line where an item begins. */
const BLOCK_START =
  /([ \t]*)[\p{ID_Start}_][\p{ID_Continue}-]*([ \t]+("[^"\r\n]*"|[\p{ID_Start}_][\p{ID_Continue}-]*))*[ \t]*\{/uy;
const ATTRIBUTE_START = /([ \t]*)[\p{ID_Start}_][\p{ID_Continue}-]*[ \t]*=(?!=)/uy;

/**
 * Reads the part of HCL that files of settings use: attributes and blocks; texts, numbers, booleans, null, lists and
 * objects; all comments and heredocs. Expressions (references, functions, operators) are problems, not evaluated.
 *
 * Never throws. A broken top-level item is left out with one diagnostic, and reading goes on at the next one.
 */
export function parseHcl(text: string): HclDocument {
  return new Parser(text).document();
}

class Parser {
  readonly #cursor: HclCursor;
  readonly #diagnostics: HclDiagnostic[] = [];
  #depth = 0;
  /** Of the top-level item being read. */
  #header: { type: string; labels: string[] } | undefined;
  #isAttribute = false;

  constructor(text: string) {
    this.#cursor = new HclCursor(text);
  }

  document(): HclDocument {
    const cursor = this.#cursor;
    const body: HclItem[] = [];
    if (cursor.text.length > MAX_LENGTH) {
      this.#tell(new HclFault(`this is longer than ${MAX_LENGTH} characters, and is not read`, 0));
      cursor.offset = cursor.text.length;
    }
    for (let start = cursor.offset; ; start = cursor.offset) {
      this.#header = undefined;
      this.#isAttribute = false;
      this.#depth = 0;
      try {
        cursor.skipLines();
        if (cursor.isAtEnd) break;
        start = cursor.offset;
        const item = this.#item();
        this.#lineEnd();
        const earlier = item.kind === 'attribute' && attributeOf(body, item.name);
        if (earlier) throw new HclFault(`${item.name} is set twice`, start);
        body.push(item);
      } catch (error) {
        if (!(error instanceof HclFault)) throw error;
        this.#tell(error);
        if (this.#diagnostics.length === MAX_DIAGNOSTICS) {
          this.#header = undefined;
          this.#tell(new HclFault('there are too many problems; what follows is not read', error.offset));
          break;
        }
        cursor.offset = this.#nextItemAfter(start);
      }
    }
    return { body, diagnostics: this.#diagnostics };
  }

  #tell({ message, offset }: HclFault): void {
    this.#diagnostics.push({ message, position: this.#cursor.position(offset), item: this.#header });
  }

  /**
   * Where the next top-level item seems to begin: no further in than the broken one. Attributes count only behind a
   * broken attribute; behind the beginning of a block they may belong to that block.
   */
  #nextItemAfter(start: number): number {
    const cursor = this.#cursor;
    const patterns = this.#isAttribute ? [BLOCK_START, ATTRIBUTE_START] : [BLOCK_START];
    const indentation = cursor.position(start).column - 1;
    let line = cursor.nextLineFrom(start);
    for (; line < cursor.text.length; line = cursor.nextLineFrom(line)) {
      for (const pattern of patterns) {
        pattern.lastIndex = line;
        const found = pattern.exec(cursor.text);
        if (found && (found[1]?.length ?? 0) <= indentation) return line;
      }
    }
    return line;
  }

  #item(): HclItem {
    const cursor = this.#cursor;
    const start = cursor.offset;
    const isOutermost = this.#depth === 0;
    const name = cursor.identifier();
    if (name === undefined) throw new HclFault('the name of an attribute or block must stand here', start);
    if (isOutermost) this.#header = { type: name, labels: [] };
    cursor.skipBlanks();
    if (cursor.next !== '=') return this.#block(name, start, isOutermost);

    cursor.offset += 1;
    if (isOutermost) this.#isAttribute = true;
    cursor.skipBlanks();
    const value = this.#value();
    return { kind: 'attribute', name, value, range: cursor.rangeFrom(start) } satisfies HclAttribute;
  }

  #block(type: string, start: number, isOutermost: boolean): HclBlock {
    const cursor = this.#cursor;
    const labels: HclString[] = [];
    while (cursor.next !== '{') {
      const label = this.#label();
      labels.push(label);
      if (isOutermost) this.#header?.labels.push(label.value);
      cursor.skipBlanks();
    }
    cursor.offset += 1;
    const bodyStart = cursor.offset;
    const body = this.#nested(start, () => this.#body(start));
    const bodyRange = cursor.rangeFrom(bodyStart);
    cursor.offset += 1;
    return { kind: 'block', type, labels, body, range: cursor.rangeFrom(start), bodyRange };
  }

  #label(): HclString {
    const cursor = this.#cursor;
    const start = cursor.offset;
    if (cursor.next === '"') {
      const label = readQuoted(cursor);
      if (label.isTemplate) throw new HclFault('the label of a block cannot be a template', start);
      return label;
    }
    const value = cursor.identifier();
    if (value === undefined) throw new HclFault('= or { is missing here', start);
    return { kind: 'string', value, isTemplate: false, range: cursor.rangeFrom(start) };
  }

  /** Up to the closing brace, which it leaves. */
  #body(start: number): HclItem[] {
    const cursor = this.#cursor;
    const items: HclItem[] = [];
    for (;;) {
      cursor.skipLines();
      if (cursor.next === '}') return items;
      if (cursor.isAtEnd) throw new HclFault('the block that begins here is not closed', start);
      const itemStart = cursor.offset;
      const item = this.#item();
      if (item.kind === 'attribute' && attributeOf(items, item.name)) {
        throw new HclFault(`${item.name} is set twice`, itemStart);
      }
      items.push(item);
      cursor.skipBlanks();
      if (cursor.next !== '}') this.#lineEnd();
    }
  }

  #lineEnd(): void {
    this.#cursor.skipBlanks();
    if (this.#cursor.isAtLineEnd) return;
    throw new HclFault('something follows here that should be on a line of its own', this.#cursor.offset);
  }

  #value(): HclValue {
    const cursor = this.#cursor;
    const start = cursor.offset;
    const { next } = cursor;
    if (next === '"') return readQuoted(cursor);
    if (next === '[') return this.#nested(start, () => this.#list());
    if (next === '{') return this.#nested(start, () => this.#object());
    if (next === '<') {
      const heredoc = readHeredoc(cursor);
      if (heredoc) return heredoc;
    }
    const number = cursor.match(NUMBER)?.[0];
    if (number !== undefined) return { kind: 'number', value: Number(number), range: cursor.rangeFrom(start) };
    const word = cursor.identifier();
    // `true.x` and `null()` are expressions.
    if (!/[.[(]/.test(cursor.next)) {
      if (word === 'true' || word === 'false') {
        return { kind: 'boolean', value: word === 'true', range: cursor.rangeFrom(start) };
      }
      if (word === 'null') return { kind: 'null', range: cursor.rangeFrom(start) };
    }
    throw new HclFault('a value must stand here: a text in quotes, a number, true, false, null, [ ] or { }', start);
  }

  #list(): HclValue {
    const cursor = this.#cursor;
    const start = cursor.offset;
    cursor.offset += 1;
    const items: HclValue[] = [];
    for (;;) {
      cursor.skipLines();
      if (cursor.take(']')) return { kind: 'list', items, range: cursor.rangeFrom(start) };
      if (cursor.isAtEnd) throw new HclFault('the list that begins here is not closed', start);
      items.push(this.#value());
      cursor.skipLines();
      if (!cursor.take(',') && cursor.next !== ']') throw new HclFault('a comma or ] is missing here', cursor.offset);
    }
  }

  #object(): HclValue {
    const cursor = this.#cursor;
    const start = cursor.offset;
    cursor.offset += 1;
    const entries: HclEntry[] = [];
    const keys = new Set<string>();
    for (;;) {
      cursor.skipLines();
      if (cursor.take('}')) return { kind: 'object', entries, range: cursor.rangeFrom(start) };
      if (cursor.isAtEnd) throw new HclFault('the object that begins here is not closed', start);
      const entry = this.#entry();
      if (keys.has(entry.key)) throw new HclFault('this key is set twice', entry.range.start.offset);
      keys.add(entry.key);
      entries.push(entry);
      cursor.skipBlanks();
      if (!cursor.take(',') && cursor.next !== '}') this.#lineEnd();
    }
  }

  #entry(): HclEntry {
    const cursor = this.#cursor;
    const start = cursor.offset;
    const quoted = cursor.next === '"' ? readQuoted(cursor) : undefined;
    const key = quoted?.isTemplate ? undefined : (quoted?.value ?? cursor.identifier());
    if (key === undefined) throw new HclFault('a key must be a plain word or a text in quotes', start);
    cursor.skipBlanks();
    if (!cursor.take('=') && !cursor.take(':')) throw new HclFault('= or : is missing here', cursor.offset);
    cursor.skipBlanks();
    return { key, value: this.#value(), range: cursor.rangeFrom(start) };
  }

  #nested<T>(start: number, read: () => T): T {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw new HclFault('things are nested too deeply here', start);
    const value = read();
    this.#depth -= 1;
    return value;
  }
}

/** The attribute of that name. */
export function attributeOf(body: readonly HclItem[], name: string): HclAttribute | undefined {
  return body.find((item): item is HclAttribute => item.kind === 'attribute' && item.name === name);
}
