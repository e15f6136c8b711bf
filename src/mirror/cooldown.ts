import { LRUCache } from 'lru-cache';
import pLimit from 'p-limit';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import type { ProviderPattern } from '../address/provider-pattern.ts';
import { Version } from '../address/version.ts';
import type { MetadataRead, ReadOptions } from '../cache/metadata-cache.ts';
import { LarderError, NotFound } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { settledWithin } from '../time-limit.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { type FirstSeen, OF_ANY_AGE } from './first-seen.ts';
import { isForAll } from './upstream-answers.ts';

/** A version that the list does not name may just have been published. Less than what those wait who ask after us. */
const UNLISTED_VERSION_RECHECK_MS = 5_000;
/** Upstream is asked for the date of a version once in this time. */
const ASK_AGAIN_MS = 3_600_000;
/** The same when it gave no answer: soon, for until then its newest versions may pass for old; but not with every list. */
const ASK_AGAIN_AFTER_FAILURE_MS = 60_000;
const ASK_LIMIT_MS = 8_000;
/** A list waits so long for dates: clients wait 10 s in all, and the list itself may have taken 8. */
const PATIENCE_MS = 1_000;
const CONCURRENT_QUESTIONS = 4;
/** The newest of a list that are asked for at the first look. */
const NEWEST = 5;
/** Of one list; the others are asked for with the next. */
const MAX_QUESTIONS = 20;
const MAX_ASKED = 20_000;

/** Which versions have to be how old. */
export interface CooldownRules {
  /** Milliseconds, of what no pattern matches; `undefined`: no age is asked for. */
  readonly default: number | undefined;
  /** The first that matches counts. */
  readonly patterns: readonly { readonly address: ProviderPattern; readonly age: number | undefined }[];
  /** Versions that are there at any age. */
  readonly allow: readonly { readonly address: ProviderPattern; readonly version: Version }[];
}

/** An entry of a list, with its spelling upstream. */
interface Listed {
  readonly version: Version;
  readonly published: string;
}

/** What a list needs to have for its versions to be judged. */
export interface ListedVersions {
  readonly versions: readonly Listed[];
}

/** When upstream says that it published a version, `undefined` when it does not say. */
export type PublicationDate<A extends MirroredAddress> = (
  upstream: Upstream,
  address: A,
  published: string,
  signal: AbortSignal,
) => Promise<Date | undefined>;

/**
 * Keeps versions away until they are old enough: a release that turns out to be malicious or broken is mostly withdrawn
 * within days. A version is as old as upstream says or, where it says nothing, as long as it was seen here.
 */
export class Cooldown<A extends MirroredAddress> {
  readonly #rules: CooldownRules;
  readonly #firstSeen: FirstSeen;
  readonly #publishedAt: PublicationDate<A>;
  readonly #isSealed: () => boolean;
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #limit = pLimit(CONCURRENT_QUESTIONS);
  /** Versions whose date upstream was asked for lately. */
  readonly #asked = new LRUCache<string, true>({ max: MAX_ASKED, ttl: ASK_AGAIN_MS });
  readonly #newest = new WeakMap<ListedVersions, readonly Listed[]>();
  /** What is left of a list without the versions named. */
  readonly #sifted = new WeakMap<ListedVersions, { readonly without: string; readonly list: ListedVersions }>();

  constructor(deps: {
    rules: CooldownRules;
    firstSeen: FirstSeen;
    publishedAt: PublicationDate<A>;
    isSealed: () => boolean;
    logger: Logger;
    now?: () => number;
  }) {
    this.#rules = deps.rules;
    this.#firstSeen = deps.firstSeen;
    this.#publishedAt = deps.publishedAt;
    this.#isSealed = deps.isSealed;
    this.#logger = deps.logger;
    this.#now = deps.now ?? Date.now;
  }

  /** The list without the versions that are too young; the same object for as long as those are the same. */
  async sift<L extends ListedVersions>(
    upstream: Upstream,
    address: A,
    read: Promise<MetadataRead<L>>,
  ): Promise<MetadataRead<L>> {
    const answer = await read;
    const young = await this.#young(upstream, address, answer.value);
    if (young.size === 0) return answer;
    const without = [...young.keys()].join(' ');
    const known = this.#sifted.get(answer.value);
    if (known?.without === without) return { ...answer, value: known.list as L };
    const versions = answer.value.versions.filter(({ version }) => !young.has(version.toString()));
    const list = { ...answer.value, versions };
    this.#sifted.set(answer.value, { without, list });
    return { ...answer, value: list };
  }

