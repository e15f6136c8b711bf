import { Hostname } from '../address/hostname.ts';
import { attributeOf, parseHcl } from './hcl.ts';
import type { HclBlock, HclPosition, HclValue } from './hcl-syntax.ts';

/** What Larder uses of a CLI configuration file. */
export interface CliConfig {
  /** Tokens by comparison form of `HOST[:PORT]`. */
  readonly credentials: ReadonlyMap<string, string>;
  readonly helper: { readonly name: string; readonly args: readonly string[] } | undefined;
  /** What is wrong with its credentials, or keeps them from being read. Never quotes values. */
  readonly diagnostics: readonly CliConfigDiagnostic[];
}

export interface CliConfigDiagnostic {
  readonly message: string;
  /** Of JSON nothing is known of lines. */
  readonly position: HclPosition | undefined;
}

/** Becomes part of a file name. */
const HELPER_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
/** What an Authorization header can hold. */
const TOKEN = /^[\x21-\x7e]+$/;

/**
 * Reads `credentials` and `credentials_helper` of a CLI configuration file (`.tofurc`, `.terraformrc`, `*.tfrc`) or of
 * one in JSON (`*.tfrc.json`, `credentials.tfrc.json`), told apart by what is in it. Everything else there is ignored,
 * unless it is so broken that nobody knows where it ends. Never throws.
 */
export function readCliConfig(text: string): CliConfig {
  const found = new Findings();
  if (/^\uFEFF?\s*\{/.test(text)) readJson(text.replace(/^\uFEFF/, ''), found);
  else readHcl(text, found);
  return found;
}

type Place = HclPosition | undefined;

class Findings implements CliConfig {
  readonly credentials = new Map<string, string>();
  readonly diagnostics: CliConfigDiagnostic[] = [];
  helper: CliConfig['helper'];

  tell(message: string, position: Place): void {
    this.diagnostics.push({ message, position });
  }

  addToken(host: string, token: unknown, place: Place): void {
    const hostname = hostnameOf(host);
    if (hostname === undefined) {
      this.tell('the label of credentials must be HOST or HOST:PORT', place);
    } else if (typeof token !== 'string' || !TOKEN.test(token)) {
      this.tell(
        `credentials "${hostname}" must have a token: a text without spaces, templates and other oddities`,
        place,
      );
    } else if (this.credentials.has(hostname)) {
      this.tell(`there are credentials for "${hostname}" already; keep one`, place);
    } else {
      this.credentials.set(hostname, token);
    }
  }

  addHelper(name: string, args: unknown, place: Place): void {
    const isList = Array.isArray(args) && args.every((arg) => typeof arg === 'string' && !arg.includes('\0'));
    if (!HELPER_NAME.test(name)) {
      this.tell(
        'the label of credentials_helper must be a name of letters, digits, dashes, dots and underscores',
        place,
      );
    } else if (args !== undefined && !isList) {
      this.tell(`args of credentials_helper "${name}" must be a list of texts`, place);
    } else if (this.helper) {
      this.tell('there is a credentials_helper already; there can be but one', place);
    } else {
      this.helper = { name, args: isList ? [...(args as string[])] : [] };
    }
  }
}

const USED: ReadonlySet<string> = new Set(['credentials', 'credentials_helper']);

function readHcl(text: string, found: Findings): void {
  const { body, diagnostics } = parseHcl(text);
  for (const { message, position, item } of diagnostics) {
    if (item === undefined || USED.has(item.type)) found.tell(message, position);
  }
  for (const item of body) {
    const type = item.kind === 'block' ? item.type : item.name;
    if (!USED.has(type)) continue;
    const place = item.range.start;
    const [label, ...more] = item.kind === 'block' ? item.labels : [];
    if (item.kind !== 'block' || !label || more.length > 0) {
      found.tell(`${type} must be a block with one label: ${type} "…" { … }`, place);
    } else if (type === 'credentials') {
      found.addToken(label.value, plain(item, 'token'), place);
    } else {
      found.addHelper(label.value, plain(item, 'args'), place);
    }
  }
}

/** An attribute of a block as JSON would have it; `null` where that cannot be. */
function plain(block: HclBlock, name: string): unknown {
  const attribute = attributeOf(block.body, name);
  return attribute ? plainValue(attribute.value) : undefined;
}

function plainValue(value: HclValue): unknown {
  if (value.kind === 'list') return value.items.map(plainValue);
  return value.kind === 'string' && !value.isTemplate ? value.value : null;
}

function readJson(text: string, found: Findings): void {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    // The parser's message quotes the text, and with it perhaps a secret.
    found.tell('this is not valid JSON', undefined);
    return;
  }
  for (const [host, settings] of labelled(document, 'credentials', found)) {
    found.addToken(host, settings['token'], undefined);
  }
  for (const [name, settings] of labelled(document, 'credentials_helper', found)) {
    found.addHelper(name, settings['args'], undefined);
  }
}

/** Blocks in JSON: `{ TYPE: { LABEL: { … } } }`, with lists in place of any object for several of them. */
function labelled(document: unknown, type: string, found: Findings): [string, Record<string, unknown>][] {
  const given = isObject(document) && Object.hasOwn(document, type) ? document[type] : [];
  return listOf(given).flatMap((labels) => {
    const entries = isObject(labels) ? Object.entries(labels) : undefined;
    if (!entries) found.tell(`${type} must be an object of objects`, undefined);
    return (entries ?? []).flatMap(([label, settings]) =>
      listOf(settings).flatMap((one): [string, Record<string, unknown>][] => {
        if (isObject(one)) return [[label, one]];
        found.tell(`${type} must be an object of objects`, undefined);
        return [];
      }),
    );
  });
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function hostnameOf(text: string): string | undefined {
  try {
    return Hostname.parse(text).toString();
  } catch {
    return undefined;
  }
}
