import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import type { Holds } from '../store/holds.ts';
import type { ModuleStore, StoredPackage } from '../store/module-store.ts';
import type { Quarantine } from '../store/quarantine.ts';
import type { Subject } from '../store/room.ts';
import { unlessAborted } from '../time-limit.ts';

/** While clients are served the next file waits, but no longer than this, in milliseconds: it comes to an end all the same. */
const YIELD_MS = 2_000;
/** It rests as long as it has read, up to this, in milliseconds. */
const MAX_REST_MS = 2_000;
/** Findings that are kept; all of them are logged. */
const MAX_FINDINGS = 1_000;

/** What became of one archive or module package. */
export interface Examined {
  readonly subject: Subject;
  /** Bytes. */
  readonly size: number;
  /** `healed`: damaged, and fetched anew. `quarantined`: damaged, and put aside. */
  readonly state: 'intact' | 'healed' | 'quarantined';
  /** Why it could not be healed. */
  readonly reason?: string;
  /** Where it was put aside. */
  readonly id?: string;
}

/** Fetches what was just put aside, and must be as it was. */
export interface Healer {
  /** Resolves once it is stored. @throws what keeps it from that; IntegrityMismatch when upstream has other bytes by now */
  archive(stored: StoredArchive): Promise<void>;
  package(stored: StoredPackage): Promise<void>;
}

/** One scan, as far as it has come. */
export interface ScrubProgress {
  readonly state: 'running' | 'done' | 'cancelled' | 'failed';
  readonly heals: boolean;
  readonly startedAt: Date;
  readonly endedAt?: Date;
  /** Archives and packages read, and their bytes. */
  readonly checked: number;
  readonly checkedBytes: number;
  /** What there was to read when it began, as far as was known. */
  readonly totalBytes: number;
  readonly healed: number;
  readonly quarantined: number;
  /** The latest of what is not intact. */
  readonly findings: readonly Examined[];
  /** Why it broke off. */
  readonly reason?: string;
}

interface ScrubDeps {
  readonly archives: Pick<ArchiveStore, 'providers' | 'list' | 'peek' | 'verify' | 'quarantine'>;
  readonly packages: Pick<ModuleStore, 'modules' | 'list' | 'peek' | 'verify' | 'quarantine'>;
  readonly quarantine: Pick<Quarantine, 'remove'>;
  readonly healer?: Healer | undefined;
  readonly logger: Logger;
  /** Ends the scan at once, in the middle of whatever it waits for. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads everything that is stored, one after the other, and compares digests. What is damaged is put aside, and never
 * served; with a healer it is fetched again, and what was put aside is removed once that has succeeded.
 *
 * Told to end it waits neither for a file that is being read, of which it then says nothing, nor for one that is being
 * fetched: that comes in as it would for a client, and what was put aside stays there.
 * @throws StorageFailed; the reason of the signal
 */
export async function* examineAll(deps: ScrubDeps): AsyncGenerator<Examined> {
  const { archives, packages, healer } = deps;
  for await (const provider of archives.providers()) {
    for (const stored of await archives.list(provider)) {
      const found = await examine(deps, stored.archive, {
        peek: () => archives.peek(stored.archive),
        verify: (one: StoredArchive) => archives.verify(one),
        quarantine: (one, reason) => archives.quarantine(one, reason),
        heal: healer && ((one) => healer.archive(one)),
      });
      if (found) yield found;
    }
  }
  for await (const module of packages.modules()) {
    for (const stored of await packages.list(module)) {
      const found = await examine(deps, stored.release, {
        peek: () => packages.peek(stored.release),
        verify: (one: StoredPackage) => packages.verify(one),
        quarantine: (one, reason) => packages.quarantine(one, reason),
        heal: healer && ((one) => healer.package(one)),
      });
      if (found) yield found;
    }
  }
}

interface Steps<T> {
  peek(): Promise<T | undefined>;
  verify(stored: T): Promise<boolean>;
  quarantine(stored: T, reason: string): Promise<string | undefined>;
  readonly heal: ((stored: T) => Promise<void>) | undefined;
}

/** A place on the disk that cannot be read any more is damage, and no reason to look at nothing else. @throws StorageFailed */
async function isIntact(verified: Promise<boolean>): Promise<boolean> {
  try {
    return await verified;
  } catch (error) {
    const { cause } = error as { cause?: { code?: unknown } };
    if (cause?.code === 'EIO') return false;
    throw error;
  }
}

const NEVER = new AbortController().signal;

/** `undefined` when it is gone by the time it is read: evicted, or purged. */
async function examine<T extends StoredArchive | StoredPackage>(
  { quarantine, logger, signal = NEVER }: ScrubDeps,
  subject: Subject,
  steps: Steps<T>,
): Promise<Examined | undefined> {
  const stored = await steps.peek();
  if (!stored) return undefined;
  const { size, sha256 } = stored;
  if (await isIntact(unlessAborted(steps.verify(stored), signal))) return { subject, size, state: 'intact' };
  // It may have been replaced while it was read.
  const still = await steps.peek();
  if (!still) return undefined;
  if (await isIntact(unlessAborted(steps.verify(still), signal))) return { subject, size, state: 'intact' };

  const id = await steps.quarantine(still, 'its SHA-256 is not what it was when it was stored');
  if (id === undefined) return undefined;
  logger.warn('damaged, and put into quarantine', { subject: subject.toString(), sha256, id });
  if (!steps.heal) return { subject, size, state: 'quarantined', id };
  try {
    await unlessAborted(steps.heal(still), signal);
  } catch (error) {
    logger.warn('what is damaged could not be fetched anew', { subject: subject.toString(), id, error });
    return { subject, size, state: 'quarantined', id, reason: error instanceof Error ? error.message : String(error) };
  }
  await quarantine.remove(id);
  logger.info('healed: fetched anew as it was', { subject: subject.toString() });
  return { subject, size, state: 'healed' };
}

/** Scans in the background of a running server, one at a time, and makes way for clients. */
export class Scrub {
  readonly #deps: Omit<ScrubDeps, 'healer' | 'signal'>;
  readonly #healer: Healer;
  readonly #holds: Holds;
  readonly #totalBytes: () => number;
  readonly #logger: Logger;
  #progress: ScrubProgress | undefined;
  #running: Promise<void> = Promise.resolve();
  #abort = new AbortController();

