import {
  type Document,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  type YAMLError,
  type YAMLMap,
} from 'yaml';
import type { Hostname } from '../address/hostname.ts';
import { Platform } from '../address/platform.ts';
import { hasCode } from '../errors.ts';
import { FileDiagnostics } from './file-diagnostics.ts';
import {
  type Diagnostic,
  type ModuleRequirement,
  mergeRequirements,
  type ProviderRequirement,
  type Requirements,
} from './requirements.ts';
import { readWarmItem, splitWarmItem, type WarmKind } from './warm-item.ts';
import { isDeeperThan } from './yaml-depth.ts';

/** Ten thousand items have less. In UTF-16 units. */
const MAX_LENGTH = 1024 * 1024;
/** Levels of lists and maps within each other: three are of use. Columns of indentation count as well. */
const MAX_DEPTH = 200;

export interface WarmList extends Requirements {
  /** Those the list names; empty when it names none. */
  readonly platforms: readonly Platform[];
}

/** The parser's messages quote the text. */
const SYNTAX_PROBLEMS: Readonly<Record<string, string>> = {
  MULTIPLE_DOCS: 'there is a second document; remove the --- line',
  TAB_AS_INDENT: 'the line is indented with a tab; use spaces',
  BAD_INDENT: 'the indentation is wrong, or a quote or bracket before it is not closed',
};

/**
 * Reads a list of what is wanted, told apart by what is in it:
 * - JSON or YAML, `{ providers: […], modules: […], platforms: […] }`, whose items are `ADDRESS[@CONSTRAINT]` or
 *   `{ source, version }` with a constraint in OpenTofu's grammar;
 * - plain lines of `ADDRESS[@CONSTRAINT]`, with comments behind `#` or `//`.
 *
 * Every item stands for itself: two constraints for one provider are two wishes. Never throws.
 */
export function readWarmList(text: string, file: string, defaultHostname: Hostname): WarmList {
  const reading = new Reading(file, defaultHostname);
  const content = text.replace(/^\uFEFF/, '');
  if (content.length > MAX_LENGTH)
    reading.found.error(undefined, `this is longer than ${MAX_LENGTH} characters, and is not read`);
  else if (IS_DOCUMENT.test(content)) reading.document(content);
  else reading.lines(content);
  return reading.list();
}

