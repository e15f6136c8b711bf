import type { MirroredAddress } from '../address/mirrored-address.ts';
import { ModulePattern } from '../address/module-pattern.ts';
import { ProviderPattern } from '../address/provider-pattern.ts';
import { Version } from '../address/version.ts';
import { InvalidAddress, StorageFailed } from '../errors.ts';
import type { PinStore } from '../store/pin-file.ts';
import { matches } from './inventory.ts';

/** What is kept whatever happens: all versions of what the pattern means, or one. */
export class Pin {
  readonly pattern: ProviderPattern | ModulePattern;
  readonly version: Version | undefined;

  constructor(pattern: ProviderPattern | ModulePattern, version?: Version) {
    this.pattern = pattern;
    this.version = version;
  }

  /** `HOST/NAMESPACE/TYPE` of providers, `HOST/NAMESPACE/NAME/SYSTEM` of modules, with `@VERSION` or without. @throws InvalidAddress */
  static parse(text: string): Pin {
    const [address = '', version, ...rest] = text.split('@');
    const pattern = ProviderPattern.parse(address) ?? ModulePattern.parse(address);
    if (pattern && rest.length === 0)
      return new Pin(pattern, version === undefined ? undefined : Version.parse(version));
    throw new InvalidAddress(
      'pin',
      text,
      'write it as HOST/NAMESPACE/TYPE, or HOST/NAMESPACE/NAME/SYSTEM for a module, with * for a whole part and ' +
        '@VERSION for one version',
    );
  }

  holds(address: MirroredAddress, version: Version): boolean {
    return (
      matches(this.pattern, address) && (this.version === undefined || this.version.toString() === version.toString())
    );
  }

  toString(): string {
    return this.version === undefined ? `${this.pattern}` : `${this.pattern}@${this.version}`;
  }
}

/** Whether a version of something is pinned. */
export type IsPinned = (address: MirroredAddress, version: Version) => boolean;

/** What operators want kept: never evicted, and purged only when that is said. With what is stored, for all who share that. */
export class Pins {
  readonly #file: PinStore;

  constructor({ file }: { file: PinStore }) {
    this.#file = file;
  }

  /** @throws StorageFailed, also when somebody wrote into the file what is no pin */
  async list(): Promise<readonly Pin[]> {
    const texts = await this.#file.read();
    try {
      return texts.map(Pin.parse);
    } catch (error) {
      const { message } = error as Error;
      throw new StorageFailed('reading the pins', error, { hint: `mend pins.json: ${message}` });
    }
  }

  /** As it is now. @throws as `list` does */
  async look(): Promise<IsPinned> {
    const pins = await this.list();
    return (address, version) => pins.some((pin) => pin.holds(address, version));
  }

  /** What is pinned already stays so. @returns all. @throws StorageFailed, InvalidAddress */
  async add(pins: readonly Pin[]): Promise<readonly Pin[]> {
    const all = await this.#file.change((present) => [...present, ...pins.map(String)]);
    return all.map(Pin.parse);
  }

  /** Takes back pins that were made in just this form. @returns those that there were, and those that are left. @throws StorageFailed, InvalidAddress */
  async remove(pins: readonly Pin[]): Promise<{ removed: readonly Pin[]; left: readonly Pin[] }> {
    const unwanted = new Set(pins.map(String));
    const before = new Set((await this.list()).map(String));
    const left = await this.#file.change((present) => present.filter((pin) => !unwanted.has(pin)));
    return { removed: pins.filter((pin) => before.has(pin.toString())), left: left.map(Pin.parse) };
  }
}
