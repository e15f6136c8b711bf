import { Hostname } from './hostname.ts';
import { ProviderAddress } from './provider.ts';

/** In the place of a `*` while the other parts are checked. */
const ANY = new ProviderAddress(Hostname.parse('any'), 'any', 'any');

/** Which providers are meant: `HOSTNAME/NAMESPACE/TYPE`, each part `*` (whatever it is) or exact. */
export class ProviderPattern {
  readonly #hostname: string;
  readonly #namespace: string;
  readonly #type: string;

  private constructor(hostname: string, namespace: string, type: string) {
    this.#hostname = hostname;
    this.#namespace = namespace;
    this.#type = type;
  }

  /** Exact parts are normalised as those of an address are; `undefined` when there are not three. @throws InvalidAddress */
  static parse(text: string): ProviderPattern | undefined {
    const [hostname, namespace, type, ...rest] = text.split('/');
    if (!hostname || !namespace || !type || rest.length > 0) return undefined;
    const filled = new ProviderAddress(
      hostname === '*' ? ANY.hostname : Hostname.parse(hostname),
      namespace === '*' ? ANY.namespace : namespace,
      type === '*' ? ANY.type : type,
    );
    return new ProviderPattern(
      hostname === '*' ? '*' : filled.hostname.toString(),
      namespace === '*' ? '*' : filled.namespace,
      type === '*' ? '*' : filled.type,
    );
  }

  matches(provider: ProviderAddress): boolean {
    return (
      (this.#hostname === '*' || this.#hostname === provider.hostname.toString()) &&
      (this.#namespace === '*' || this.#namespace === provider.namespace) &&
      (this.#type === '*' || this.#type === provider.type)
    );
  }

  /** The only provider that matches, when no part is `*`. */
  get exact(): ProviderAddress | undefined {
    const parts = [this.#hostname, this.#namespace, this.#type];
    return parts.includes('*') ? undefined : ProviderAddress.parse(parts.join('/'));
  }

  toString(): string {
    return `${this.#hostname}/${this.#namespace}/${this.#type}`;
  }
}