/** An object, YAML's mark, one of the keys, or another one where a list should follow it: no plain line is like any of these. */
const IS_DOCUMENT =
  /^[^\S\r\n\u2028\u2029]*\{|^---|^["']?(?:providers|modules|platforms)["']?[ \t]*:|^["']?[\w-]+["']?[ \t]*:[ \t]*(?:\[|\r?$)/m;

class Reading {
  readonly found: FileDiagnostics;
  readonly #defaultHostname: Hostname;
  readonly #providers: ProviderRequirement[] = [];
  readonly #modules: ModuleRequirement[] = [];
  readonly #platforms = new Map<string, Platform>();
  readonly #lines = new LineCounter();

  constructor(file: string, defaultHostname: Hostname) {
    this.found = new FileDiagnostics(file);
    this.#defaultHostname = defaultHostname;
  }

  list(): WarmList {
    const diagnostics: readonly Diagnostic[] = this.found.all;
    const requirements = mergeRequirements([{ providers: this.#providers, modules: this.#modules, diagnostics }]);
    return { ...requirements, platforms: [...this.#platforms.values()] };
  }

  lines(text: string): void {
    for (const [index, line] of text.split(/\r?\n/).entries()) {
      // `//` begins a comment where it cannot be the subdirectory of a module.
      const item = line.replace(/(^|\s)(#|\/\/).*$/, '').trim();
      if (item !== '') this.#item(splitWarmItem(item), 'any', String(index + 1));
    }
  }

  document(text: string): void {
    const document = this.#parse(text);
    if (!document) return;
    // What follows the first mostly follows from it.
    const [error] = document.errors;
    if (error) this.found.error(this.#at(error.pos[0]), problemOf(error));
    const root = document.contents;
    if (!isMap(root)) {
      if (root) this.found.error(this.#atNode(root), 'an object with providers, modules and platforms must stand here');
      return;
    }
    for (const { key, value } of root.items as Pair<Node, Node | null>[]) {
      const name = isScalar(key) ? String(key.value) : '';
      if (name === 'providers') this.#each(value, (item) => this.#entry(item, 'provider'));
      else if (name === 'modules') this.#each(value, (item) => this.#entry(item, 'module'));
      else if (name === 'platforms') this.#each(value, (item) => this.#platform(item));
      else if (name !== '//')
        this.found.error(this.#atNode(key), 'this key is unknown; known are providers, modules and platforms');
    }
  }

  #parse(text: string): Document.Parsed | undefined {
    if (isDeeperThan(MAX_DEPTH, text)) {
      this.found.error(undefined, 'brackets are nested too deeply here for a list of providers and modules');
      return undefined;
    }
    return parseDocument(text, {
      // Everything is a text: 1.10 stays 1.10, and no tag means anything.
      schema: 'failsafe',
      // Compares every key with every other one.
      uniqueKeys: false,
      lineCounter: this.#lines,
      prettyErrors: false,
      // Not silent: a second document, which is not read, would not be told of.
      logLevel: 'error',
    });
  }

  /** Of a list, or of nothing. */
  #each(node: Node | null, read: (item: Node) => void): void {
    if (node === null || (isScalar(node) && /^(|null|~)$/.test(String(node.value ?? '')))) return;
    if (!isSeq(node)) this.found.error(this.#atNode(node), 'a list must stand here');
    else for (const item of node.items as Node[]) read(item);
  }

  #entry(node: Node, kind: WarmKind): void {
    const at = this.#atNode(node);
    if (isScalar(node)) this.#item(splitWarmItem(String(node.value)), kind, at);
    else if (isMap(node)) this.#object(node, kind, at);
    else this.found.error(at, 'write ADDRESS@CONSTRAINT, or an object with source and version');
  }

  #object(node: YAMLMap, kind: WarmKind, at: string): void {
    const settings = new Map<string, string>();
    for (const { key, value } of node.items as Pair<Node, Node | null>[]) {
      const name = isScalar(key) ? String(key.value) : '';
      if (name === '//') continue;
      if (name !== 'source' && name !== 'version') {
        this.found.error(this.#atNode(key), 'this key is unknown; known here are source and version');
      } else if (!isScalar(value)) {
        this.found.error(this.#atNode(value ?? key), `${name} must be a text`);
        return;
      } else {
        settings.set(name, String(value.value ?? ''));
      }
    }
    const source = settings.get('source');
    if (source === undefined) this.found.error(at, 'source is missing: the address of what is wanted');
    else this.#item({ source, version: settings.get('version') ?? '' }, kind, at);
  }

  #item(item: { source: string; version: string }, kind: WarmKind, at: string): void {
    const origin = this.found.origin(at);
    const read = readWarmItem(item, { kind, defaultHostname: this.#defaultHostname, origin });
    if (read.kind === 'provider') this.#providers.push(read.requirement);
    else if (read.kind === 'module') this.#modules.push(read.requirement);
    else if (read.kind === 'invalid') this.found.error(at, read.why);
    else if (read.why !== undefined) this.found.note(at, read.why);
  }

  #platform(node: Node): void {
    try {
      const platform = Platform.parse(isScalar(node) ? String(node.value) : '');
      this.#platforms.set(String(platform), platform);
    } catch (error) {
      if (!hasCode(error, 'INVALID_ADDRESS')) throw error;
      this.found.error(this.#atNode(node), error.message);
    }
  }

  #atNode(node: Node): string {
    return this.#at(node.range?.[0] ?? 0);
  }

  #at(offset: number): string {
    const { line, col } = this.#lines.linePos(offset);
    return `${line}:${col}`;
  }
}

function problemOf({ code }: YAMLError): string {
  return SYNTAX_PROBLEMS[code] ?? 'this is neither JSON nor YAML; put quotes around texts with special characters';
}
