import type { ModuleRelease } from '../address/module.ts';
import { type LarderError, UpstreamUnreachable } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { RequestOrigin } from '../request-origin.ts';
import type { Leases } from '../store/leases.ts';
import type { ModuleStore, StoredPackage } from '../store/module-store.ts';
import { NO_TRACER, type Tracer } from '../tracer.ts';
import { announcing } from './announcing.ts';
import { DetachedRuns } from './detached-runs.ts';
import { LookUps } from './look-ups.ts';
import { type MakePackage, PackageMaking } from './package-making.ts';
import type { ReadableArchive } from './readable-archive.ts';
import { SingleFlight } from './single-flight.ts';
import { unlessGone } from './unless-gone.ts';

export type { MakePackage } from './package-making.ts';

/** Module packages never change: what is stored is served as it is, what is absent is made once for all who ask. */
export class PackageCache {
  /** What became of reads. */
  readonly counts = new LookUps();
  readonly #store: ModuleStore;
  readonly #leases: Leases | undefined;
  readonly #timeLimitMs: number;
  readonly #tracer: Tracer;
  readonly #announce: (stored: StoredPackage) => void;
  readonly #lookUps = new SingleFlight<StoredPackage | undefined>();
  readonly #makings: DetachedRuns<PackageMaking>;

  constructor(deps: {
    store: ModuleStore;
    /** Shared with the other replicas over that store, if there may be any. Stay open, too. */
    leases?: Leases | undefined;
    logger: Logger;
    tracer?: Tracer | undefined;
    /** Packages made at a time; further ones wait for their turn. */
    concurrent: number;
    /** How long one may take to make, from its turn on. */
    timeLimitMs: number;
    /** Told of each package that has come into the store. */
    onStored?: (stored: StoredPackage) => void;
  }) {
    this.#store = deps.store;
    this.#leases = deps.leases;
    this.#timeLimitMs = deps.timeLimitMs;
    this.#tracer = deps.tracer ?? NO_TRACER;
    this.#announce = announcing({
      tell: deps.onStored,
      describe: ({ release }) => ({ module: release.toString() }),
      logger: deps.logger,
    });
    this.#makings = new DetachedRuns({
      concurrent: deps.concurrent,
      shuttingDown: ({ release }) => shuttingDown(release),
    });
  }

  /** Packages that are being made or wait for their turn. */
  get makings(): number {
    return this.#makings.size;
  }

  /** Those that wait for their turn. */
  get waiting(): number {
    return this.#makings.waiting;
  }

  isMaking(release: ModuleRelease): boolean {
    return this.#makings.get(release.toString()) !== undefined;
  }

  /** Stored; starts nothing. @throws StorageFailed */
  find(release: ModuleRelease): Promise<StoredPackage | undefined> {
    // Shared, so that readers who come together go on together: into one making, and into its failure.
    return this.#lookUps.run(release.toString(), () => this.#store.find(release));
  }

  /**
   * Stored: at once. Being made: joined. Absent: made, detached from whoever asked. Failures reach everybody who waits,
   * and are not remembered.
   * @param origin the request that it is read for
   * @throws what `make` throws; UpstreamUnreachable when it takes too long; IntegrityMismatch when another package was
   *   made under this version before; StorageFailed
   */
  async read(release: ModuleRelease, make: MakePackage, origin?: RequestOrigin | undefined): Promise<StoredPackage> {
    const key = release.toString();
    const making = this.#makings.get(key);
    if (making) {
      this.counts.coalesced += 1;
      return making.stored;
    }
    const stored = await this.find(release);
    if (stored) {
      this.counts.hits += 1;
      return stored;
    }
    this.counts[this.#makings.get(key) ? 'coalesced' : 'misses'] += 1;
    return this.#begin(release, make, origin).stored;
  }

  /** A stored package, as something to send. @param again has it once more, when it is evicted before it is sent */
  readable(stored: StoredPackage, again?: () => Promise<StoredPackage>): ReadableArchive {
    const readable = this.#readable(stored);
    return again ? unlessGone(readable, async () => this.#readable(await again())) : readable;
  }

  /** Resolves when no package is being made any more, or after `timeoutMs`. */
  drain(timeoutMs: number): Promise<void> {
    return this.#makings.drain(timeoutMs);
  }

  /** Gives up what is being made now, and what waits. Everybody who waits gets the reason. Resolves when nothing of it is left. */
  breakOff(reason: (release: ModuleRelease) => LarderError): Promise<void> {
    return this.#makings.breakOff(({ release }) => reason(release));
  }

  /** Gives up what is still being made, and all that comes. Resolves when nothing of it is left. */
  close(): Promise<void> {
    return this.#makings.close();
  }

  #readable(stored: StoredPackage): ReadableArchive {
    return {
      state: 'stored',
      size: stored.size,
      sha256: stored.sha256,
      storedAt: stored.storedAt,
      ...(this.#store.link && { link: async () => this.#store.link?.(stored) }),
      stream: (range) => this.#store.read(stored, range),
    };
  }

  #begin(release: ModuleRelease, make: MakePackage, origin: RequestOrigin | undefined): PackageMaking {
    return this.#makings.join(release.toString(), (onEnd) => {
      return new PackageMaking({
        release,
        store: this.#store,
        leases: this.#leases,
        span: this.#tracer.begin('package making', {
          parent: origin?.trace,
          attributes: { 'larder.module': release.toString() },
        }),
        make,
        timeLimitMs: this.#timeLimitMs,
        onEnd: (stored) => {
          onEnd();
          if (stored) this.#announce(stored);
        },
      });
    });
  }
}

function shuttingDown(release: ModuleRelease): UpstreamUnreachable {
  return new UpstreamUnreachable('Larder', 'busy', `is shutting down and makes no package of ${release} any more`);
}
