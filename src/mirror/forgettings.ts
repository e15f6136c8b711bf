import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Logger } from '../logger.ts';
import { metadataKeys } from '../store/keys.ts';
import type { MetadataStore } from '../store/metadata-store.ts';

/** How long it takes at most until a replica hears of it, in milliseconds. */
const LOOK_MS = 2_000;
/** What is forgotten within this time is written down together, in milliseconds. */
const GATHER_MS = 50;
/** Some 20 KB. Who missed more forgets everything that is in memory. */
const MAX_ENTRIES = 200;
/** Who did not look for so long may have missed something, in milliseconds. */
const KEEP_MS = 86_400_000;
/** For so long somebody who wrote at the same moment may have overwritten what we wrote, in milliseconds. */
const UNSURE_MS = 10_000;

/** A key of the metadata store, an archive or a module version of which drift is settled, or all there is. */
export type Forgotten = { readonly key: string } | { readonly subject: string } | { readonly all: true };

/** What has to happen here when it was forgotten elsewhere. Memory only: what is stored stays. */
export interface ForgetEffects {
  forget(key: string): void;
  settle(subject: string): void;
  forgetAll(): void;
}

const journalShape = z.array(
  z.object({
    id: z.string(),
    about: z.union([
      z.object({ key: z.string() }),
      z.object({ subject: z.string() }),
      z.object({ all: z.literal(true) }),
    ]),
  }),
);

type Entry = z.infer<typeof journalShape>[number];

/** What was forgotten here, until it is certain that the others can know. */
interface Pending extends Entry {
  /** By `performance.now()`; `undefined` while it was not written. */
  writtenAt?: number;
  /** The store was away: it may not have heard of it either. */
  isLate?: boolean;
}

/**
 * What operators had forgotten, told to all replicas that share a metadata store: a journal of the last of it, at which
 * each looks every two seconds. Writers may overwrite each other; each sees that its own is missing, and writes it again.
 * Nothing here rejects: while the store is away it is told later.
 */
export class Forgettings {
  readonly #store: Pick<MetadataStore, 'get' | 'put' | 'delete'>;
  readonly #logger: Logger;
  readonly #replica = randomUUID();
  #effects: ForgetEffects | undefined;
  #written = 0;
  #pending: Pending[] = [];
  /** The last entry that is known here, if there ever was one. */
  #last: string | undefined;
  /** It was looked at least once. */
  #isInformed = false;
  #lookedAt = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #gathering: NodeJS.Timeout | undefined;
  #turn: Promise<void> = Promise.resolve();

  private constructor(deps: ForgettingsDeps) {
    this.#store = deps.store;
    this.#logger = deps.logger;
  }

  /** What was forgotten before is nothing to those who remember nothing yet. */
  static async open(deps: ForgettingsDeps): Promise<Forgettings> {
    const forgettings = new Forgettings(deps);
    await forgettings.look();
    return forgettings;
  }

  /** Takes up what others forget from now on. */
  watch(effects: ForgetEffects, everyMs: number = LOOK_MS): void {
    this.#effects = effects;
    this.#timer ??= setInterval(() => void this.look(), everyMs).unref();
  }

  /** Tells the others, soon. Here it has been forgotten already. */
  note(about: Forgotten): void {
    this.#written += 1;
    this.#pending.push({ id: `${this.#replica}:${this.#written}`, about });
    if (this.#pending.length > MAX_ENTRIES / 2) {
      this.#pending = [{ id: `${this.#replica}:${this.#written}`, about: { all: true } }];
    }
    this.#gathering ??= setTimeout(() => void this.look(), GATHER_MS).unref();
  }

  /** Takes up what others forgot, and tells what they have not heard yet. */
  look(): Promise<void> {
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    this.#turn = this.#turn.then(() => this.#look());
    return this.#turn;
  }

  /** Tells what has not been told yet, if the store answers. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    if (this.#pending.some(({ writtenAt }) => writtenAt === undefined)) await this.look();
    await this.#turn;
  }

  async #look(): Promise<void> {
    try {
      const journal = journalShape.safeParse((await this.#store.get(metadataKeys.forgettings))?.value).data ?? [];
      this.#takeUp(journal);
      await this.#tell(journal);
    } catch (error) {
      for (const one of this.#pending) one.isLate ||= one.writtenAt === undefined;
      this.#logger.debug('it could not be found out, or told, what was forgotten', { error });
    }
  }

  #takeUp(journal: readonly Entry[]): void {
    const wasLong = performance.now() - this.#lookedAt > KEEP_MS;
    this.#lookedAt = performance.now();
    const known = journal.findIndex(({ id }) => id === this.#last);
    // Nothing was ever forgotten before the first of these.
    const isWhole = this.#isInformed && this.#last === undefined && journal.length < MAX_ENTRIES;
    const hasGap = journal.length > 0 && known < 0 && !isWhole;
    this.#last = journal.at(-1)?.id ?? this.#last;
    this.#isInformed = true;
    if (wasLong || hasGap) {
      this.#effects?.forgetAll();
      return;
    }
    for (const { id, about } of journal.slice(known + 1)) {
      if (!id.startsWith(this.#replica)) this.#forget(about);
    }
  }

  #forget(about: Forgotten): void {
    if ('key' in about) this.#effects?.forget(about.key);
    else if ('subject' in about) this.#effects?.settle(about.subject);
    else this.#effects?.forgetAll();
  }

  async #tell(journal: readonly Entry[]): Promise<void> {
    const now = performance.now();
    const present = new Set(journal.map(({ id }) => id));
    const isSure = ({ id, writtenAt = now }: Pending) => present.has(id) && now - writtenAt > UNSURE_MS;
    this.#pending = this.#pending.filter((one) => !isSure(one));
    const missing = this.#pending.filter(({ id }) => !present.has(id));
    if (missing.length === 0) return;
    for (const { about, isLate } of missing) {
      if (!isLate) continue;
      // It may have told us again what it was to forget.
      if ('key' in about) await this.#store.delete(about.key);
      this.#forget(about);
    }
    const value = [...journal, ...missing.map(({ id, about }) => ({ id, about }))].slice(-MAX_ENTRIES);
    await this.#store.put(metadataKeys.forgettings, { value, fetchedAt: Date.now() }, KEEP_MS);
    for (const one of missing) {
      one.writtenAt = now;
      one.isLate = false;
    }
    this.#last = value.at(-1)?.id;
  }
}

export interface ForgettingsDeps {
  /** Shared by all replicas. */
  readonly store: Pick<MetadataStore, 'get' | 'put' | 'delete'>;
  readonly logger: Logger;
}
