import type { Logger } from '../logger.ts';
import { metadataKeys } from '../store/keys.ts';
import type { MetadataStore } from '../store/metadata-store.ts';
import { readSealRecord, type SealFile, type SealRecord } from '../store/seal-file.ts';
import { settledWithin } from '../time-limit.ts';

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
}

/** What has to happen when it changes. */
export interface SealEffects {
  /** Ends what is under way. Nothing new is begun by then. Resolves when nothing of it is left. */
  sealed(): Promise<unknown>;
  unsealed(): void;
}

/**
 * Whether Larder is sealed: then nothing leaves it. The configuration says so, or an operator did at run time. The
 * latter is kept in a file of the data directory and in the metadata store, of which the later record counts and
 * replaces the other: neither a lost Redis nor a lost file unseals, and replicas learn of it from either.
 */
export class Seal {
  readonly #configured: boolean;
  readonly #file: Pick<SealFile, 'read' | 'write'>;
  readonly #store: Pick<MetadataStore, 'get' | 'put'>;
  readonly #logger: Logger;
  #known: SealRecord | undefined;
  /** The file says nothing, and nobody else does: it may have said that it is sealed. */
  #isDoubtful = false;
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
  }

  /** @throws StorageFailed when the file cannot be read */
  static async open(deps: SealDeps): Promise<Seal> {
    const seal = new Seal(deps);
    const written = await deps.file.read();
    seal.#known = later(written === 'damaged' ? undefined : written, await seal.#told().catch(() => undefined));
    seal.#isDoubtful = written === 'damaged' && seal.#known === undefined;
    if (seal.#isDoubtful) {
      deps.logger.error('seal.json is damaged: sealed until somebody says otherwise', { command: 'larder seal --off' });
    } else if (seal.isSealed) {
      deps.logger.info('sealed: nothing leaves, what is stored is all there is', { ...seal.state() });
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
    };
  }

  /** From now on changes take effect, those that other replicas make as well. */
  watch(effects: SealEffects, everyMs: number = LOOK_MS): void {
    this.#effects = effects;
    this.#timer ??= setInterval(() => void this.#inTurn(() => this.#look()), everyMs).unref();
  }

  /**
   * Seals or unseals. When it resolves that is kept, and if sealed nothing leaves this replica any more; others follow
   * within seconds.
   * @param by name of a token
   * @returns whether that was a change
   * @throws StorageFailed when it cannot be kept: then nothing has changed
   */
  async set(sealed: boolean, by: string): Promise<boolean> {
    return this.#inTurn(async () => {
      await this.#look();
      if (!this.#isDoubtful && this.isSealed === sealed) return false;
      const record = { sealed, revision: (this.#known?.revision ?? 0) + 1, changedAt: new Date().toISOString(), by };
      await this.#file.write(record);
      await this.#tell(record);
      await this.#adopt(record);
      return true;
    });
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#turn;
  }

  /** Takes up what others changed, and mends what has been lost. Never rejects. */
  async #look(): Promise<void> {
    try {
      const written = await this.#file.read();
      const told = await this.#told().catch(() => undefined);
      const file = written === 'damaged' ? undefined : written;
      const newest = later(later(this.#known, told), file);
      if (!newest) return;
      if (!isSame(newest, file)) await this.#file.write(newest);
      if (!isSame(newest, told)) await this.#tell(newest);
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
    if (this.isSealed === wasSealed) return;
    if (!this.isSealed) {
      this.#effects?.unsealed();
      this.#logger.info('unsealed: upstreams are asked again', { by: record.by });
      return;
    }
    const ended = this.#effects?.sealed().then(() => true);
    if (ended && !(await settledWithin(ended, ENDING_MS))) {
      this.#logger.warn('sealed, but what was under way is slow to end', { waitedMs: ENDING_MS });
    }
    this.#logger.info('sealed: nothing leaves, what is stored is all there is', { by: record.by });
  }

  async #told(): Promise<SealRecord | undefined> {
    return readSealRecord((await this.#store.get(metadataKeys.seal))?.value);
  }

  /** A store that fails is told again at the next look. */
  async #tell(record: SealRecord): Promise<void> {
    const entry = { value: record, fetchedAt: Date.parse(record.changedAt) };
    await this.#store.put(metadataKeys.seal, entry, KEEP_MS).catch((error: unknown) => {
      this.#logger.debug('the metadata store could not be told of the seal', { error });
    });
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
