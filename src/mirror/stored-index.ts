import type { MirroredAddress } from '../address/mirrored-address.ts';
import { Version } from '../address/version.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import type { ModuleStore, StoredPackage } from '../store/module-store.ts';
import { settledWithin } from '../time-limit.ts';

/** What was read so recently is not read again before it is shown, in milliseconds. */
const FRESH_MS = 250;
/** Nor is it before it is so many times as old as reading it takes: looking must not keep the disk busy. */
const REST = 20;
/** How long whoever asks waits for a reading, in milliseconds: then what was read before has to do. */
const PATIENCE_MS = 150;
/** The same while nothing was read before. */
const FIRST_PATIENCE_MS = 1_500;
/** Last uses are read again after so long, in milliseconds: that is a look at a file for each archive. */
const USES_MS = 5 * 60_000;

/** One archive or module package, as far as it is searched, sorted and shown. */
export interface StoredRow {
  readonly stored: StoredArchive | StoredPackage;
  readonly address: MirroredAddress;
  readonly version: Version;
  /** `undefined` for packages of modules, which have none. */
  readonly platform: string | undefined;
  /** Milliseconds since 1970, and up to five minutes old. */
  readonly lastUse: number;
  /** What is searched, in lower case. */
  readonly text: string;
}

export type StoredOrder = 'address' | 'size' | 'used' | 'stored';

export interface StoredQuery {
  /** Each of them has to be somewhere in address, version and platform. */
  readonly words?: readonly string[];
  /** What else has to hold. */
  readonly where?: ((row: StoredRow) => boolean) | undefined;
  readonly order?: StoredOrder;
  readonly isDescending?: boolean;
  readonly offset?: number;
  readonly limit: number;
}

export interface StoredPage {
  readonly rows: readonly StoredRow[];
  /** Of all that was asked for, on whatever page. */
  readonly total: number;
  readonly bytes: number;
  /** Whether everything has been read. The first time that takes a while. */
  readonly isWhole: boolean;
}

/** Everything stored under one address. */
interface Home {
  readonly list: readonly unknown[];
  readonly rows: readonly StoredRow[];
  /** By `performance.now()`. */
  readonly usesReadAt: number;
}

/**
 * Everything that is stored, in memory, for pages that are searched and sorted: the stores themselves are made to be
 * asked about one address. Read when somebody looks, and then only what changed: lists that are the same are kept.
 */
export class StoredIndex {
  readonly #archives: Pick<ArchiveStore, 'providers' | 'list' | 'lastUse'>;
  readonly #packages: Pick<ModuleStore, 'modules' | 'list' | 'lastUse'>;
  readonly #logger: Logger;
  #homes = new Map<string, Home>();
  #rows: readonly StoredRow[] | undefined;
  readonly #orders = new Map<StoredOrder, readonly StoredRow[]>();
  #isWhole = false;
  /** By `performance.now()`. */
  #readAt = Number.NEGATIVE_INFINITY;
  /** How long the last reading took, in milliseconds. */
  #tookMs = 0;
  #reading: Promise<unknown> | undefined;
  #isClosed = false;

  constructor(deps: {
    archives: Pick<ArchiveStore, 'providers' | 'list' | 'lastUse'>;
    packages: Pick<ModuleStore, 'modules' | 'list' | 'lastUse'>;
    logger: Logger;
  }) {
    this.#archives = deps.archives;
    this.#packages = deps.packages;
    this.#logger = deps.logger;
  }