  constructor(
    deps: Omit<ScrubDeps, 'healer' | 'signal'> & {
      healer: Healer;
      /** What clients are reading. */
      holds: Holds;
      /** Of everything stored, as far as is known. */
      totalBytes: () => number;
    },
  ) {
    this.#deps = deps;
    this.#healer = deps.healer;
    this.#holds = deps.holds;
    this.#totalBytes = deps.totalBytes;
    this.#logger = deps.logger;
  }

  /** Of the scan that runs, or of the last one since the start. */
  get progress(): ScrubProgress | undefined {
    return this.#progress;
  }

  /** Begins a scan, unless one is running. @returns how far that is, and whether it has begun with this */
  start({ heals }: { heals: boolean }): { readonly progress: ScrubProgress; readonly isNew: boolean } {
    if (this.#progress?.state === 'running') return { progress: this.#progress, isNew: false };
    this.#abort = new AbortController();
    const progress: ScrubProgress = {
      state: 'running',
      heals,
      startedAt: new Date(),
      checked: 0,
      checkedBytes: 0,
      totalBytes: this.#totalBytes(),
      healed: 0,
      quarantined: 0,
      findings: [],
    };
    this.#progress = progress;
    this.#running = this.#run(progress, this.#abort.signal);
    return { progress, isNew: true };
  }

  /** Stops at once; what is being fetched anew comes in all the same. Resolves when it has stopped. */
  async cancel(): Promise<void> {
    this.#abort.abort(new Error('the scan was stopped'));
    await this.#running;
  }

  /** Ends it with the server. */
  close(): Promise<void> {
    return this.cancel();
  }

  async #run(begun: ScrubProgress, signal: AbortSignal): Promise<void> {
    let progress = begun;
    const tell = (change: Partial<ScrubProgress>) => {
      progress = { ...progress, ...change };
      this.#progress = progress;
    };
    try {
      const healer = progress.heals ? this.#healer : undefined;
      let readSince = performance.now();
      for await (const examined of examineAll({ ...this.#deps, healer, signal })) {
        tell(counted(progress, examined));
        await this.#makeWay(performance.now() - readSince, signal);
        if (signal.aborted) break;
        readSince = performance.now();
      }
      tell({ state: signal.aborted ? 'cancelled' : 'done', endedAt: new Date() });
    } catch (error) {
      if (error === signal.reason) {
        tell({ state: 'cancelled', endedAt: new Date() });
      } else {
        this.#logger.error('the scan of what is stored broke off', { error });
        tell({ state: 'failed', endedAt: new Date(), reason: error instanceof Error ? error.message : String(error) });
      }
    }
    const { state, checked, healed, quarantined } = progress;
    this.#logger.info('scanned what is stored', { state, checked, healed, quarantined });
  }

  async #makeWay(readForMs: number, signal: AbortSignal): Promise<void> {
    await delay(Math.min(readForMs, MAX_REST_MS), undefined, { signal }).catch(() => {});
    const until = performance.now() + YIELD_MS;
    while (this.#holds.size > 0 && performance.now() < until && !signal.aborted) await this.#holds.released(100);
  }
}

function counted(progress: ScrubProgress, examined: Examined): Partial<ScrubProgress> {
  const { state, size } = examined;
  return {
    checked: progress.checked + 1,
    checkedBytes: progress.checkedBytes + size,
    healed: progress.healed + (state === 'healed' ? 1 : 0),
    quarantined: progress.quarantined + (state === 'quarantined' ? 1 : 0),
    ...(state !== 'intact' && { findings: [...progress.findings, examined].slice(-MAX_FINDINGS) }),
  };
}
