import path from 'node:path';
import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type YAMLError,
} from 'yaml';
import { type KeyPath, type Layer, type Origin, Origins } from './layers.ts';
import type { Problems } from './problems.ts';

/** Anchors may be used again so often: a few lines of nested ones would otherwise expand to gigabytes. */
const MAX_ALIASES = 100;

/** The parser's own messages quote the file, and with it the secrets that are in it. */
const SYNTAX_PROBLEMS: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: 'this key is given twice; keep one',
  MULTIPLE_DOCS: 'there is a second document; remove the --- line',
  TAB_AS_INDENT: 'the line is indented with a tab; use spaces',
  BAD_INDENT: 'the indentation is wrong, or a quote or bracket before it is not closed',
  BAD_ALIAS: 'put quotes around texts that begin with * or &',
  MISSING_CHAR: 'a quote, bracket or separator is missing; close it, or put quotes around the text',
  MULTILINE_IMPLICIT_KEY: 'a colon is missing or misplaced',
  BLOCK_AS_IMPLICIT_KEY: 'two keys stand on one line; put quotes around texts with a colon and a space',
  TAG_RESOLVE_FAILED: 'this tag is unknown; put quotes around texts that begin with !',
};

export interface YamlSource {
  readonly text: string;
  /** As shown in front of problems. */
  readonly file: string;
  /** Where its relative paths start. */
  readonly directory: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly problems: Problems;
  /** Gives keys their one spelling, where there are several. May throw: the message becomes the problem. */
  readonly normaliseKey: (path: KeyPath, key: string) => string;
}

/** Reads YAML into plain values that know their lines, with `${NAME}` replaced. What is wrong goes to `problems`. */
export function readYamlLayer(source: YamlSource): Layer {
  return new Reading(source).layer();
}

class Reading {
  readonly #source: YamlSource;
  readonly #lines = new LineCounter();
  readonly #origins = new Origins();
  readonly #document;
  #aliases = 0;

  constructor(source: YamlSource) {
    this.#source = source;
    this.#document = parseDocument(source.text, { lineCounter: this.#lines, prettyErrors: false });
  }

  layer(): Layer {
    const { file, problems } = this.#source;
    this.#origins.add([], this.#originAt(0));
    const faults: YAMLError[] = [...this.#document.errors, ...this.#document.warnings];
    for (const fault of faults) {
      const message = SYNTAX_PROBLEMS[fault.code] ?? `this is not valid YAML (${fault.code})`;
      problems.add([], message, this.#originAt(fault.pos[0]));
    }
    if (faults.length > 0) return { value: {}, origins: this.#origins };

    const value = this.#read(this.#document.contents, []) ?? {};
    if (typeof value !== 'object' || Array.isArray(value)) {
      problems.add([], `${path.basename(file)} must be a map of keys`, this.#originAt(0));
      return { value: {}, origins: this.#origins };
    }
    return { value: value as Record<string, unknown>, origins: this.#origins };
  }

  #read(node: Node | null | undefined, at: KeyPath): unknown {
    if (isAlias(node)) return this.#readAlias(node, at);
    if (isMap(node)) return this.#readMap(node.items as { key: Node; value: Node | null }[], at);
    if (isSeq(node)) {
      return (node.items as Node[]).map((item, index) => {
        this.#origins.add([...at, index], this.#originAt(item.range?.[0] ?? 0));
        return this.#read(item, [...at, index]);
      });
    }
    if (!isScalar(node)) return null;
    return typeof node.value === 'string' ? this.#interpolated(node.value, at) : node.value;
  }

  #readAlias(alias: Alias, at: KeyPath): unknown {
    this.#aliases += 1;
    const target = this.#aliases <= MAX_ALIASES ? alias.resolve(this.#document) : undefined;
    if (target) return this.#read(target, at);
    const message =
      this.#aliases > MAX_ALIASES
        ? 'anchors are used too often'
        : 'there is no such anchor; put quotes around texts that begin with *';
    this.#source.problems.add(at, message, this.#origins);
    return undefined;
  }

  #readMap(items: { key: Node; value: Node | null }[], at: KeyPath): Record<string, unknown> {
    const entries = new Map<string, unknown>();
    for (const item of items) {
      const origin = this.#originAt(item.key.range?.[0] ?? 0);
      const key = this.#key(item.key, at, origin);
      if (key === undefined) continue;
      if (entries.has(key)) {
        this.#source.problems.add([...at, key], 'this is given twice, in two spellings; keep one', origin);
        continue;
      }
      this.#origins.add([...at, key], origin);
      entries.set(key, this.#read(item.value, [...at, key]));
    }
    return Object.fromEntries(entries);
  }

  #key(node: Node, at: KeyPath, origin: Origin): string | undefined {
    if (!isScalar(node) || node.value === null) {
      this.#source.problems.add(at, 'a key must be a plain word', origin);
      return undefined;
    }
    try {
      return this.#source.normaliseKey(at, String(node.value));
    } catch (error) {
      this.#source.problems.add([...at, String(node.value)], (error as Error).message, origin);
      return undefined;
    }
  }

  /** `${NAME}` from the environment, `$$` for a dollar sign. What the variable holds is taken as it is. */
  #interpolated(text: string, at: KeyPath): string {
    return text.replace(/\$\$|\$\{([^}]*)\}?/g, (found, name: string | undefined) => {
      if (found === '$$') return '$';
      const value = Object.hasOwn(this.#source.env, name ?? '') ? this.#source.env[name ?? ''] : undefined;
      if (!found.endsWith('}') || name === undefined || !/^[A-Za-z_]\w*$/.test(name)) {
        this.#source.problems.add(at, `write \${NAME} for a variable and $$ for a dollar sign`, this.#origins);
      } else if (value === undefined) {
        this.#source.problems.add(at, `the environment variable ${name} is not set`, this.#origins);
      }
      return value ?? '';
    });
  }

  #originAt(offset: number): Origin {
    const { line } = this.#lines.linePos(offset);
    // An empty file has no lines.
    return { label: `${this.#source.file}:${Math.max(line, 1)}`, directory: this.#source.directory };
  }
}
