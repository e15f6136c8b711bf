import { HclCursor } from './hcl-cursor.ts';
import { HclFault } from './hcl-syntax.ts';

/** Synthesized configurations are large; beyond this it is something else. In UTF-16 units. */
const MAX_LENGTH = 16 * 1024 * 1024;

interface Placed {
  /** Fit for `text.slice`. */
  readonly offset: number;
}

export interface JsonEntry extends Placed {
  readonly key: string;
  readonly value: JsonNode;
}

export interface JsonObject extends Placed {
  readonly kind: 'object';
  /** In order. A key that is given twice is here twice. */
  readonly entries: readonly JsonEntry[];
  /** The text broke off in the middle of it. */
  readonly isCut: boolean;
}

export interface JsonArray extends Placed {
  readonly kind: 'array';
  readonly items: readonly JsonNode[];
}

export type JsonScalar = Placed &
  (
    | { readonly kind: 'string'; readonly value: string }
    | { readonly kind: 'number'; readonly value: number }
    | { readonly kind: 'boolean'; readonly value: boolean }
    | { readonly kind: 'null' }
  );

export type JsonNode = JsonObject | JsonArray | JsonScalar;

export interface JsonProblem {
  readonly severity: 'error' | 'warning';
  /** `LINE:COLUMN`, both from 1, the column in UTF-16 units without a byte order mark. */
  readonly at: string;
  readonly message: string;
}

export interface JsonDocument {
  /** What could be read: with an error in the middle, all that stands before it. */
  readonly root: JsonNode | undefined;
  readonly problems: readonly JsonProblem[];
  /** `LINE:COLUMN` of something in it. */
  readonly at: (place: Placed) => string;
}

/** Whoever has so many does not read on. */
const MAX_PROBLEMS = 200;

