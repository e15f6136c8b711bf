import type { Registry } from 'prom-client';
import { counterOf, gaugeOf } from './read-at-scrape.ts';

/** What goes on inside, looked up when somebody asks. */
export interface ObservedWork {
  readonly downloads: () => number;
  /** Module packages that are being made, or wait for their turn. */
  readonly packages: () => number;
  /** Jobs that warm, on this replica. */
  readonly warmJobs: () => number;
  readonly drift: () => number;
  readonly sealed: () => boolean;
  /** Operations of the metadata store that failed since the start. */
  readonly metadataStoreFailures: () => number;
  /** Bytes of what is stored, the most that they may be, and how much was evicted since the start. */
  readonly disk: () => { readonly used: number; readonly limit: number | undefined; readonly evictions: number };
}

/** Tells of work under way, of the disk and of the state of the mirror. */
export function observeWork(registry: Registry, observed: ObservedWork): void {
  const gauge = (name: string, help: string, read: () => number) => gaugeOf(registry, { name, help, read });
  gauge('larder_downloads_in_progress', 'Archives that are arriving from upstream.', observed.downloads);
  gauge('larder_packages_in_progress', 'Module packages that are being made or wait for it.', observed.packages);
  gauge('larder_warm_jobs', 'Jobs that warm, and run here.', observed.warmJobs);
  gauge('larder_sealed', '1 while nothing leaves for any upstream.', () => (observed.sealed() ? 1 : 0));
  gauge(
    'larder_drift',
    'Archives and module versions of which upstream now publishes other bytes than it first did.',
    observed.drift,
  );
  gauge('larder_disk_bytes', 'Bytes that archives and module packages take up.', () => observed.disk().used);
  if (observed.disk().limit !== undefined) {
    const limit = () => observed.disk().limit ?? 0;
    gauge('larder_disk_limit_bytes', 'Bytes that archives and module packages may take up.', limit);
  }
  counterOf(registry, {
    name: 'larder_evictions_total',
    help: 'Archives and module packages that were removed to make room.',
    read: () => observed.disk().evictions,
  });
  counterOf(registry, {
    name: 'larder_metadata_store_failures_total',
    help: 'Operations of Redis or the embedded metadata store that failed.',
    read: observed.metadataStoreFailures,
  });
}
