import { createHash } from 'node:crypto';
import { stringify } from 'yaml';

/** What templates are given. */
export interface Scope {
  readonly [name: string]: unknown;
}

type Node =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'action'; readonly pipeline: string }
  | { readonly kind: 'block'; readonly name: string; readonly pipeline: string; body: Node[]; otherwise: Node[] };

interface Context {
  readonly dot: unknown;
  readonly root: unknown;
}

const BLOCKS: ReadonlySet<string> = new Set(['if', 'with', 'range', 'define']);

/**
 * Renders templates of a chart as Helm would, as far as ours go: a value that `values.yaml` does not have is an error, and
 * so is everything that is not known here.
 */
export class HelmTemplates {
  readonly #files = new Map<string, Node[]>();
  readonly #defined = new Map<string, Node[]>();

  /** @param files texts by name, such as `deployment.yaml` */
  constructor(files: ReadonlyMap<string, string>) {
    for (const [name, text] of files) {
      const nodes = parse(text, name);
      for (const node of nodes) {
        if (node.kind === 'block' && node.name === 'define') this.#defined.set(literal(node.pipeline), node.body);
      }
      this.#files.set(name, nodes);
    }
  }

  /** @throws Error that names what is wrong */
  render(name: string, scope: Scope): string {
    return this.#all(this.#files.get(name) ?? [], { dot: scope, root: scope });
  }

  #all(nodes: readonly Node[], context: Context): string {
    return nodes.map((node) => this.#one(node, context)).join('');
  }

  #one(node: Node, context: Context): string {
    if (node.kind === 'text') return node.text;
    if (node.kind === 'action') return shown(this.#pipeline(node.pipeline, context));
    if (node.name === 'define') return '';
    const value = this.#pipeline(node.pipeline, context);
    if (!isTrue(value)) return this.#all(node.otherwise, context);
    if (node.name === 'if') return this.#all(node.body, context);
    const dots = node.name === 'range' ? (value as unknown[]) : [value];
    return dots.map((dot) => this.#all(node.body, { ...context, dot })).join('');
  }

  #pipeline(text: string, context: Context): unknown {
    const commands = splitTopLevel(text, '|');
    let piped: unknown[] = [];
    for (const command of commands) {
      const [head = '', ...rest] = splitTopLevel(command, ' ');
      const isCall = /^[a-z]\w*$/i.test(head) && !/^(true|false)$/.test(head);
      const result = isCall
        ? this.#call(head, [...rest.map((word) => this.#operand(word, context)), ...piped])
        : this.#operand(head, context);
      piped = [result];
    }
    return piped[0];
  }

  #operand(word: string, context: Context): unknown {
    if (word.startsWith('(')) return this.#pipeline(word.slice(1, -1), context);
    if (word.startsWith('"')) return literal(word);
    if (/^-?\d+$/.test(word)) return Number(word);
    if (word === '.' || word === '$') return word === '.' ? context.dot : context.root;
    if (!/^\$?\.[\w.]+$/.test(word)) throw new Error(`what is ${word}?`);
    const start = word.startsWith('$') ? context.root : context.dot;
    return word
      .replace(/^\$?\./, '')
      .split('.')
      .reduce<unknown>((value, key) => {
        if (typeof value !== 'object' || value === null || !(key in value)) throw new Error(`${word} is not defined`);
        return (value as Scope)[key];
      }, start);
  }

  #call(name: string, given: readonly unknown[]): unknown {
    if (name === 'include') {
      const [which, dot] = given;
      // Another file of the chart goes by its path.
      const file = String(which).split('/').at(-1) ?? '';
      const nodes = this.#defined.get(String(which)) ?? this.#files.get(file);
      if (!nodes) throw new Error(`there is no template ${which}`);
      return this.#all(nodes, { dot, root: dot });
    }
    const call = FUNCTIONS[name];
    if (!call) throw new Error(`there is no function ${name}`);
    return call(...given);
  }
}

// biome-ignore lint/suspicious/noExplicitAny: as in templates, whatever comes.
const FUNCTIONS: Readonly<Record<string, (...given: any[]) => unknown>> = {
  and: (...all) => all.find((one) => !isTrue(one)) ?? all.at(-1),
  not: (one) => !isTrue(one),
  gt: (one, other) => one > other,
  ne: (one, other) => one !== other,
  int: Number,
  default: (other, one) => (isTrue(one) ? one : other),
  quote: (one) => JSON.stringify(String(one)),
  print: (...all) => all.join(''),
  printf: (format: string, ...all) => all.reduce((text: string, one) => text.replace('%s', String(one)), format),
  trunc: (length, text: string) => text.slice(0, length),
  trimSuffix: (suffix: string, text: string) => (text.endsWith(suffix) ? text.slice(0, -suffix.length) : text),
  sha256sum: (text: string) => createHash('sha256').update(text).digest('hex'),
  toYaml: (one) => stringify(one).trimEnd(),
  nindent: (spaces, text: string) => `\n${text.replace(/^/gm, ' '.repeat(spaces))}`,
  fail: (why) => {
    throw new Error(why);
  },
};

function parse(text: string, name: string): Node[] {
  const root: Node[] = [];
  const open: { block: Node & { kind: 'block' }; into: Node[] }[] = [];
  const into = () => open.at(-1)?.into ?? root;
  let at = 0;
  let trimsNext = false;
  const take = (until: number, trimsLast: boolean) => {
    let piece = text.slice(at, until);
    if (trimsNext) piece = piece.trimStart();
    if (trimsLast) piece = piece.trimEnd();
    if (piece !== '') into().push({ kind: 'text', text: piece });
  };
  for (const match of text.matchAll(/\{\{(-?)\s*(.*?)\s*(-?)\}\}/gs)) {
    take(match.index, match[1] === '-');
    at = match.index + match[0].length;
    trimsNext = match[3] === '-';
    const [, word = '', pipeline = ''] = /^(\w*)\s*(.*)$/s.exec(match[2] ?? '') ?? [];
    if (BLOCKS.has(word)) {
      const block: Node & { kind: 'block' } = { kind: 'block', name: word, pipeline, body: [], otherwise: [] };
      into().push(block);
      open.push({ block, into: block.body });
    } else if (word === 'else' || word === 'end') {
      const ended = open.pop();
      if (!ended) throw new Error(`${name}: ${word} without a beginning`);
      if (word === 'else') open.push({ block: ended.block, into: ended.block.otherwise });
    } else {
      into().push({ kind: 'action', pipeline: match[2] ?? '' });
    }
  }
  take(text.length, false);
  if (open.length > 0) throw new Error(`${name}: ${open.at(-1)?.block.name} without an end`);
  return root;
}

/** At what is neither in quotes nor in parentheses. */
function splitTopLevel(text: string, at: string): string[] {
  const parts = [''];
  let depth = 0;
  let isQuoted = false;
  for (const character of text) {
    if (character === '"') isQuoted = !isQuoted;
    if (!isQuoted) depth += character === '(' ? 1 : character === ')' ? -1 : 0;
    if (character === at && depth === 0 && !isQuoted) parts.push('');
    else parts[parts.length - 1] += character;
  }
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}

function literal(word: string): string {
  return JSON.parse(word.trim()) as string;
}

function shown(value: unknown): string {
  return value === undefined || value === null ? '' : String(value);
}

function isTrue(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0;
  return Boolean(value);
}
