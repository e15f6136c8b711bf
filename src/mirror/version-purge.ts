import type { MirroredAddress } from '../address/mirrored-address.ts';
import { Version } from '../address/version.ts';
import { isUnused, type Selection } from './inventory.ts';
import type { Pins } from './pins.ts';

/** What a purge has to say of one version, whatever it is a version of. */
export interface Purged {
  /** Nothing of this is removed, because it is pinned. */
  readonly isPinned: boolean;
}

/** Before it was looked at what is pinned. */
export type Planned<P extends Purged> = Omit<P, 'isPinned'>;

/** How purges of one kind of address find what is meant, and remove it. */
export interface PurgeSteps<A extends MirroredAddress, P extends Purged, S extends Selection> {
  addresses(selection: S): AsyncIterable<A>;
  /** What is meant of one address, newest version first. */
  planOf(address: A, selection: S): AsyncIterable<Planned<P>>;
  versionOf(planned: Planned<P>): Version;
  remove(planned: Planned<P>): Promise<void>;
}

/** What purges of providers and of modules have in common: they go version by version, and what is pinned stays. */
export class VersionPurge<
  A extends MirroredAddress,
  P extends Purged,
  S extends Selection & { readonly pinned?: boolean | undefined },
> {
  readonly #steps: PurgeSteps<A, P, S>;
  readonly #pins: Pick<Pins, 'look'> | undefined;

  constructor(deps: {
    steps: PurgeSteps<A, P, S>;
    /** Without, nothing is pinned. */
    pins: Pick<Pins, 'look'> | undefined;
  }) {
    this.#steps = deps.steps;
    this.#pins = deps.pins;
  }

  /** What `run` would remove. Changes nothing. @throws StorageFailed */
  async *plan(selection: S): AsyncGenerator<P> {
    const isPinned = (await this.#pins?.look()) ?? (() => false);
    for await (const address of this.#steps.addresses(selection)) {
      for await (const planned of this.#steps.planOf(address, selection)) {
        const stays = !selection.pinned && isPinned(address, this.#steps.versionOf(planned));
        yield { ...planned, isPinned: stays } as P;
      }
    }
  }

  /** Each version that comes is gone, unless it is pinned; what has not come yet is as it was. @throws StorageFailed */
  async *run(selection: S): AsyncGenerator<P> {
    for await (const planned of this.plan(selection)) {
      if (!planned.isPinned) await this.#steps.remove(planned);
      yield planned;
    }
  }
}

/** Removes what is stored of a version, and forgets what upstream was heard to say of it. */
export async function removeAndForget(steps: {
  forget: () => Promise<void>;
  remove: () => Promise<void>;
}): Promise<void> {
  // Before, so that nobody stores anew what is remembered of it; afterwards for who asked in between.
  await steps.forget();
  await steps.remove();
  await steps.forget();
}

/** Those that nobody used for as long as is meant; all, where that does not matter. @throws StorageFailed */
export async function unusedOf<T>(
  stored: readonly T[],
  selection: Pick<Selection, 'unusedSince'>,
  lastUse: (one: T) => Promise<Date>,
): Promise<readonly T[]> {
  if (!selection.unusedSince) return stored;
  const uses = await Promise.all(stored.map(lastUse));
  return stored.filter((_, index) => isUnused(selection, uses[index] as Date));
}

/** Each once, newest first. */
export function newestFirst(versions: readonly Version[]): readonly Version[] {
  const each = new Map(versions.map((version) => [version.toString(), version]));
  return [...each.values()].sort((a, b) => Version.compare(b, a));
}
