import { Counter, Histogram, type Registry } from 'prom-client';
import { failureReason } from '../upstream/failures.ts';
import type { HostQueueState } from '../upstream/host-queues.ts';
import type { UpstreamCall, UpstreamObserver } from '../upstream/observer.ts';
import type { HostLabels } from './host-labels.ts';
import { counterOf, gaugeOf, type Sample } from './read-at-scrape.ts';

/** Seconds. Beyond 10 s an answer does not help any client. */
const BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Counts what is asked of the outside, by host. */
export class UpstreamMetrics implements UpstreamObserver {
  readonly #registry: Registry;
  readonly #hosts: HostLabels;
  readonly #failures: Counter<'host' | 'reason'>;
  readonly #seconds: ReadonlyMap<string, { observe(value: number): void }>;
  readonly #bytes: Map<string, number>;

  /** @param registry where nobody else has registered the same */
  constructor(registry: Registry, hosts: HostLabels) {
    this.#registry = registry;
    this.#hosts = hosts;
    this.#failures = new Counter({
      name: 'larder_upstream_failures_total',
      help: 'Requests to upstream hosts that came to nothing, retries included, by host and reason.',
      labelNames: ['host', 'reason'],
      registers: [registry],
    });
    const seconds = new Histogram({
      name: 'larder_upstream_seconds',
      help: 'From a request to an upstream host to the headers of its answer, whatever it says; retries count.',
      labelNames: ['host'],
      buckets: BUCKETS,
      registers: [registry],
    });
    this.#seconds = new Map(hosts.all.map((host) => [host, seconds.labels({ host })]));
    this.#bytes = hosts.totals([]);
    counterOf(registry, {
      name: 'larder_upstream_received_bytes_total',
      help: 'Bytes of bodies that came from upstream hosts.',
      labels: ['host'],
      read: () => samples(this.#bytes),
    });
  }

  /** Bytes of all bodies since the start. */
  get bytesReceived(): number {
    return [...this.#bytes.values()].reduce((sum, bytes) => sum + bytes, 0);
  }

  answered({ host }: UpstreamCall, seconds: number): void {
    this.#seconds.get(this.#hosts.of(host))?.observe(seconds);
  }

  ended({ host }: UpstreamCall, error: unknown): void {
    const reason = failureReason(error);
    if (reason !== undefined) this.#failures.inc({ host: this.#hosts.of(host), reason });
  }

  received(host: string, bytes: number): void {
    const label = this.#hosts.of(host);
    this.#bytes.set(label, (this.#bytes.get(label) ?? 0) + bytes);
  }

  /** Called once, when there is something to look at. */
  observe(observed: {
    /** Hosts (`HOST[:PORT]`) that are left alone at the moment. */
    readonly openCircuits: () => readonly string[];
    readonly queues: () => readonly HostQueueState[];
  }): void {
    gaugeOf(this.#registry, {
      name: 'larder_circuit_open',
      help: 'Whether a host is left alone because it just failed; for other hosts together, how many are.',
      labels: ['host'],
      together: 'max',
      read: () => samples(this.#hosts.totals(observed.openCircuits().map((host) => [host, 1]))),
    });
    gaugeOf(this.#registry, {
      name: 'larder_upstream_requests_waiting',
      help: 'Small requests that wait for their turn at an upstream host.',
      labels: ['host'],
      read: () => samples(this.#hosts.totals(observed.queues().map(({ host, waiting }) => [host, waiting]))),
    });
  }
}

function samples(byHost: ReadonlyMap<string, number>): Sample[] {
  return [...byHost].map(([host, value]) => [{ host }, value]);
}
