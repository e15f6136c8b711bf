import { type Hash, parseHash } from '../address/hash.ts';
import type { Hostname } from '../address/hostname.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import { VersionConstraint } from '../address/version-constraint.ts';
import { hasCode } from '../errors.ts';
import { FileDiagnostics } from './file-diagnostics.ts';
import { attributeOf, parseHcl } from './hcl.ts';
import type { HclAttribute, HclBlock, HclItem, HclPosition } from './hcl-syntax.ts';
import { parseProviderSource } from './provider-source.ts';
import type { Diagnostic, Requirements } from './requirements.ts';

/** Schemes of the future are the CLI's business. */
const FOREIGN_SCHEME = /^(?!(?:h1|zh):)[a-z0-9]+:./i;

/** One line, and that a comment, which has swallowed what came after it. */
const SQUEEZED = /^\s*(#|\/\/)[^\r\n]*provider[ \t]+"[^\r\n]*\s*$/;

/** A `provider` block of a lock file. */
export interface LockEntry {
  readonly address: ProviderAddress;
  readonly version: Version;
  /** `undefined` when there is none, or none that can be read. */
  readonly constraint: VersionConstraint | undefined;
  /** Those of schemes that are known here. */
  readonly hashes: readonly Hash[];
  /** The block as it stands in the text, with the ranges of all its parts. */
  readonly block: HclBlock;
  readonly at: string;
}

export interface LockFile {
  readonly file: string;
  /** In order, each provider once. */
  readonly entries: readonly LockEntry[];
  readonly diagnostics: readonly Diagnostic[];
}

/**
 * Reads a dependency lock file (`.terraform.lock.hcl`). Constraints and hashes may be missing; what cannot be used is
 * left out with a diagnostic, entry by entry. Never throws.
 *
 * `defaultHostname` is for addresses without a host, which the CLIs never write.
 */
export function readLockFile(text: string, file: string, defaultHostname: Hostname): LockFile {
  const reading = new Reading(file, defaultHostname);
  reading.read(text);
  return { file, entries: [...reading.entries.values()], diagnostics: reading.found.all };
}

/** What a lock file requires by itself. */
export function lockRequirements({ file, entries, diagnostics }: LockFile): Requirements {
  const providers = entries.map(({ address, version, constraint, hashes, at }) => ({
    address,
    constraints: constraint ? [constraint] : [],
    locked: { file, version, hashes },
    origins: [{ file, at }],
  }));
  return { providers, modules: [], diagnostics };
}

class Reading {
  readonly entries = new Map<string, LockEntry>();
  readonly found: FileDiagnostics;
  readonly #defaultHostname: Hostname;

  constructor(file: string, defaultHostname: Hostname) {
    this.found = new FileDiagnostics(file);
    this.#defaultHostname = defaultHostname;
  }

  read(text: string): void {
    const { body, diagnostics } = parseHcl(text);
    for (const { message, position, item } of diagnostics) {
      const [label] = item?.type === 'provider' ? item.labels : [];
      const which = label === undefined ? '' : `provider ${JSON.stringify(label)} is left out: `;
      this.found.error(placeOf(position), `${which}${message}`);
    }
    for (const item of body) this.#item(item);
    if (this.entries.size > 0 || this.found.all.some(({ severity }) => severity === 'error')) return;
    const [foreign] = body;
    if (foreign) {
      this.found.error(
        placeOf(foreign.range.start),
        'this is no lock file: it locks no provider, and holds other things',
      );
    } else if (SQUEEZED.test(text)) {
      const why = 'the whole file is one comment with provider blocks in it: its line ends were lost on the way';
      this.found.error('1:1', `${why} (curl -d drops them, --data-binary does not)`);
    }
  }

  #item(item: HclItem): void {
    const at = placeOf(item.range.start);
    const name = item.kind === 'block' ? item.type : item.name;
    const [label, ...more] = item.kind === 'block' ? item.labels : [];
    if (item.kind !== 'block' || name !== 'provider') {
      this.found.warning(
        at,
        `${JSON.stringify(name)} means nothing in a lock file and is ignored; it locks providers only`,
      );
    } else if (label === undefined || more.length > 0) {
      this.found.error(at, 'provider must have one label: provider "HOSTNAME/NAMESPACE/TYPE" { … }');
    } else {
      this.#provider(item, label.value, at);
    }
  }

  #provider(block: HclBlock, label: string, at: string): void {
    const source = this.#parse(at, () => parseProviderSource(label, this.#defaultHostname));
    if (source?.kind === 'legacy')
      this.found.note(at, `-/${source.type} stands for no provider of today and is left out`);
    if (source?.kind !== 'provider') return;
    const { address } = source;
    const earlier = this.entries.get(String(address));
    if (earlier) {
      this.found.error(
        at,
        `${address} is locked in line ${earlier.at.split(':')[0]} already; remove one of the blocks`,
      );
      return;
    }
    const version = this.#version(block, address, at);
    if (!version) return;
    if (String(address) !== label)
      this.found.warning(at, `the CLI writes this address as ${address}, and accepts no other`);
    this.entries.set(String(address), {
      address,
      version,
      constraint: this.#constraint(block),
      hashes: this.#hashes(block),
      block,
      at,
    });
  }

  #version(block: HclBlock, address: ProviderAddress, at: string): Version | undefined {
    const attribute = attributeOf(block.body, 'version');
    const text = attribute && this.#text(attribute);
    if (!attribute)
      this.found.error(at, `${address} has no version, and is left out; run init to have it locked again`);
    if (!attribute || text === undefined) return undefined;
    const version = Version.fromPublished(text);
    const place = placeOf(attribute.value.range.start);
    if (!version) this.found.error(place, `${JSON.stringify(text)} is not a version; write it as MAJOR.MINOR.PATCH`);
    else if (String(version) !== text)
      this.found.warning(place, `the CLI accepts this version only when it is written as ${version}`);
    return version;
  }

  #constraint(block: HclBlock): VersionConstraint | undefined {
    const attribute = attributeOf(block.body, 'constraints');
    const text = attribute && this.#text(attribute);
    if (!attribute || text === undefined) return undefined;
    return this.#parse(placeOf(attribute.value.range.start), () => VersionConstraint.parse(text));
  }

  #hashes(block: HclBlock): Hash[] {
    const attribute = attributeOf(block.body, 'hashes');
    if (!attribute) return [];
    if (attribute.value.kind !== 'list') {
      this.found.error(placeOf(attribute.value.range.start), 'hashes must be a list of texts');
      return [];
    }
    const hashes = new Set<Hash>();
    for (const item of attribute.value.items) {
      const at = placeOf(item.range.start);
      if (item.kind !== 'string' || item.isTemplate) {
        this.found.error(at, 'a hash must be a text in quotes');
      } else if (FOREIGN_SCHEME.test(item.value)) {
        this.found.note(at, 'hashes of this scheme are not known here');
      } else {
        const hash = this.#parse(at, () => parseHash(item.value));
        if (hash) hashes.add(hash);
      }
    }
    return [...hashes];
  }

  #text({ name, value }: HclAttribute): string | undefined {
    if (value.kind === 'string' && !value.isTemplate) return value.value;
    this.found.error(placeOf(value.range.start), `${name} must be a plain text in quotes`);
    return undefined;
  }

  #parse<T>(at: string, parse: () => T): T | undefined {
    try {
      return parse();
    } catch (error) {
      if (!hasCode(error, 'INVALID_ADDRESS')) throw error;
      this.found.error(at, error.hint ? `${error.message}; ${error.hint}` : error.message);
      return undefined;
    }
  }
}

function placeOf({ line, column }: HclPosition): string {
  return `${line}:${column}`;
}
