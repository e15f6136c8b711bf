import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { LookUps } from './cache/look-ups.ts';
import type { Health } from './http/health.ts';
import type { MetricsSource } from './http/metrics-page.ts';
import { RequestMetrics } from './http/request-metrics.ts';
import { observeCaches } from './metrics/cache-metrics.ts';
import { observeHealth } from './metrics/health-metrics.ts';
import { HostLabels } from './metrics/host-labels.ts';
import { StoreMetrics } from './metrics/store-metrics.ts';
import { UpstreamMetrics } from './metrics/upstream-metrics.ts';
import { type ObservedWork, observeWork, WarmMetrics } from './metrics/work-metrics.ts';
import type { TrafficTotals } from './mirror/traffic-log.ts';
import type { MetricValues } from './workers/gathered-metrics.ts';

/** Where numbers are looked up when they are asked for. */
export interface Observed extends ObservedWork {
  /** By the name that they have in the metric. */
  readonly caches: Readonly<Record<string, LookUps>>;
}

/** Everything that `/metrics` tells. One for each Larder: nothing is shared between two in one process. */
export class Metrics implements MetricsSource {
  readonly requests: RequestMetrics;
  readonly upstreams: UpstreamMetrics;
  readonly metadataStore: StoreMetrics;
  readonly warm: WarmMetrics;
  readonly #registry = new Registry();
  #caches: readonly LookUps[] = [];
  #describesProcess = false;

  /** @param options.hosts the configured upstreams, as `HOST[:PORT]` */
  constructor({ hosts, version }: { hosts: readonly string[]; version: string }) {
    const registers = [this.#registry];
    this.requests = new RequestMetrics(this.#registry);
    this.upstreams = new UpstreamMetrics(this.#registry, new HostLabels(hosts));
    this.metadataStore = new StoreMetrics(this.#registry);
    this.warm = new WarmMetrics(this.#registry);
    const info = { name: 'larder_info', help: 'Always 1.', labelNames: ['version'] };
    new Gauge({ ...info, aggregator: 'first', registers }).set({ version }, 1);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Called once, when there is something to look at. */
  observe(observed: Observed): void {
    observeWork(this.#registry, observed);
    const caches = { answers: this.requests.ready, ...observed.caches };
    observeCaches(this.#registry, caches);
    this.#caches = Object.values(caches);
  }

  /** Called once. Each scrape runs the checks, unless they are slow. */
  observeHealth(health: Pick<Health, 'look'>): void {
    observeHealth(this.#registry, health);
  }

  /** What has gone through since the start. */
  traffic(): TrafficTotals {
    const { requests, failures, bytes } = this.requests.clientTraffic;
    const count = (of: (lookUps: LookUps) => number) => this.#caches.reduce((sum, lookUps) => sum + of(lookUps), 0);
    return {
      requests,
      hits: count(({ hits }) => hits),
      misses: count(({ misses, coalesced }) => misses + coalesced),
      stale: count(({ stale }) => stale),
      failures,
      bytesServed: bytes,
      bytesFetched: this.upstreams.bytesReceived,
    };
  }

  async text(): Promise<string> {
    return this.#described().metrics();
  }

  /** The same as values, to be added to those of other workers. */
  async values(): Promise<MetricValues> {
    return this.#described().getMetricsAsJSON();
  }

  #described(): Registry {
    // These keep watching from then on, for as long as the process lives: only where somebody asks.
    if (!this.#describesProcess) collectDefaultMetrics({ register: this.#registry });
    this.#describesProcess = true;
    return this.#registry;
  }
}
