import { statfs } from 'node:fs/promises';
import { Counter, type Registry } from 'prom-client';
import { settledWithin } from '../time-limit.ts';
import { counterOf, gaugeOf } from './read-at-scrape.ts';

/** A disk that is slower than this is not waited for, in milliseconds. */
const DISK_MS = 1_000;

/** Work of one kind. */
export interface ObservedQueue {
  /** What is under way, and what waits for its turn. */
  readonly all: () => number;
  readonly waiting: () => number;
}

/** What goes on inside, looked up when somebody asks. */
export interface ObservedWork {
  readonly downloads: ObservedQueue;
  /** Module packages that are made. */
  readonly packages: ObservedQueue;
  /** Archives whose package hash waits to be computed. */
  readonly hashesWaiting: () => number;
  /** Jobs that warm, on this replica. */
  readonly warmJobs: () => number;
  readonly drift: () => number;
  readonly sealed: () => boolean;
  /** Bytes of what is stored, the most that they may be, and how much was evicted since the start. */
  readonly disk: () => { readonly used: number; readonly limit: number | undefined; readonly evictions: number };
  /** The data directory. */
  readonly data: string;
  /** Leases that this replica gave itself since the start, because it could not ask the others. */
  readonly leasesUnshared: () => number;
}

/** Tells of work under way, of the disk and of the state of the mirror. */
export function observeWork(registry: Registry, observed: ObservedWork): void {
  const gauge = (name: string, help: string, read: () => number) => gaugeOf(registry, { name, help, read });
  /** Of what all workers share, each of them tells the whole; of drift, what it has noticed itself. */
  const shared = (name: string, help: string, read: () => number) =>
    gaugeOf(registry, { name, help, together: 'max', read });
  const { downloads, packages } = observed;
  gauge('larder_downloads_in_progress', 'Archives that are arriving from upstream or wait for it.', downloads.all);
  gauge('larder_downloads_waiting', 'Archives that wait for their turn to be downloaded.', downloads.waiting);
  gauge('larder_packages_in_progress', 'Module packages that are being made or wait for it.', packages.all);
  gauge('larder_packages_waiting', 'Module packages that wait for their turn to be made.', packages.waiting);
  gauge('larder_hashes_waiting', 'Archives that wait for their package hash to be computed.', observed.hashesWaiting);
  gauge('larder_warm_jobs', 'Jobs that warm, and run here.', observed.warmJobs);
  shared('larder_sealed', '1 while nothing leaves for any upstream.', () => (observed.sealed() ? 1 : 0));
  shared(
    'larder_drift',
    'Archives and module versions of which upstream now publishes other bytes than it first did.',
    observed.drift,
  );
  shared('larder_disk_bytes', 'Bytes that archives and module packages take up.', () => observed.disk().used);
  if (observed.disk().limit !== undefined) {
    const limit = () => observed.disk().limit ?? 0;
    shared('larder_disk_limit_bytes', 'Bytes that archives and module packages may take up.', limit);
  }
  gaugeOf(registry, {
    name: 'larder_disk_free_bytes',
    help: 'Bytes that are free, for Larder, on the file system of the data directory.',
    together: 'min',
    read: async () => {
      const free = await settledWithin(freeBytes(observed.data), DISK_MS);
      return free === undefined ? [] : free;
    },
  });
  counterOf(registry, {
    name: 'larder_evictions_total',
    help: 'Archives and module packages that were removed to make room.',
    read: () => observed.disk().evictions,
  });
  counterOf(registry, {
    name: 'larder_leases_unshared_total',
    help: 'Fetches and makings that were begun without asking the other replicas, because Redis did not answer.',
    read: observed.leasesUnshared,
  });
}

/** What became of jobs and of what they were to bring in. */
export class WarmMetrics {
  readonly #items: Counter<'outcome'>;
  readonly #jobs: Counter<'state'>;

  /** @param registry where nobody else has registered the same */
  constructor(registry: Registry) {
    this.#items = new Counter({
      name: 'larder_warm_items_total',
      help: 'Archives and module packages that were to be warmed, by what became of them.',
      labelNames: ['outcome'],
      registers: [registry],
    });
    this.#jobs = new Counter({
      name: 'larder_warm_jobs_ended_total',
      help: 'Jobs that have ended here, by how.',
      labelNames: ['state'],
      registers: [registry],
    });
    // So that they are there before the first of them.
    for (const outcome of ['present', 'stored', 'unsupported', 'failed']) this.#items.inc({ outcome }, 0);
    for (const state of ['finished', 'cancelled', 'failed']) this.#jobs.inc({ state }, 0);
  }

  /** @param outcome `present`, `stored`, `unsupported` or `failed` */
  settled(outcome: string): void {
    this.#items.inc({ outcome });
  }

  /** @param state `finished`, `cancelled` or `failed` */
  ended(state: string): void {
    this.#jobs.inc({ state });
  }
}

/** `undefined` when nobody can tell. */
async function freeBytes(directory: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize;
  } catch {
    return undefined;
  }
}
