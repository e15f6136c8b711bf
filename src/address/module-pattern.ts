import { Hostname } from './hostname.ts';
import { ModuleAddress } from './module.ts';

/** In the place of a `*` while the other parts are checked. */
const ANY = new ModuleAddress(Hostname.parse('any'), 'any', 'any', 'any');

/** Which modules are meant: `HOSTNAME/NAMESPACE/NAME/SYSTEM`, each part `*` (whatever it is) or exact, in any case. */
export class ModulePattern {
  /** With `any` in the place of each `*`. */
  readonly #filled: ModuleAddress;
  /** Of the four, whether it is `*`. */
  readonly #isAny: readonly [boolean, boolean, boolean, boolean];

  private constructor(filled: ModuleAddress, isAny: readonly [boolean, boolean, boolean, boolean]) {
    this.#filled = filled;
    this.#isAny = isAny;
  }

  /** Exact parts must be those of an address; `undefined` when there are not four. @throws InvalidAddress */
  static parse(text: string): ModulePattern | undefined {
    const [hostname, namespace, name, system, ...rest] = text.split('/');
    if (!hostname || !namespace || !name || !system || rest.length > 0) return undefined;
    const filled = new ModuleAddress(
      hostname === '*' ? ANY.hostname : Hostname.parse(hostname),
      namespace === '*' ? ANY.namespace : namespace,
      name === '*' ? ANY.name : name,
      system === '*' ? ANY.system : system,
    );
    return new ModulePattern(filled, [hostname === '*', namespace === '*', name === '*', system === '*']);
  }

  matches(module: ModuleAddress): boolean {
    const wanted = partsOf(this.#filled);
    return partsOf(module).every((part, index) => this.#isAny[index] || part === wanted[index]);
  }

  /** The only module that matches, as it was written, when no part is `*`. */
  get exact(): ModuleAddress | undefined {
    return this.#isAny.includes(true) ? undefined : this.#filled;
  }

  toString(): string {
    return partsOf(this.#filled)
      .map((part, index) => (this.#isAny[index] ? '*' : part))
      .join('/');
  }
}

/** As they are compared. */
function partsOf(module: ModuleAddress): string[] {
  return module.toString().split('/');
}
