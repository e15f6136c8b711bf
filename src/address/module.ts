import { InvalidAddress } from '../errors.ts';
import { Hostname } from './hostname.ts';
import type { Version } from './version.ts';

const NAME = /^[0-9A-Za-z](?:[0-9A-Za-z_-]{0,62}[0-9A-Za-z])?$/;
const SYSTEM = /^[0-9a-z]{1,64}$/;

/**
 * A module's source address in a registry, `HOSTNAME/NAMESPACE/NAME/SYSTEM`.
 *
 * Registries do not tell upper from lower case, and the clients ask as it is written: the identity (`toString`) is lower
 * case, while an upstream is asked as it was written.
 */
export class ModuleAddress {
  readonly hostname: Hostname;
  /** As written. */
  readonly namespace: string;
  /** As written. */
  readonly name: string;
  /** Lower case: the protocol allows nothing else. */
  readonly system: string;

  /** @throws InvalidAddress */
  constructor(hostname: Hostname, namespace: string, name: string, system: string) {
    this.hostname = hostname;
    this.namespace = parsePart('module namespace', namespace, NAME);
    this.name = parsePart('module name', name, NAME);
    this.system = parsePart('module system', system, SYSTEM);
  }

  /** Parses `HOSTNAME/NAMESPACE/NAME/SYSTEM`, all four parts given. @throws InvalidAddress */
  static parse(text: string): ModuleAddress {
    const [hostname, namespace, name, system, ...rest] = text.split('/');
    if (
      hostname === undefined ||
      namespace === undefined ||
      name === undefined ||
      system === undefined ||
      rest.length > 0
    ) {
      throw new InvalidAddress('module address', text, 'write it as HOSTNAME/NAMESPACE/NAME/SYSTEM');
    }
    return new ModuleAddress(Hostname.parse(hostname), namespace, name, system);
  }

  /** Identity: equal strings mean the same module. */
  toString(): string {
    return `${this.hostname}/${this.written.toLowerCase()}`;
  }

  /** `NAMESPACE/NAME/SYSTEM` as written: how an upstream is asked. */
  get written(): string {
    return `${this.namespace}/${this.name}/${this.system}`;
  }
}

/** One version of a module: what a package is made of. */
export class ModuleRelease {
  readonly module: ModuleAddress;
  readonly version: Version;

  constructor(module: ModuleAddress, version: Version) {
    this.module = module;
    this.version = version;
  }

  /** What its package is called where it is downloaded. */
  get filename(): string {
    const { namespace, name, system } = this.module;
    return `${`${namespace}-${name}-${system}`.toLowerCase()}-${this.version}.tar.gz`;
  }

  /** Identity, unlike that of any provider's archive. */
  toString(): string {
    return `${this.module} ${this.version}`;
  }
}

function parsePart(what: string, given: string, form: RegExp): string {
  if (form.test(given)) return given;
  throw new InvalidAddress(
    what,
    given,
    form === SYSTEM
      ? 'it must be 1 to 64 lower-case letters and digits'
      : 'it must be 1 to 64 letters, digits, dashes and underscores, and begin and end with a letter or digit',
  );
}
