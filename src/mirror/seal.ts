import { StorageFailed } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { metadataKeys } from '../store/keys.ts';
import type { MetadataStore } from '../store/metadata-store.ts';
import { readSealRecord, type SealFile, type SealRecord } from '../store/seal-file.ts';
import { settledWithin } from '../time-limit.ts';
import { Opening } from './opening.ts';

/** How long it takes at most until a replica sees that another one was sealed, in milliseconds. */
const LOOK_MS = 2_000;
/** What is under way gets this long to be gone, in milliseconds: more than a maker of packages that does not listen. */
const ENDING_MS = 15_000;
/** Whoever finds it missing puts it there again. */
const KEEP_MS = 365 * 86_400_000;

/** Whether anything may leave, and who said so. */
export interface SealState {
  readonly sealed: boolean;
  /** By the configuration: nobody can undo it while Larder runs. */
  readonly configured: boolean;
  /** ISO 8601, and the name of a token: of the last change at run time. */
  readonly changedAt?: string;
  readonly by?: string;
  /** It was sealed while this was on its way outside, and not all of it has ended yet. */
  readonly underWay?: readonly string[];
  /** The metadata store could not be told yet: replicas that share no data directory go on as before until it is. */
  readonly unshared?: true;
  /** Neither file nor metadata store could tell whether it was sealed before: it is taken not to be. */
  readonly unknown?: true;
}

/** What has to happen when it changes. */
export interface SealEffects {
  /**
   * Ends what is under way, kind by kind, with names that people can read. Nothing new is begun by then. Each resolves when
   * nothing of its kind is left.
   */
  sealed(): Readonly<Record<string, Promise<unknown>>>;
  unsealed(): void;
}

/**
 * Whether Larder is sealed: then nothing leaves it. The configuration says so, or an operator did at run time. The
 * latter is kept in a file of the data directory and in the metadata store, of which the later record counts and
 * replaces the other: neither a lost Redis nor a lost file unseals, and replicas learn of it from either.
 */
