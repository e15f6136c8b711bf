import { type Block, blocksOf, literal, type Property, propertiesOf, property, type Spot } from './body.ts';
import type { FileDiagnostics } from './file-diagnostics.ts';
import { localNameOf } from './provider-source.ts';
import type { Origin } from './requirements.ts';

/** As written, `null` for an expression, `undefined` when it is not there. */
export type Setting = string | null | undefined;

/** An entry of `required_providers`. */
export interface RequiredProvider {
  readonly name: string;
  readonly source: Setting;
  readonly version: Setting;
  readonly origin: Origin;
}

/** A `provider` block. */
export interface ProviderBlock {
  readonly name: string;
  readonly alias: Setting;
  readonly version: Setting;
  readonly origin: Origin;
}

/** Something that belongs to a provider: a resource, mostly. */
export interface ProviderUse {
  /** What it is, to be found again when an override file changes it. */
  readonly key: string;
  /** The local name of its provider; `undefined` when it follows from its type. */
  readonly named: string | undefined;
  readonly implied: string | undefined;
  readonly origin: Origin;
}

export interface ModuleCall {
  readonly name: string;
  readonly source: Setting;
  readonly version: Setting;
  readonly origin: Origin;
}

/** What one file says about providers and modules. What it means is known when all files of its directory are. */
export interface Declarations {
  readonly requiredProviders: readonly RequiredProvider[];
  readonly providerBlocks: readonly ProviderBlock[];
  readonly uses: readonly ProviderUse[];
  readonly moduleCalls: readonly ModuleCall[];
}

/** Blocks that belong to a provider by their first label. */
const RESOURCE_KINDS: ReadonlySet<string> = new Set(['resource', 'data', 'ephemeral', 'action']);

/**
 * Reads the JSON form of a configuration: what users write in `.tf.json`, and what native syntax becomes.
 * `placeOf` says where something stands.
 */
export function declarationsOf(root: Spot, placeOf: (spot: Spot) => string, found: FileDiagnostics): Declarations {
  return new Reading(placeOf, found).read(root);
}

class Reading implements Declarations {
  readonly requiredProviders: RequiredProvider[] = [];
  readonly providerBlocks: ProviderBlock[] = [];
  readonly uses: ProviderUse[] = [];
  readonly moduleCalls: ModuleCall[] = [];
  readonly #placeOf: (spot: Spot) => string;
  readonly #found: FileDiagnostics;

  constructor(placeOf: (spot: Spot) => string, found: FileDiagnostics) {
    this.#placeOf = placeOf;
    this.#found = found;
  }

  read(root: Spot): Declarations {
    for (const item of propertiesOf(root, this.#complain)) {
      if (item.name === 'terraform') this.#terraform(item);
      else if (item.name === 'provider') this.#blocks(item, 1, (block) => this.#provider(block));
      else if (item.name === 'module') this.#blocks(item, 1, (block) => this.#module(block));
      else if (item.name === 'import') this.#blocks(item, 0, (block) => this.#use('import', block));
      else if (item.name === 'check') this.#blocks(item, 1, (block) => this.#check(block));
      else if (RESOURCE_KINDS.has(item.name)) this.#blocks(item, 2, (block) => this.#use(item.name, block));
    }
    return this;
  }

  readonly #complain = (spot: Spot, message: string): void => {
    this.#found.error(this.#placeOf(spot), message);
  };

  #blocks(spot: Spot, labelCount: number, read: (block: Block) => void): void {
    for (const block of blocksOf(spot, labelCount, this.#complain)) read(block);
  }

  #origin(spot: Spot): Origin {
    return this.#found.origin(this.#placeOf(spot));
  }

  #terraform(spot: Spot): void {
    this.#blocks(spot, 0, ({ properties }) => {
      for (const inner of properties.filter(({ name }) => name === 'required_providers')) {
        this.#blocks(inner, 0, (block) => {
          for (const entry of block.properties) this.#requiredProvider(entry);
        });
      }
    });
  }

  /** `NAME = { source = …, version = … }`, or `NAME = "VERSION"` of old. */
  #requiredProvider(entry: Property): void {
    const { name, node } = entry;
    const origin = this.#origin(entry);
    if (node.kind === 'string') {
      this.requiredProviders.push({ name, source: undefined, version: this.#setting(entry, 'version'), origin });
      return;
    }
    if (node.kind === 'object' && node.isCut) return;
    const properties = propertiesOf(entry, (spot) =>
      this.#complain(spot, `${name} must be an object with source and version`),
    );
    if (properties.length === 0 && node.kind !== 'object') return;
    this.requiredProviders.push({
      name,
      source: this.#setting(property(properties, 'source'), 'source'),
      version: this.#setting(property(properties, 'version'), 'version'),
      origin,
    });
  }

  #provider({ labels: [name = ''], properties, spot }: Block): void {
    this.providerBlocks.push({
      name,
      alias: this.#setting(property(properties, 'alias'), 'alias'),
      version: this.#setting(property(properties, 'version'), 'version'),
      origin: this.#origin(spot),
    });
  }

  #module({ labels: [name = ''], properties, spot, isCut }: Block): void {
    if (isCut) return;
    this.moduleCalls.push({
      name,
      source: this.#setting(property(properties, 'source'), `source of module "${name}"`),
      version: this.#setting(property(properties, 'version'), `version of module "${name}"`),
      origin: this.#origin(spot),
    });
  }

  #check({ labels: [name = ''], properties }: Block): void {
    for (const data of properties.filter((one) => one.name === 'data')) {
      this.#blocks(data, 2, (block) => this.#use(`check ${name} data`, block));
    }
  }

  /** A block with an argument `provider`, which is `NAME` or `NAME.ALIAS`. */
  #use(kind: string, { labels, properties, spot }: Block): void {
    const given = property(properties, 'provider');
    const origin = this.#origin(spot);
    const [type] = labels;
    const key = labels.length > 0 ? `${kind} ${labels.join('.')}` : `${kind} ${origin.file}:${origin.at}`;
    const implied = type === undefined ? undefined : localNameOf(type);
    this.uses.push({ key, named: given && this.#providerReference(given), implied, origin });
  }

  #providerReference(given: Property): string | undefined {
    if (given.node.kind === 'null') return undefined;
    const text = given.node.kind === 'string' ? given.node.value : '';
    const [, name] = /^(?:\$\{)?\s*([\p{ID_Start}_][\p{ID_Continue}-]*)(?:\.[^{}]*|\[[^{}]*)?\s*\}?$/u.exec(text) ?? [];
    if (name === undefined) this.#complain(given, 'provider must be NAME or NAME.ALIAS');
    return name;
  }

  #setting(spot: Spot | undefined, what: string): Setting {
    if (!spot || spot.node.kind === 'null') return undefined;
    const text = literal(spot);
    if (text === null) {
      this.#found.warning(this.#placeOf(spot), `${what} is an expression, which is not evaluated here; write it out`);
    } else if (text === undefined) {
      this.#complain(spot, `${what} must be a text`);
      return null;
    }
    return text;
  }
}
