import { HclCursor } from './hcl-cursor.ts';
import { readHeredoc, readQuoted } from './hcl-strings.ts';
import { HclFault } from './hcl-syntax.ts';
import type { JsonEntry, JsonNode } from './json-reader.ts';

/** In UTF-16 units. Configuration that people write is a thousand times smaller. */
const MAX_LENGTH = 16 * 1024 * 1024;
/** Blocks within blocks, and objects within those, that are looked into. What is deeper is stepped over. */
const MAX_DEPTH = 6;
/** No block has so many. */
const MAX_LABELS = 8;
/** Whoever has so many does not read on. It also bounds how often one stretch of text is read. */
const MAX_FAULTS = 50;

/** What a block begins with, at the beginning of a line. */
const BLOCK_START =
  /[\p{ID_Start}_][\p{ID_Continue}-]*([ \t]+("[^"\r\n]*"|[\p{ID_Start}_][\p{ID_Continue}-]*))*[ \t]*\{/uy;
/** Neither quotes, brackets, comments, heredocs nor line ends. */
const PLAIN = /[^"[\](){}#/<\r\n,]+/y;
/** Stands for whatever cannot be known without evaluating it. */
const UNKNOWN = `\${…}`;

type Entries = JsonEntry[];

/** Of one type, or of one label. */
interface Blocks {
  readonly bodies: JsonNode[];
  readonly labelled: Entries;
}

export interface Outline {
  /** In the shape of JSON configuration, blocks always in lists. Expressions are texts with `${…}` in them. */
  readonly root: JsonNode;
  /** `LINE:COLUMN` of what cannot be understood at all, with the reason. */
  readonly faults: readonly { readonly at: string; readonly message: string }[];
  /** `LINE:COLUMN` */
  readonly at: (place: { readonly offset: number }) => string;
}

/**
 * Reads the outline of a file in native syntax: blocks, their labels, and arguments that are plain texts or objects of
 * these. It understands no expressions, it only steps over them, and so nothing in them can keep it from finding the
 * rest. What is broken costs the block it is in. Never throws.
 */
export function readOutline(text: string): Outline {
  return new Reading(text).outline();
}

class Reading {
  readonly #cursor: HclCursor;
  readonly #blocks = new WeakMap<Entries, Map<string, Blocks>>();
  /** Where the outermost item begins that is being read. */
  #itemStart = 0;
  readonly #faults: { at: string; message: string }[] = [];

  constructor(text: string) {
    this.#cursor = new HclCursor(text);
  }

  outline(): Outline {
    const cursor = this.#cursor;
    const entries: Entries = [];
    if (cursor.text.length > MAX_LENGTH) {
      this.#faults.push({ at: '1:1', message: `this is longer than ${MAX_LENGTH} characters` });
      cursor.offset = cursor.text.length;
    }
    while (this.#faults.length < MAX_FAULTS) {
      const start = cursor.offset;
      try {
        cursor.skipLines();
        if (cursor.isAtEnd) break;
        this.#item(entries, 0);
      } catch (error) {
        if (!(error instanceof HclFault)) throw error;
        this.#faults.push({ at: this.#at(error), message: error.message });
        cursor.offset = this.#nextBlockAfter(start);
      }
    }
    const root: JsonNode = { kind: 'object', entries, isCut: false, offset: 0 };
    return { root, faults: this.#faults, at: (place) => this.#at(place) };
  }

  #at({ offset }: { offset: number }): string {
    const { line, column } = this.#cursor.position(offset);
    return `${line}:${column}`;
  }

  /** The next line that begins like a block without indentation. */
  #nextBlockAfter(start: number): number {
    const cursor = this.#cursor;
    const text = cursor.text;
    // What is skipped may begin with line ends and comments; the broken item begins behind them.
    let line = cursor.nextLineFrom(Math.max(start, this.#itemStart));
    for (; line < text.length; line = cursor.nextLineFrom(line)) {
      BLOCK_START.lastIndex = line;
      if (BLOCK_START.test(text)) return line;
    }
    return line;
  }

  /** `NAME = VALUE`, or a block, which is added to those of its type. */
  #item(entries: Entries, depth: number): void {
    const cursor = this.#cursor;
    const { offset } = cursor;
    if (depth === 0) this.#itemStart = offset;
    const name = this.#name();
    if (name === undefined) throw new HclFault('the name of an argument or block must stand here', offset);
    cursor.skipBlanks();
    if (cursor.take('=')) {
      entries.push({ key: name, value: this.#value(depth), offset });
      return;
    }
    const labels: string[] = [];
    while (!cursor.take('{')) {
      const start = cursor.offset;
      const label = this.#name();
      if (label === undefined || labels.length === MAX_LABELS) throw new HclFault('= or { is missing here', start);
      labels.push(label);
      cursor.skipBlanks();
    }
    const entriesOfBody = this.#body(offset, depth + 1);
    this.#addBlock(entries, [name, ...labels], { kind: 'object', entries: entriesOfBody, isCut: false, offset });
  }

  /** `{ TYPE: { LABEL: [ BODY, … ] } }` */
  #addBlock(entries: Entries, [name = '', ...labels]: string[], body: JsonNode): void {
    const { offset } = body;
    const known = this.#blocks.get(entries) ?? new Map<string, Blocks>();
    this.#blocks.set(entries, known);
    const blocks: Blocks = known.get(name) ?? { bodies: [], labelled: [] };
    if (labels.length === 0) {
      if (blocks.bodies.length === 0)
        entries.push({ key: name, value: { kind: 'array', items: blocks.bodies, offset }, offset });
      blocks.bodies.push(body);
    } else {
      if (blocks.labelled.length === 0)
        entries.push({ key: name, value: { kind: 'object', entries: blocks.labelled, isCut: false, offset }, offset });
      this.#addBlock(blocks.labelled, labels, body);
    }
    known.set(name, blocks);
  }

  /** Up to and with the closing brace. */
  #body(start: number, depth: number): Entries {
    const cursor = this.#cursor;
    const entries: Entries = [];
    if (depth > MAX_DEPTH) {
      this.#stepOverBrackets(start, 1);
      return entries;
    }
    for (;;) {
      cursor.skipLines();
      if (cursor.take('}')) return entries;
      if (cursor.isAtEnd) throw new HclFault('the block that begins here is not closed', start);
      this.#item(entries, depth);
      cursor.skipBlanks();
      if (cursor.next !== '}' && !cursor.isAtLineEnd) {
        throw new HclFault('something follows here that should be on a line of its own', cursor.offset);
      }
    }
  }

  #value(depth: number): JsonNode {
    const cursor = this.#cursor;
    cursor.skipBlanks();
    const { offset } = cursor;
    if (cursor.next === '"') {
      const value = this.#text();
      const end = cursor.offset;
      if (this.#isEndOfValue()) return { kind: 'string', value: value ?? UNKNOWN, offset };
      cursor.offset = end;
    } else if (cursor.next === '{' && depth < MAX_DEPTH) {
      const entries = this.#object(depth + 1);
      if (entries) return { kind: 'object', entries, isCut: false, offset };
      cursor.offset = offset;
    }
    this.#stepOverExpression();
    const word = cursor.text.slice(offset, cursor.offset).trim();
    if (word === 'null') return { kind: 'null', offset };
    // A reference means something where a provider is named.
    return { kind: 'string', value: /^[\p{ID_Continue}.-]+$/u.test(word) ? `\${${word}}` : UNKNOWN, offset };
  }

  /** `{ KEY = VALUE … }`; `undefined` when it is something else in braces. */
  #object(depth: number): Entries | undefined {
    const cursor = this.#cursor;
    const entries: Entries = [];
    cursor.offset += 1;
    for (;;) {
      cursor.skipLines();
      if (cursor.take(',')) continue;
      if (cursor.take('}')) return this.#isEndOfValue() ? entries : undefined;
      const { offset } = cursor;
      const key = this.#name();
      cursor.skipBlanks();
      if (key === undefined || !(cursor.take('=') || cursor.take(':'))) return undefined;
      entries.push({ key, value: this.#value(depth), offset });
    }
  }

  /** A word, or a text in quotes without templates. */
  #name(): string | undefined {
    return this.#cursor.next === '"' ? this.#text() : this.#cursor.identifier();
  }

  /** `undefined` for a template. The cursor stands at the opening quote, and behind the closing one then. */
  #text(): string | undefined {
    const cursor = this.#cursor;
    const { offset } = cursor;
    stepOverQuoted(cursor);
    const written = cursor.text.slice(offset, cursor.offset);
    if (/[$%]\{/.test(written.replaceAll(/\$\$\{|%%\{/g, ''))) return undefined;
    cursor.offset = offset;
    return readQuoted(cursor).value;
  }

  #isEndOfValue(): boolean {
    this.#cursor.skipBlanks();
    return this.#cursor.isAtLineEnd || /[,}]/.test(this.#cursor.next);
  }

  /** To the end of the line, or to what closes the object around it. Lines within brackets do not end it. */
  #stepOverExpression(): void {
    const cursor = this.#cursor;
    for (;;) {
      if (cursor.isAtEnd || cursor.isAtLineEnd || /[,}]/.test(cursor.next)) return;
      if (/[\])]/.test(cursor.next)) throw new HclFault('this closes nothing', cursor.offset);
      this.#stepOverToken();
    }
  }

  #stepOverToken(): void {
    const cursor = this.#cursor;
    const start = cursor.offset;
    if (cursor.next === '"') stepOverQuoted(cursor);
    else if (/[[({]/.test(cursor.next)) {
      cursor.offset += 1;
      this.#stepOverBrackets(start, 1);
    } else if (cursor.next === '<' && readHeredoc(cursor)) {
      // It ends its line by itself.
    } else {
      cursor.skipBlanks();
      if (cursor.offset === start && !cursor.match(PLAIN)) cursor.offset += 1;
    }
  }

  /** Until as many are closed as are open. Of which kind they are does not matter here. */
  #stepOverBrackets(start: number, open: number): void {
    const cursor = this.#cursor;
    for (let depth = open; depth > 0; ) {
      cursor.skipLines();
      if (cursor.isAtEnd) throw new HclFault('the bracket that opens here is not closed', start);
      if (/[[({]/.test(cursor.next)) depth += 1;
      else if (/[\])}]/.test(cursor.next)) depth -= 1;
      else {
        this.#stepOverToken();
        continue;
      }
      cursor.offset += 1;
    }
  }
}

/** A text in quotes, with templates that may hold texts in quotes, and so on. */
function stepOverQuoted(cursor: HclCursor): void {
  const start = cursor.offset;
  /** What closes each that is open: a quote, or the brace of a template. */
  const open: ('"' | '}')[] = [];
  do {
    const inText = open.at(-1) === '"';
    if (cursor.isAtEnd || (inText && cursor.next === '\n')) {
      throw new HclFault('the text that begins here is not closed on its line', start);
    }
    if (inText && cursor.next === '\\') cursor.offset += 2;
    else if (inText && (cursor.take('$${') || cursor.take('%%{'))) continue;
    else if (inText && (cursor.take('${') || cursor.take('%{'))) open.push('}');
    else if (cursor.next === open.at(-1)) {
      open.pop();
      cursor.offset += 1;
    } else {
      if (!inText && /["{]/.test(cursor.next)) open.push(cursor.next === '"' ? '"' : '}');
      cursor.offset += 1;
    }
  } while (open.length > 0);
}