export class Seal {
  /** For work that waits until it is open. */
  readonly opening = new Opening();
  readonly #configured: boolean;
  readonly #file: Pick<SealFile, 'read' | 'write'>;
  readonly #store: Pick<MetadataStore, 'get' | 'put'>;
  readonly #logger: Logger;
  readonly #endingMs: number;
  readonly #tellOthers: () => Promise<void>;
  #known: SealRecord | undefined;
  /** The file says nothing, and nobody else does: it may have said that it is sealed. */
  #isDoubtful = false;
  /** There is no file, and the store does not answer: it may say that it is sealed. */
  #isUnknown = false;
  /** The store did not take the last record. */
  #isUnshared = false;
  /** What was under way when it was sealed, and still is. */
  #ending: ReadonlySet<string> = new Set();
  #effects: SealEffects | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isFailing = false;
  /** One change or look at a time. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(deps: SealDeps) {
    this.#configured = deps.configured;
    this.#file = deps.file;
    this.#store = deps.store;
    this.#logger = deps.logger;
    this.#endingMs = deps.endingMs ?? ENDING_MS;
    this.#tellOthers = deps.tellOthers ?? (async () => {});
  }

  /** @throws StorageFailed when the file cannot be read */
  static async open(deps: SealDeps): Promise<Seal> {
    const seal = new Seal(deps);
    const written = await deps.file.read();
    let silence: unknown;
    const told = await seal.#told().catch((error: unknown) => {
      silence = error;
      return undefined;
    });
    seal.#known = later(written === 'damaged' ? undefined : written, told);
    seal.#isDoubtful = written === 'damaged' && seal.#known === undefined;
    seal.#isUnknown = silence !== undefined && written === undefined && !deps.configured;
    if (seal.isSealed) seal.opening.seal();
    if (seal.#isDoubtful) {
      deps.logger.error('seal.json is damaged: sealed until somebody says otherwise', { command: 'larder seal --off' });
    } else if (seal.isSealed) {
      deps.logger.info('sealed: nothing leaves, what is stored is all there is', { ...seal.state() });
    } else if (seal.#isUnknown) {
      deps.logger.error(
        'NOT SEALED, although it may have been: there is no seal.json, and the metadata store does not answer. ' +
          'Upstreams are asked until it does; sealed: true in the configuration keeps that from happening',
        { error: silence },
      );
    }
    return seal;
  }

  get isSealed(): boolean {
    return this.#configured || this.#isDoubtful || (this.#known?.sealed ?? false);
  }

  state(): SealState {
    const { changedAt, by } = this.#known ?? {};
    return {
      sealed: this.isSealed,
      configured: this.#configured,
      ...(changedAt !== undefined && { changedAt }),
      ...(by !== undefined && { by }),
      ...(this.#ending.size > 0 && { underWay: [...this.#ending] }),
      ...(this.#isUnshared && { unshared: true }),
      ...(this.#isUnknown && { unknown: true }),
    };
  }

  /** Resolves when it is known whether to be sealed. @throws StorageFailed */
  async check(): Promise<void> {
    if (!this.#isUnknown) return;
    throw new StorageFailed('finding out whether this mirror was sealed', undefined);
  }

  /** From now on changes take effect, those that other replicas make as well. */
  watch(effects: SealEffects, everyMs: number = LOOK_MS): void {
    this.#effects = effects;
    this.#timer ??= setInterval(() => void this.#inTurn(() => this.#look()), everyMs).unref();
  }

  /**
   * Seals or unseals. When it resolves that is kept, and if sealed nothing new leaves this replica any more. What was on its
   * way has ended, or could not be ended within 15 s: then `state()` tells what that is. Other workers of this machine have
   * followed by then; other replicas follow within seconds, unless `state()` tells that they could not be told.
   * @param by name of a token
   * @returns whether that was a change
   * @throws StorageFailed when it cannot be kept: then nothing has changed
   */
  async set(sealed: boolean, by: string): Promise<boolean> {
    // Awaited out of turn: others may be telling us meanwhile.
    let told: Promise<void> | undefined;
    const hasChanged = await this.#inTurn(async () => {
      await this.#look();
      const isSure = !this.#isDoubtful && !this.#isUnknown;
      if (isSure && this.isSealed === sealed) return false;
      const now = new Date();
      // Who does not know how many changes there were counts from the clock: there was never one a second.
      const counted = Math.max(this.#known?.revision ?? 0, isSure ? 0 : Math.floor(now.getTime() / 1_000));
      const record = { sealed, revision: counted + 1, changedAt: now.toISOString(), by };
      await this.#file.write(record);
      await this.#tell(record);
      told = this.#tellOthers();
      await this.#adopt(record);
      return true;
    });
    await told;
    return hasChanged;
  }

  /** Takes up what others changed just now. Never rejects. */
  async look(): Promise<void> {
    await this.#inTurn(() => this.#look());
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#turn;
  }

  /** Takes up what others changed, and mends what has been lost. Never rejects. */
  async #look(): Promise<void> {
    try {
      const written = await this.#file.read();
      const told = await this.#heard();
      const file = written === 'damaged' ? undefined : written;
      const newest = later(later(this.#known, told), file);
      if (!newest) return;
      if (!isSame(newest, file)) await this.#file.write(newest);
      if (isSame(newest, told)) this.#isUnshared = false;
      else await this.#tell(newest);
      if (!isSame(newest, this.#known)) await this.#adopt(newest);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#logger.warn('it could not be found out whether to be sealed', { error });
      this.#isFailing = true;
    }
  }

  async #adopt(record: SealRecord): Promise<void> {
    const wasSealed = this.isSealed;
    this.#known = record;
    this.#isDoubtful = false;
    this.#isUnknown = false;
    if (this.isSealed === wasSealed) return;
    if (!this.isSealed) {
      this.#ending = new Set();
      this.#effects?.unsealed();
      this.opening.unseal();
      this.#logger.info('unsealed: upstreams are asked again', { by: record.by });
      return;
    }
    this.opening.seal();
    await settledWithin(this.#endAll(), this.#endingMs);
    if (this.#ending.size > 0) {
      const { underWay } = this.state();
      this.#logger.warn('sealed, but what was under way is slow to end', { underWay, waitedMs: this.#endingMs });
    }
    this.#logger.info('sealed: nothing leaves, what is stored is all there is', { by: record.by });
  }

  /** Resolves when nothing is under way any more, if ever. Never rejects. */
  async #endAll(): Promise<void> {
    const ends = Object.entries(this.#effects?.sealed() ?? {});
    const ending = new Set(ends.map(([what]) => what));
    this.#ending = ending;
    await Promise.all(
      ends.map(async ([what, end]) => {
        try {
          await end;
          ending.delete(what);
        } catch (error) {
          // Nobody knows whether it has ended.
          this.#logger.error('what was under way could not be ended', { underWay: what, error });
        }
      }),
    );
  }

  /** What the store says; `undefined` also when it does not answer. */
  async #heard(): Promise<SealRecord | undefined> {
    try {
      const told = await this.#told();
      if (this.#isUnknown) this.#logger.info('the metadata store answers: it is known whether to be sealed');
      this.#isUnknown = false;
      return told;
    } catch {
      return undefined;
    }
  }

  async #told(): Promise<SealRecord | undefined> {
    return readSealRecord((await this.#store.get(metadataKeys.seal))?.value);
  }

  /** A store that fails is told again at the next look. */
  async #tell(record: SealRecord): Promise<void> {
    const entry = { value: record, fetchedAt: Date.parse(record.changedAt) };
    try {
      await this.#store.put(metadataKeys.seal, entry, KEEP_MS);
      this.#isUnshared = false;
    } catch (error) {
      const level = this.#isUnshared ? 'debug' : 'warn';
      this.#logger[level]('the metadata store could not be told of the seal: other replicas do not follow yet', {
        error,
      });
      this.#isUnshared = true;
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => {});
    return turn;
  }
}

export interface SealDeps {
  /** The configuration's `sealed`. */
  readonly configured: boolean;
  readonly file: Pick<SealFile, 'read' | 'write'>;
  readonly store: Pick<MetadataStore, 'get' | 'put'>;
  /** How long is waited for what is under way, in milliseconds. */
  readonly endingMs?: number;
  /** Has the other workers of this machine `look`. Never rejects. */
  readonly tellOthers?: (() => Promise<void>) | undefined;
  readonly logger: Logger;
}

/** Replicas that change it at the same moment give the same number: then it is sealed. */
function later(one: SealRecord | undefined, other: SealRecord | undefined): SealRecord | undefined {
  if (!one || !other) return one ?? other;
  if (one.revision !== other.revision) return one.revision > other.revision ? one : other;
  return other.sealed ? other : one;
}

function isSame(one: SealRecord, other: SealRecord | undefined): boolean {
  return one.revision === other?.revision && one.sealed === other.sealed;
}
