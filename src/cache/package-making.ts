import type { ModuleRelease } from '../address/module.ts';
import { type LarderError, UpstreamUnreachable } from '../errors.ts';
import { leaseKeys } from '../store/keys.ts';
import type { Lease, Leases } from '../store/leases.ts';
import type { MadePackage, ModuleStore, StoredPackage, WorkDirectory } from '../store/module-store.ts';
import { settledWithin, unlessAborted } from '../time-limit.ts';
import type { Span } from '../tracer.ts';
import type { DetachedRun } from './detached-runs.ts';
import { turnToMake } from './replica-turn.ts';

/** Who makes a package gets this long to stop once told to, before its directory is removed under its hands. */
const GRACE_MS = 10_000;

/** Makes a package in a directory of its own, and stops when the signal aborts. */
export type MakePackage = (work: WorkDirectory, signal: AbortSignal) => Promise<MadePackage>;

/**
 * Makes one package and puts it into the store, unless another replica does. It belongs to nobody who waits for it: it goes on when they
 * hang up.
 */
export class PackageMaking implements DetachedRun {
  readonly release: ModuleRelease;
  readonly #store: ModuleStore;
  readonly #leases: Leases | undefined;
  readonly #make: MakePackage;
  readonly #timeLimitMs: number;
  readonly #span: Span | undefined;
  readonly #onEnd: (stored: StoredPackage | undefined) => void;
  readonly #abort = new AbortController();
  readonly #stored: Promise<StoredPackage>;
  #settle: { resolve(stored: StoredPackage): void; reject(reason: unknown): void } | undefined;
  #hasBegun = false;

  constructor(deps: {
    release: ModuleRelease;
    store: ModuleStore;
    /** Shared with other replicas, if there may be any. */
    leases?: Leases | undefined;
    /** Ends with it. */
    span?: Span | undefined;
    make: MakePackage;
    /** For the making alone; it counts from its turn on. */
    timeLimitMs: number;
    /** Called once, before anybody who waits hears of the end. Told of the package when it is new. */
    onEnd: (stored: StoredPackage | undefined) => void;
  }) {
    this.release = deps.release;
    this.#store = deps.store;
    this.#leases = deps.leases;
    this.#span = deps.span;
    this.#make = deps.make;
    this.#timeLimitMs = deps.timeLimitMs;
    this.#onEnd = deps.onEnd;
    this.#stored = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // Perhaps nobody waits any more.
    this.#stored.catch(() => {});
  }

  get stored(): Promise<StoredPackage> {
    return this.#stored;
  }

  /** Gives up, unless the package is already on its way into the store; everybody who waits gets `reason`. */
  abort(reason: LarderError): void {
    this.#abort.abort(reason);
    if (!this.#hasBegun) this.#fail(reason);
  }

  /** Runs until nothing is left of it but what was stored. Those who wait hear of the end before. Never rejects. */
  async run(): Promise<void> {
    const { signal } = this.#abort;
    let work: WorkDirectory | undefined;
    let making: Promise<MadePackage> | undefined;
    let lease: Lease | undefined;
    this.#hasBegun = true;
    try {
      // Another making may have ended between the reader's look into the store and this one's turn.
      const present = signal.aborted ? undefined : await this.#store.find(this.release);
      if (present) return this.#succeed(present, { isNew: false });
      signal.throwIfAborted();
      const turn = await this.#turn();
      if ('made' in turn) return this.#succeed(turn.made, { isNew: false });
      lease = turn.lease;
      work = await this.#store.workDirectory();
      making = this.#begin(work);
      const made = await this.#inTime(making);
      const stored = await this.#store.put(this.release, made);
      await lease?.release();
      this.#succeed(stored, { isNew: true });
    } catch (error) {
      // Before anybody hears of it, who might want it made again.
      await lease?.release();
      this.#fail(error);
    } finally {
      // Its end, good or bad, has been told.
      if (making) await settledWithin(Promise.allSettled([making]), GRACE_MS);
      await work?.remove();
    }
  }

  async #turn(): Promise<{ made: StoredPackage } | { lease: Lease | undefined }> {
    if (!this.#leases) return { lease: undefined };
    const find = () => this.#store.find(this.release);
    return turnToMake(this.#leases, leaseKeys.modulePackage(this.release), { find, signal: this.#abort.signal });
  }

  /** A maker that throws before its first `await` rejects all the same. */
  async #begin(work: WorkDirectory): Promise<MadePackage> {
    return this.#make(work, this.#abort.signal);
  }

  /** Also ends when the maker does not listen to its signal. */
  async #inTime(making: Promise<MadePackage>): Promise<MadePackage> {
    const { signal } = this.#abort;
    const timer = setTimeout(() => this.#abort.abort(tookTooLong(this.release, this.#timeLimitMs)), this.#timeLimitMs);
    try {
      return await unlessAborted(making, signal);
    } catch (error) {
      // Whatever a maker throws because it was told to stop says less than why it was.
      throw signal.aborted ? signal.reason : error;
    } finally {
      clearTimeout(timer);
    }
  }

  #succeed(stored: StoredPackage, { isNew }: { isNew: boolean }): void {
    this.#end(isNew ? stored : undefined)?.resolve(stored);
    this.#span?.end({ attributes: { 'larder.bytes': stored.size, 'larder.new': isNew } });
  }

  #fail(reason: unknown): void {
    const settle = this.#end(undefined);
    // Given up before it began, it may be told once more.
    if (!settle) return;
    settle.reject(reason);
    this.#span?.end({ error: reason });
  }

  #end(stored: StoredPackage | undefined) {
    const settle = this.#settle;
    if (settle) this.#onEnd(stored);
    this.#settle = undefined;
    return settle;
  }
}

function tookTooLong({ module, version }: ModuleRelease, ms: number): UpstreamUnreachable {
  return new UpstreamUnreachable(
    String(module.hostname),
    'timeout',
    `has ${module.written} ${version}, of which no package could be made within ${ms / 1000} s`,
  );
}