const SPACE = /[ \t\r\n]+/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])/y;
const WORD = /(?:true|false|null)(?!\w)/y;
/** Everything but quotes, backslashes and control characters. */
const PLAIN = /[ !#-[\]-\uffff]+/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const COMMENT = /\/\/[^\n]*|\/\*[\s\S]*?\*\/|#[^\n]*/y;

type OpenObject = { kind: 'object'; offset: number; entries: JsonEntry[]; isCut: boolean };
type OpenArray = { kind: 'array'; offset: number; items: JsonNode[] };
interface Frame {
  readonly node: OpenObject | OpenArray;
  /** Where each stands first. Of objects only. */
  readonly keys: Map<string, number> | undefined;
  isEmpty: boolean;
}

/**
 * Reads JSON (RFC 8259, a byte order mark allowed) and remembers where everything stands. Keys that are given twice
 * are warnings; commas too many and comments are errors that do not keep the rest from being read.
 *
 * Never throws, and needs no more stack for deep nesting than for none.
 */
export function readJson(text: string): JsonDocument {
  return new Reading(text).document();
}

class Reading {
  readonly #cursor: HclCursor;
  readonly #problems: JsonProblem[] = [];
  readonly #open: Frame[] = [];
  #root: JsonNode | undefined;
  #hasComments = false;

  constructor(text: string) {
    this.#cursor = new HclCursor(text);
  }

  document(): JsonDocument {
    try {
      this.#read();
    } catch (error) {
      if (!(error instanceof HclFault)) throw error;
      this.#tell('error', error.offset, error.message);
      for (const { node } of this.#open) if (node.kind === 'object') node.isCut = true;
    }
    return { root: this.#root, problems: this.#problems, at: ({ offset }) => this.#at(offset) };
  }

  #at(offset: number): string {
    const { line, column } = this.#cursor.position(offset);
    return `${line}:${column}`;
  }

  #tell(severity: JsonProblem['severity'], offset: number, message: string): void {
    if (this.#problems.length < MAX_PROBLEMS) this.#problems.push({ severity, at: this.#at(offset), message });
  }

  #read(): void {
    const cursor = this.#cursor;
    if (cursor.text.length > MAX_LENGTH)
      throw new HclFault(`this is longer than ${MAX_LENGTH} characters, and is not read`, 0);
    this.#skip();
    if (cursor.isAtEnd) throw new HclFault('there is nothing in it; the least is {}', cursor.offset);
    this.#value((root) => {
      this.#root = root;
    });
    for (let frame = this.#open.at(-1); frame; frame = this.#open.at(-1)) this.#step(frame);
    this.#skip();
    if (!cursor.isAtEnd) throw new HclFault('something follows here, behind the end of the document', cursor.offset);
  }

  /** One more member of what is open, or its end. */
  #step({ node, keys, isEmpty }: Frame): void {
    const cursor = this.#cursor;
    const ending = node.kind === 'object' ? '}' : ']';
    this.#skip();
    if (!isEmpty && cursor.next !== ending) {
      const comma = cursor.offset;
      if (!cursor.take(',')) throw new HclFault(`a comma or ${ending} is missing here`, comma);
      this.#skip();
      if (cursor.next === ending) this.#tell('error', comma, `there must be no comma before ${ending}; remove it`);
    }
    if (cursor.take(ending)) {
      this.#open.pop();
      return;
    }
    (this.#open.at(-1) as Frame).isEmpty = false;
    if (node.kind === 'array') {
      this.#value((item) => node.items.push(item));
      return;
    }
    const { offset } = cursor;
    if (cursor.next !== '"') throw new HclFault('a key in double quotes must stand here', offset);
    const key = this.#string();
    const earlier = keys?.get(key);
    // A comment may stand in one object as often as it likes.
    if (earlier !== undefined && key !== '//') {
      const line = cursor.position(earlier).line;
      this.#tell(
        'warning',
        offset,
        `${JSON.stringify(key)} is given twice in this object, first in line ${line}; keep one`,
      );
    }
    keys?.set(key, earlier ?? offset);
    this.#skip();
    if (!cursor.take(':')) throw new HclFault('a colon is missing here', cursor.offset);
    this.#skip();
    this.#value((value) => node.entries.push({ key, value, offset }));
  }

  /** Objects and arrays are handed over open, and filled by the steps that follow. */
  #value(take: (node: JsonNode) => void): void {
    const cursor = this.#cursor;
    const { offset, next } = cursor;
    if (cursor.take('{')) this.#push({ kind: 'object', offset, entries: [], isCut: false }, take);
    else if (cursor.take('[')) this.#push({ kind: 'array', offset, items: [] }, take);
    else if (next === '"') take({ kind: 'string', value: this.#string(), offset });
    else take(this.#scalar(offset));
  }

  #push(node: OpenObject | OpenArray, take: (node: JsonNode) => void): void {
    take(node);
    this.#open.push({ node, keys: node.kind === 'object' ? new Map() : undefined, isEmpty: true });
  }

  #scalar(offset: number): JsonScalar {
    const cursor = this.#cursor;
    const number = cursor.match(NUMBER)?.[0];
    if (number !== undefined) return { kind: 'number', value: Number(number), offset };
    const word = cursor.match(WORD)?.[0];
    if (word === 'null') return { kind: 'null', offset };
    if (word !== undefined) return { kind: 'boolean', value: word === 'true', offset };
    if (cursor.isAtEnd) throw new HclFault('the text ends here, where a value must stand', offset);
    if (/[-\d]/.test(cursor.next)) throw new HclFault('this is not a number as JSON writes them', offset);
    throw new HclFault(
      'a value must stand here: a text in double quotes, a number, true, false, null, [ ] or { }',
      offset,
    );
  }

  #string(): string {
    const cursor = this.#cursor;
    const start = cursor.offset;
    cursor.offset += 1;
    while (!cursor.take('"')) {
      if (cursor.match(PLAIN) || cursor.match(ESCAPE)) continue;
      if (cursor.isAtEnd || cursor.next === '\n' || cursor.next === '\r') {
        throw new HclFault('the text that begins here is not closed on its line', start);
      }
      throw new HclFault(
        cursor.next === '\\'
          ? 'this escape is unknown; known are \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uNNNN'
          : 'control characters must be escaped in a text, a tab as \\t',
        cursor.offset,
      );
    }
    return JSON.parse(cursor.text.slice(start, cursor.offset)) as string;
  }

  #skip(): void {
    const cursor = this.#cursor;
    while (cursor.match(SPACE) || this.#comment());
  }

  #comment(): boolean {
    const { offset } = this.#cursor;
    if (!this.#cursor.match(COMMENT)) return false;
    if (!this.#hasComments) this.#tell('error', offset, 'JSON has no comments; write a property called "//" instead');
    this.#hasComments = true;
    return true;
  }
}
