import type { JsonEntry, JsonNode } from './json-reader.ts';

/** A node and the keys and indices that lead to it. */
export interface Spot {
  readonly node: JsonNode;
  readonly path: Path;
}

export type Path = readonly (string | number)[];

/** A block: what its labels are, and what it holds. */
export interface Block {
  readonly labels: readonly string[];
  readonly properties: readonly Property[];
  readonly spot: Spot;
  /** The text broke off in the middle of it: what it lacks may have been there. */
  readonly isCut: boolean;
}

/** An argument of a block, or all its blocks of one type. */
export interface Property extends Spot {
  readonly name: string;
  /** Where its name stands. */
  readonly named: JsonEntry;
}

/** Told what is in a place where it cannot be. */
export type Complaint = (spot: Spot, message: string) => void;

/** What stands under this name may be comments, at every level. */
const COMMENT = '//';

/**
 * The properties of a body in JSON: of an object, or of every object of a list (HCL JSON specification, "Bodies").
 * `null` has none.
 */
export function propertiesOf(spot: Spot, complain: Complaint): Property[] {
  const { node, path } = spot;
  if (node.kind === 'null') return [];
  if (node.kind === 'array') {
    return node.items.flatMap((item, index) => {
      const itemSpot = { node: item, path: [...path, index] };
      if (item.kind !== 'array') return propertiesOf(itemSpot, complain);
      complain(itemSpot, 'this list stands within another one; write an object here');
      return [];
    });
  }
  if (node.kind !== 'object') {
    complain(spot, 'an object or a list of objects must stand here');
    return [];
  }
  return node.entries
    .filter(({ key }) => key !== COMMENT)
    .map((entry) => ({ name: entry.key, node: entry.value, path: [...path, entry.key], named: entry }));
}

/**
 * The blocks of one type: `labelCount` levels of objects whose keys are the labels, then one object for one block or a
 * list for several (HCL JSON specification, "Nested Blocks").
 */
export function blocksOf(spot: Spot, labelCount: number, complain: Complaint): Block[] {
  const blocks: Block[] = [];
  let level: { spot: Spot; labels: readonly string[] }[] = [{ spot, labels: [] }];
  for (let count = 0; count < labelCount; count += 1) {
    level = level.flatMap(({ spot: outer, labels }) =>
      propertiesOf(outer, complain).map((inner) => ({ spot: inner, labels: [...labels, inner.name] })),
    );
  }
  for (const { spot: body, labels } of level) {
    const { node, path } = body;
    const bodies =
      node.kind === 'array' ? node.items.map((item, index) => ({ node: item, path: [...path, index] })) : [body];
    for (const one of bodies) {
      const properties = propertiesOf(one, complain);
      // Nothing, or something that has been complained about.
      if (one.node.kind !== 'object' && one.node.kind !== 'array') continue;
      const isCut = one.node.kind === 'object' && one.node.isCut;
      blocks.push({ labels, properties, spot: one, isCut });
    }
  }
  return blocks;
}

/** The first of that name: a second one is a mistake, and told by whoever reads the text. */
export function property(properties: readonly Property[], name: string): Property | undefined {
  return properties.find((one) => one.name === name);
}

/**
 * A text that means what it says. `null` for expressions (`${…}`, `%{…}`), which nobody evaluates here; `undefined`
 * for what is no text.
 */
export function literal({ node }: Spot): string | null | undefined {
  if (node.kind !== 'string') return undefined;
  if (/[$%]\{/.test(node.value.replaceAll(/\$\$\{|%%\{/g, ''))) return null;
  return node.value.replaceAll(/([$%])\1\{/g, '$1{');
}

/** `terraform[0].required_providers.aws` */
export function formatPath(path: Path): string {
  return path
    .map((part, index) => (typeof part === 'number' ? `[${part}]` : `${index > 0 ? '.' : ''}${part}`))
    .join('');
}
