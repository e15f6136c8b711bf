import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { LookUps } from './cache/look-ups.ts';
import type { MetricsSource } from './http/metrics-page.ts';
import { RequestMetrics } from './http/request-metrics.ts';
import { observeCaches } from './metrics/cache-metrics.ts';
import { HostLabels } from './metrics/host-labels.ts';
import { UpstreamMetrics } from './metrics/upstream-metrics.ts';
import { type ObservedWork, observeWork } from './metrics/work-metrics.ts';
import type { TrafficTotals } from './mirror/traffic-log.ts';

/** Where numbers are looked up when they are asked for. */
export interface Observed extends ObservedWork {
  /** By the name that they have in the metric. */
  readonly caches: Readonly<Record<string, LookUps>>;
}

/** Everything that `/metrics` tells. One for each Larder: nothing is shared between two in one process. */
export class Metrics implements MetricsSource {
  readonly requests: RequestMetrics;
  readonly upstreams: UpstreamMetrics;
  readonly #registry = new Registry();
  readonly #warmed: Counter<'outcome'>;
  #describesProcess = false;

  /** @param options.hosts the configured upstreams, as `HOST[:PORT]` */
  constructor({ hosts, version }: { hosts: readonly string[]; version: string }) {
    const registers = [this.#registry];
    this.requests = new RequestMetrics(this.#registry);
    this.upstreams = new UpstreamMetrics(this.#registry, new HostLabels(hosts));
    this.#warmed = new Counter({
      name: 'larder_warm_items_total',
      help: 'Archives and module packages that were to be warmed, by what became of them.',
      labelNames: ['outcome'],
      registers,
    });
    for (const outcome of ['present', 'stored', 'unsupported', 'failed']) this.#warmed.inc({ outcome }, 0);
    new Gauge({ name: 'larder_info', help: 'Always 1.', labelNames: ['version'], registers }).set({ version }, 1);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** @param outcome `present`, `stored`, `unsupported` or `failed` */
  warmed(outcome: string): void {
    this.#warmed.inc({ outcome });
  }

  /** Called once, when there is something to look at. */
  observe(observed: Observed): void {
    observeWork(this.#registry, observed);
    observeCaches(this.#registry, observed.caches);
  }

  /** What has gone through since the start. @param lookUps those of documents */
  traffic(lookUps: LookUps): TrafficTotals {
    const { requests, hits, misses, failures, bytes } = this.requests.clientTraffic;
    return {
      requests,
      hits: hits + lookUps.hits,
      misses: misses + lookUps.misses + lookUps.coalesced,
      stale: lookUps.stale,
      failures,
      bytesServed: bytes,
      bytesFetched: this.upstreams.bytesReceived,
    };
  }

  async text(): Promise<string> {
    // These keep watching from then on, for as long as the process lives: only where somebody asks.
    if (!this.#describesProcess) collectDefaultMetrics({ register: this.#registry });
    this.#describesProcess = true;
    return this.#registry.metrics();
  }
}
