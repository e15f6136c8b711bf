import { hasCode } from '../errors.ts';
import { Hostname } from './hostname.ts';
import { ModuleAddress } from './module.ts';
import { ProviderAddress } from './provider.ts';

/** In the place of what is not looked at while a part is checked. */
const ANY = { hostname: Hostname.parse('any'), part: 'any' } as const;

/**
 * Which providers and modules are meant: `HOSTNAME/NAMESPACE/NAME`, each part `*` (whatever it is) or exact. The name is
 * the type of a provider, and that of a module whatever its system.
 */
export class ProviderPattern {
  readonly #hostname: string;
  readonly #namespace: string;
  readonly #name: string;

  private constructor(hostname: string, namespace: string, name: string) {
    this.#hostname = hostname;
    this.#namespace = namespace;
    this.#name = name;
  }

  /** Exact parts are normalised as those of an address are; `undefined` when there are not three. @throws InvalidAddress */
  static parse(text: string): ProviderPattern | undefined {
    const [hostname, namespace, name, ...rest] = text.split('/');
    if (!hostname || !namespace || !name || rest.length > 0) return undefined;
    return new ProviderPattern(
      hostname === '*' ? '*' : Hostname.parse(hostname).toString(),
      parsePart(
        namespace,
        (part) => new ProviderAddress(ANY.hostname, part, ANY.part).namespace,
        (part) => new ModuleAddress(ANY.hostname, part, ANY.part, ANY.part).namespace,
      ),
      parsePart(
        name,
        (part) => new ProviderAddress(ANY.hostname, ANY.part, part).type,
        (part) => new ModuleAddress(ANY.hostname, ANY.part, part, ANY.part).name,
      ),
    );
  }

  matches(address: ProviderAddress | ModuleAddress): boolean {
    const { namespace, name } = comparable(address);
    return (
      (this.#hostname === '*' || this.#hostname === address.hostname.toString()) &&
      (this.#namespace === '*' || this.#namespace === namespace) &&
      (this.#name === '*' || this.#name === name)
    );
  }

  /** The only provider that matches, when no part is `*`; there is none of a name that only modules can have. */
  get exact(): ProviderAddress | undefined {
    const parts = [this.#hostname, this.#namespace, this.#name];
    if (parts.includes('*')) return undefined;
    return unlessInvalid(() => ProviderAddress.parse(parts.join('/')));
  }

  toString(): string {
    return `${this.#hostname}/${this.#namespace}/${this.#name}`;
  }
}

function comparable(address: ProviderAddress | ModuleAddress): { namespace: string; name: string } {
  return address instanceof ModuleAddress
    ? { namespace: address.namespace.toLowerCase(), name: address.name.toLowerCase() }
    : { namespace: address.namespace, name: address.type };
}

/** As a part of a provider's address; what no provider can be called, such as `data_lake`, may be of a module. */
function parsePart(text: string, ofProvider: (text: string) => string, ofModule: (text: string) => string): string {
  if (text === '*') return '*';
  const module = unlessInvalid(() => ofModule(text));
  if (module === undefined) return ofProvider(text);
  return unlessInvalid(() => ofProvider(text)) ?? module.toLowerCase();
}

function unlessInvalid<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    if (hasCode(error, 'INVALID_ADDRESS')) return undefined;
    throw error;
  }
}