  /** Never rejects: while nothing can be read, what was read last is shown. */
  async page({
    words = [],
    where,
    order = 'address',
    isDescending = false,
    offset = 0,
    limit,
  }: StoredQuery): Promise<StoredPage> {
    await this.#refresh();
    const found = this.#ordered(order).filter(
      (row) => words.every((word) => row.text.includes(word)) && (where?.(row) ?? true),
    );
    const at = (index: number) => found[isDescending ? found.length - 1 - index : index];
    const rows = Array.from({ length: Math.max(0, Math.min(limit, found.length - offset)) }, (_, index) =>
      at(offset + index),
    );
    return {
      rows: rows.filter((row) => row !== undefined),
      total: found.length,
      bytes: found.reduce((sum, { stored }) => sum + stored.size, 0),
      isWhole: this.#isWhole,
    };
  }

  /** Resolves when nothing is read any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#reading;
  }

  #ordered(order: StoredOrder): readonly StoredRow[] {
    this.#rows ??= [...this.#homes.values()].flatMap(({ rows }) => rows);
    let ordered = this.#orders.get(order);
    if (!ordered) {
      const compare = COMPARE[order];
      ordered = compare ? this.#rows.toSorted(compare) : this.#rows;
      this.#orders.set(order, ordered);
    }
    return ordered;
  }

  async #refresh(): Promise<void> {
    if (performance.now() - this.#readAt < Math.max(FRESH_MS, REST * this.#tookMs) || this.#isClosed) return;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    await settledWithin(this.#reading, this.#isWhole ? PATIENCE_MS : FIRST_PATIENCE_MS);
  }

  async #read(): Promise<void> {
    const begunAt = performance.now();
    const homes = new Map<string, Home>();
    const put = (key: string, home: Home) => {
      if (home.rows.length > 0) homes.set(key, home);
      // The first time, what was read so far is better than nothing.
      if (!this.#isWhole) this.#show(homes);
    };
    try {
      for await (const provider of this.#archives.providers()) {
        if (this.#isClosed) return;
        const list = await this.#archives.list(provider);
        put(
          `p ${provider}`,
          await this.#home(`p ${provider}`, list, (one) => this.#archives.lastUse(one), archiveRow, newestArchiveFirst),
        );
      }
      for await (const module of this.#packages.modules()) {
        if (this.#isClosed) return;
        const list = await this.#packages.list(module);
        put(
          `m ${module}`,
          await this.#home(`m ${module}`, list, (one) => this.#packages.lastUse(one), packageRow, newestPackageFirst),
        );
      }
      this.#show(homes);
      this.#isWhole = true;
    } catch (error) {
      this.#logger.warn('what is stored could not be listed for the dashboard', { error });
    }
    // The first time it takes longer than ever again.
    this.#tookMs = this.#readAt === Number.NEGATIVE_INFINITY ? 0 : performance.now() - begunAt;
    this.#readAt = performance.now();
  }

  #show(homes: Map<string, Home>): void {
    const isSame =
      this.#isWhole &&
      homes.size === this.#homes.size &&
      [...homes].every(([key, { rows }]) => this.#homes.get(key)?.rows === rows);
    this.#homes = homes;
    if (isSame) return;
    this.#rows = undefined;
    this.#orders.clear();
  }

  async #home<T extends StoredArchive | StoredPackage>(
    key: string,
    list: readonly T[],
    lastUse: (one: T) => Promise<Date>,
    row: (one: T, lastUse: number) => StoredRow,
    compare: (a: T, b: T) => number,
  ): Promise<Home> {
    const known = this.#homes.get(key);
    if (known?.list === list && performance.now() - known.usesReadAt < USES_MS) return known;
    const usesReadAt = performance.now();
    const sorted = list.toSorted(compare);
    const rows = await Promise.all(sorted.map(async (one) => row(one, (await lastUse(one)).getTime())));
    return { list, rows, usesReadAt };
  }
}

/** As they are read, addresses are in order. */
const COMPARE: Readonly<Record<StoredOrder, ((a: StoredRow, b: StoredRow) => number) | undefined>> = {
  address: undefined,
  size: (a, b) => a.stored.size - b.stored.size,
  used: (a, b) => a.lastUse - b.lastUse,
  stored: (a, b) => a.stored.storedAt.getTime() - b.stored.storedAt.getTime(),
};

function archiveRow(stored: StoredArchive, lastUse: number): StoredRow {
  const { provider, version, platform } = stored.archive;
  const text = `${provider} ${provider.hostname.display} ${version} ${platform}`.toLowerCase();
  return { stored, address: provider, version, platform: String(platform), lastUse, text };
}

function packageRow(stored: StoredPackage, lastUse: number): StoredRow {
  const { module, version } = stored.release;
  const text = `${module} ${module.hostname.display} ${version}`.toLowerCase();
  return { stored, address: module, version, platform: undefined, lastUse, text };
}

function newestArchiveFirst(a: StoredArchive, b: StoredArchive): number {
  return (
    Version.compare(b.archive.version, a.archive.version) ||
    (String(a.archive.platform) < String(b.archive.platform) ? -1 : 1)
  );
}

function newestPackageFirst(a: StoredPackage, b: StoredPackage): number {
  return Version.compare(b.release.version, a.release.version);
}

/** Whether it is an archive of a provider. */
export function isArchive(stored: StoredArchive | StoredPackage): stored is StoredArchive {
  return 'archive' in stored;
}
