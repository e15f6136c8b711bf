import type { MirroredAddress } from '../address/mirrored-address.ts';
import { Version } from '../address/version.ts';
import type { VersionConstraint } from '../address/version-constraint.ts';
import { ageOf, type CooldownRules, isAllowed } from './cooldown.ts';
import type { FirstSeen } from './first-seen.ts';

/** A version that is kept away until it is old enough. */
export interface TooNewVersion {
  readonly version: Version;
  /** It is there from then on. */
  readonly until: Date;
}

/** Which versions will do. */
export type Accepting = Pick<VersionConstraint, 'select'>;

/** No other than this one. */
export function exactly(version: Version): Accepting {
  return { select: (versions) => versions.filter((one) => one.toString() === version.toString()) };
}

/**
 * Tells what is absent because it is too new (cooldown) from what does not exist. It goes by what was seen of upstream
 * so far, and asks nobody.
 */
export class TooNewVersions {
  readonly #rules: CooldownRules;
  readonly #firstSeen: Pick<FirstSeen, 'note'>;
  readonly #now: () => number;

  constructor(deps: { rules: CooldownRules; firstSeen: Pick<FirstSeen, 'note'>; now?: () => number }) {
    this.#rules = deps.rules;
    this.#firstSeen = deps.firstSeen;
    this.#now = deps.now ?? Date.now;
  }

  /** The first that will be there of all that are accepted; `undefined` when one is there already, or none was ever seen. */
  async find(address: MirroredAddress, constraint: Accepting): Promise<TooNewVersion | undefined> {
    const age = ageOf(this.#rules, address);
    const sightings = age === undefined ? undefined : await this.#firstSeen.note(address, []);
    if (age === undefined || !sightings) return undefined;
    const accepted = constraint
      .select([...sightings.keys()].map((name) => Version.parse(name)))
      .map((version) => ({ version, until: new Date((sightings.get(version.toString()) ?? 0) + age) }));
    const isHere = ({ version, until }: TooNewVersion) =>
      until.getTime() <= this.#now() || isAllowed(this.#rules, address, version);
    if (accepted.some(isHere)) return undefined;
    return accepted.sort((a, b) => a.until.getTime() - b.until.getTime())[0];
  }
}

/** `is too new for this mirror; it is there from DATE on (cooldown)`, with its version before that. */
export function tooNewWords({ version, until }: TooNewVersion): string {
  return `${version} is too new for this mirror; it is there from ${until.toISOString()} on (cooldown)`;
}