  /**
   * That a version is old enough, as far as upstream knows it at all.
   * @throws NotFound naming the date from which it is there; what `list` throws
   */
  async demand(
    upstream: Upstream,
    address: A,
    version: Version,
    list: (options: ReadOptions) => Promise<MetadataRead<ListedVersions>>,
  ): Promise<void> {
    if (this.#ageOf(address) === undefined || this.#isAllowed(address, version)) return;
    const isListed = ({ value }: MetadataRead<ListedVersions>) =>
      value.versions.some((entry) => entry.version.toString() === version.toString());
    let read = await list({});
    if (!isListed(read)) read = await list({ notBefore: this.#now() - UNLISTED_VERSION_RECHECK_MS });
    const until = (await this.#young(upstream, address, read.value)).get(version.toString());
    if (until === undefined) return;
    throw new NotFound(`${address} ${version} is too new for this mirror`, {
      hint: `it is there from ${new Date(until).toISOString()} on (cooldown); who needs it now asks the operator`,
    });
  }

  /** Those that are too young, and until when: milliseconds since the epoch. */
  async #young(upstream: Upstream, address: A, list: ListedVersions): Promise<ReadonlyMap<string, number>> {
    const { versions } = list;
    const age = this.#ageOf(address);
    if (age === undefined || versions.length === 0) return NONE;
    const names = versions.map(({ version }) => version.toString());
    const find = async () => {
      const sightings = await this.#firstSeen.note(address, names);
      const young = new Map<string, number>();
      for (const { version } of versions) {
        const until = (sightings?.get(version.toString()) ?? OF_ANY_AGE) + age;
        if (until > this.#now() && !this.#isAllowed(address, version)) young.set(version.toString(), until);
      }
      const isOpen = ({ version }: Listed) => sightings?.get(version.toString()) === OF_ANY_AGE;
      const isYoung = ({ version }: Listed) => young.has(version.toString());
      return { young, questionable: [...this.#newestOf(list).filter(isOpen), ...versions.filter(isYoung)] };
    };
    const { young, questionable } = await find();
    const told = questionable.length > 0 ? this.#askFor(upstream, address, questionable) : undefined;
    return told && (await settledWithin(told, PATIENCE_MS)) ? (await find()).young : young;
  }

  /** Of a first look: what is new is most likely among these. */
  #newestOf(list: ListedVersions): readonly Listed[] {
    let newest = this.#newest.get(list);
    if (!newest) {
      newest = [...list.versions].sort((a, b) => Version.compare(b.version, a.version)).slice(0, NEWEST);
      this.#newest.set(list, newest);
    }
    return newest;
  }

  /** Whether upstream told anything; `undefined` when it is not asked. */
  #askFor(upstream: Upstream, address: A, listed: readonly Listed[]): Promise<boolean> | undefined {
    if (this.#isSealed() || !isForAll(upstream)) return undefined;
    const unasked = listed.filter(({ version }) => !this.#asked.has(`${address} ${version}`)).slice(0, MAX_QUESTIONS);
    if (unasked.length === 0) return undefined;
    for (const { version } of unasked) this.#asked.set(`${address} ${version}`, true);
    return Promise.all(unasked.map((entry) => this.#limit(() => this.#ask(upstream, address, entry)))).then((told) =>
      told.includes(true),
    );
  }

  /** Never rejects. */
  async #ask(upstream: Upstream, address: A, { version, published }: Listed): Promise<boolean> {
    try {
      const date = await this.#publishedAt(upstream, address, published, AbortSignal.timeout(ASK_LIMIT_MS));
      // One ahead of our clock is of just now: clocks differ.
      const at = date && Math.min(date.getTime(), this.#now());
      await this.#firstSeen.tell(address, version.toString(), at);
      return at !== undefined;
    } catch (error) {
      this.#asked.set(`${address} ${version}`, true, { ttl: ASK_AGAIN_AFTER_FAILURE_MS });
      const level = error instanceof LarderError ? 'debug' : 'error';
      this.#logger[level]('upstream was asked in vain when it published a version', {
        version: `${address} ${version}`,
        error,
      });
      return false;
    }
  }

  #ageOf(address: A): number | undefined {
    return ageOf(this.#rules, address);
  }

  #isAllowed(address: A, version: Version): boolean {
    return isAllowed(this.#rules, address, version);
  }
}

/** Milliseconds that its versions have to be old; `undefined` when they need not be. */
export function ageOf({ patterns, default: otherwise }: CooldownRules, address: MirroredAddress): number | undefined {
  const rule = patterns.find((pattern) => pattern.address.matches(address));
  return rule ? rule.age : otherwise;
}

/** Whether a version is there at any age. */
export function isAllowed({ allow }: CooldownRules, address: MirroredAddress, version: Version): boolean {
  return allow.some((entry) => entry.version.toString() === version.toString() && entry.address.matches(address));
}

const NONE: ReadonlyMap<string, number> = new Map();
