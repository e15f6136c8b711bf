import type { Path, Spot } from './body.ts';
import { declarationsOf } from './declarations.ts';
import { FileDiagnostics } from './file-diagnostics.ts';
import type { Conversion, HclConverter } from './hcl-converter.ts';
import type { ConfigurationReading } from './json-configuration.ts';
import { type JsonEntry, type JsonNode, readJson } from './json-reader.ts';
import { type Outline, readOutline } from './native-outline.ts';

/** Syntax errors told of one file; what follows the first few mostly follows from them. */
const MAX_SYNTAX_ERRORS = 3;

/**
 * Reads a configuration in native syntax (`*.tf`, `*.tofu`) as far as providers and modules go. What the parser makes
 * of it is read like JSON configuration. A file it does not accept is read by its outline, with a warning: one
 * expression that is new or broken must not hide what the file requires.
 *
 * Never rejects.
 */
export async function readNativeConfiguration(
  text: string,
  file: string,
  converter: HclConverter,
): Promise<ConfigurationReading> {
  const found = new FileDiagnostics(file);
  const outline = readOutline(text);
  const conversion = await converter.convert(text, file);
  if ('json' in conversion) {
    const root = readJson(conversion.json).root;
    const places = new Places(outline.root);
    const placeOf = ({ path }: Spot) => outline.at(places.nearest(path));
    return { declarations: declarationsOf(spotOf(root), placeOf, found), diagnostics: found.all };
  }
  tellWhy(conversion, found);
  tellOutlineOnly(outline, found);
  const declarations = declarationsOf(spotOf(outline.root), ({ node }) => outline.at(node), found);
  return { declarations, diagnostics: found.all };
}

function spotOf(root: JsonNode | undefined): Spot {
  return { node: root ?? { kind: 'null', offset: 0 }, path: [] };
}

/** The parser tells no places. The outline has the same shape, and knows them. */
class Places {
  readonly #root: JsonNode;
  readonly #entries = new WeakMap<JsonNode, ReadonlyMap<string, JsonEntry>>();

  constructor(root: JsonNode) {
    this.#root = root;
  }

  /** Of the last part of a path that is there. */
  nearest(path: Path): { readonly offset: number } {
    let node: JsonNode | undefined = this.#root;
    let place: { readonly offset: number } = node;
    for (const part of path) {
      if (typeof part === 'string') {
        const entry: JsonEntry | undefined = this.#entry(node, part);
        node = entry?.value;
        place = entry ?? place;
      } else {
        node = node?.kind === 'array' ? node.items[part] : undefined;
        place = node ?? place;
      }
    }
    return place;
  }

  #entry(node: JsonNode | undefined, key: string): JsonEntry | undefined {
    if (node?.kind !== 'object') return undefined;
    const known = this.#entries.get(node) ?? new Map(node.entries.map((entry) => [entry.key, entry]));
    this.#entries.set(node, known);
    return known.get(key);
  }
}

function tellWhy(conversion: Exclude<Conversion, { json: string }>, found: FileDiagnostics): void {
  if ('missing' in conversion) {
    found.warning(
      undefined,
      `${conversion.missing}, and without it native syntax is only read roughly; run npm install`,
    );
  } else if ('failed' in conversion) {
    found.warning(undefined, `the parser gave up on this file (${conversion.failed})`);
  } else {
    // `[a.tf:1,5-6: Title; Detail. a.tf:2,1-2: Title; …]`
    const problems = conversion.syntax
      .replace(/^\[|\]$/g, '')
      .split(`${found.file}:`)
      .filter((problem) => problem.trim());
    for (const problem of problems.slice(0, MAX_SYNTAX_ERRORS)) {
      const [, line, column, message] = /^(\d+),(\d+)-[\d,-]+: ([\s\S]*)$/.exec(problem.trim()) ?? [];
      found.error(line && column ? `${line}:${column}` : undefined, oneLine(message ?? problem));
    }
  }
}

function tellOutlineOnly({ faults }: Outline, found: FileDiagnostics): void {
  found.warning(undefined, 'only the outline of this file is used: what it requires may not be complete');
  for (const { at, message } of faults) found.warning(at, `left out: ${message}`);
}

/** The parser's messages: a title, a semicolon and some sentences. */
function oneLine(message: string): string {
  return message.replaceAll(/\s+/g, ' ').trim().replace(/\.$/, '');
}
