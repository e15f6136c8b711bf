import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { hasCode, isUnreachable } from './errors.ts';
import type { MetricsSource } from './http/metrics-page.ts';
import { RequestMetrics } from './http/request-metrics.ts';

/** For hosts that are none of the configured ones: upstreams name them, and there is no end to names. */
const OTHER = 'other';

/** Where numbers are looked up when they are asked for. */
export interface Observed {
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
  /** Hosts (`HOST[:PORT]`) that are left alone at the moment. */
  readonly openCircuits: () => readonly string[];
}

/** Everything that `/metrics` tells. One for each Larder: nothing is shared between two in one process. */
export class Metrics implements MetricsSource {
  readonly requests: RequestMetrics;
  readonly #registry = new Registry();
  readonly #hosts: ReadonlySet<string>;
  readonly #upstreamFailures: Counter<'host' | 'reason'>;
  readonly #warmed: Counter<'outcome'>;
  #describesProcess = false;

  /** @param options.hosts the configured upstreams, as `HOST[:PORT]` */
  constructor({ hosts, version }: { hosts: readonly string[]; version: string }) {
    const registers = [this.#registry];
    this.#hosts = new Set(hosts);
    this.requests = new RequestMetrics(this.#registry);
    this.#upstreamFailures = new Counter({
      name: 'larder_upstream_failures_total',
      help: 'Requests to upstream hosts that came to nothing, retries included, by host and reason.',
      labelNames: ['host', 'reason'],
      registers,
    });
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

  /** @param reason one word, of few; without one it was no failure */
  upstreamFailed(host: string, reason: string | undefined): void {
    if (reason === undefined) return;
    this.#upstreamFailures.inc({ host: this.#named(host), reason });
  }

  /** @param outcome `present`, `stored`, `unsupported` or `failed` */
  warmed(outcome: string): void {
    this.#warmed.inc({ outcome });
  }

  /** Called once, when there is something to look at. */
  observe(observed: Observed): void {
    const registers = [this.#registry];
    const gauge = (name: string, help: string, read: () => number) =>
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
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
    const evictions = new Counter({
      name: 'larder_evictions_total',
      help: 'Archives and module packages that were removed to make room.',
      registers,
      collect() {
        this.reset();
        this.inc(observed.disk().evictions);
      },
    });
    evictions.inc(0);
    const failures = new Counter({
      name: 'larder_metadata_store_failures_total',
      help: 'Operations of Redis or the embedded metadata store that failed.',
      registers,
      collect() {
        this.reset();
        this.inc(observed.metadataStoreFailures());
      },
    });
    failures.inc(0);
    const hosts = [...this.#hosts, OTHER];
    const named = (host: string) => this.#named(host);
    new Gauge({
      name: 'larder_circuit_open',
      help: 'Whether a host is left alone because it just failed; for other hosts together, how many are.',
      labelNames: ['host'],
      registers,
      collect() {
        const open = observed.openCircuits().map(named);
        for (const host of hosts) this.set({ host }, open.filter((one) => one === host).length);
      },
    });
  }

  async text(): Promise<string> {
    // These keep watching from then on, for as long as the process lives: only where somebody asks.
    if (!this.#describesProcess) collectDefaultMetrics({ register: this.#registry });
    this.#describesProcess = true;
    return this.#registry.metrics();
  }

  #named(host: string): string {
    return this.#hosts.has(host) ? host : OTHER;
  }
}

/** In one word; `undefined` for what is an answer like any other. */
export function failureReason(error: unknown): string | undefined {
  if (isUnreachable(error)) return error.reason;
  if (hasCode(error, 'UPSTREAM_REFUSED')) return 'refused';
  if (hasCode(error, 'UPSTREAM_INVALID')) return 'invalid';
  return undefined;
}
