import semver from 'semver';
import { InvalidAddress } from '../errors.ts';

/** In characters. A version is part of file names, which may have 255 bytes in all. */
const MAX_VERSION_LENGTH = 128;
const IDENTIFIERS = '[0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*';
const CANONICAL = new RegExp(
  `^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(?:-(${IDENTIFIERS}))?(?:\\+(${IDENTIFIERS}))?$`,
);
const PUBLISHED = new RegExp(`^[vV]?(\\d+)(?:\\.(\\d+))?(?:\\.(\\d+))?(?:-(${IDENTIFIERS}))?(?:\\+(${IDENTIFIERS}))?$`);

/**
 * A version in canonical form, as the clients write it into paths and lock files: three numbers, then optionally
 * `-PRERELEASE` and `+BUILD`, both kept with their case (`2.3.1-RC1` and `2.3.1-rc1` are two versions).
 */
export class Version {
  readonly #semver: semver.SemVer;
  readonly #text: string;

  private constructor(text: string, parsed: semver.SemVer) {
    this.#text = text;
    this.#semver = parsed;
  }

  /** Accepts the canonical form only. @throws InvalidAddress */
  static parse(text: string): Version {
    const version = CANONICAL.test(text) ? Version.#of(text) : undefined;
    if (!version) {
      const canonical = Version.fromPublished(text);
      throw new InvalidAddress(
        'version',
        text,
        canonical ? `its canonical form is ${canonical}` : 'write it as MAJOR.MINOR.PATCH',
      );
    }
    return version;
  }

  /**
   * Reads what registries publish: also `v1.2.3`, `1.2` and `01.2.0`, which the clients pad and canonicalise.
   * `undefined` for what is no version at all (`latest`, `aborted-1`): such entries are left out, never fatal.
   */
  static fromPublished(text: string): Version | undefined {
    const [, major, minor, patch, prerelease, build] = PUBLISHED.exec(text) ?? [];
    if (major === undefined) return undefined;
    const numbers = [major, minor ?? '0', patch ?? '0'].map((digits) => digits.replace(/^0+(?=\d)/, '')).join('.');
    return Version.#of(numbers + (prerelease ? `-${prerelease}` : '') + (build ? `+${build}` : ''));
  }

  static #of(text: string): Version | undefined {
    if (text.length > MAX_VERSION_LENGTH) return undefined;
    // Loose, because the clients allow leading zeros in pre-releases (`1.0.0-rc.01`); the patterns above allow no other liberty.
    const parsed = semver.parse(text, { loose: true });
    return parsed ? new Version(text, parsed) : undefined;
  }

  get isPrerelease(): boolean {
    return this.#semver.prerelease.length > 0;
  }

  /** Build metadata, as in `1.0.0+BUILD`. */
  get build(): string | undefined {
    return this.#semver.build.length > 0 ? this.#semver.build.join('.') : undefined;
  }

  /** Total order: precedence by semver 2.0, then build metadata, then spelling. Zero means equal in every character. */
  static compare(a: Version, b: Version): number {
    return (
      Version.comparePrecedence(a, b) ||
      a.#semver.compareBuild(b.#semver) ||
      (a.#text < b.#text ? -1 : Number(a.#text > b.#text))
    );
  }

  /** Precedence by semver 2.0, where build metadata has no weight: `1.0.0+a` and `1.0.0+b` are the same. */
  static comparePrecedence(a: Version, b: Version): number {
    return a.#semver.compare(b.#semver);
  }

  /** The first version of the next major or minor line, without pre-release and build: what `~>` stops short of. */
  next(line: 'major' | 'minor'): Version | undefined {
    const { major, minor } = this.#semver;
    return Version.#of(line === 'major' ? `${major + 1}.0.0` : `${major}.${minor + 1}.0`);
  }

  toString(): string {
    return this.#text;
  }
}
