import type { Closers } from './closers.ts';
import type { Config } from './config.ts';
import type { Logger } from './logger.ts';
import { Metrics } from './metrics.ts';
import { TrafficHistory } from './mirror/traffic-history.ts';
import { UpstreamHealth } from './mirror/upstream-health.ts';
import { MeasuredMetadataStore } from './store/measured-metadata-store.ts';
import type { MetadataStore } from './store/metadata-store.ts';
import type { Tracer } from './tracer.ts';
import { openTracing } from './tracing.ts';
import type { CircuitState } from './upstream/circuit.ts';
import type { HostQueueState } from './upstream/host-queues.ts';
import { observedBy, type UpstreamObserver } from './upstream/observer.ts';

/** What of the way outside can be looked at. */
interface Outside {
  circuits(): readonly CircuitState[];
  queues(): readonly HostQueueState[];
}

/** Everything that watches what Larder does, and does nothing itself. */
export interface Watching {
  readonly metrics: Metrics;
  /** Told of all that is asked of the outside. */
  readonly observer: UpstreamObserver;
  readonly upstreamHealth: UpstreamHealth;
  /** Absent where nothing is traced. */
  readonly tracer: Tracer | undefined;
  /** The same store; what it does is measured. */
  measured(store: MetadataStore): MetadataStore;
  /** Begun by the caller. */
  trafficHistory(store: MetadataStore): TrafficHistory;
}

/** @param deps.outside looked up later, when there is one. @throws InvalidConfiguration */
export async function assembleWatching(
  config: Config,
  deps: { version: string; outside: () => Outside; opened: Closers; logger: Logger },
): Promise<Watching> {
  const { outside, opened, logger } = deps;
  const hostnames = config.upstreams.hosts.map(({ hostname }) => String(hostname));
  const metrics = new Metrics({ hosts: hostnames, version: deps.version });
  const leftAlone = () =>
    outside()
      .circuits()
      .flatMap(({ origin, state }) => (state === 'closed' ? [] : new URL(origin).host));
  metrics.upstreams.observe({ openCircuits: leftAlone, queues: () => outside().queues() });
  const upstreamHealth = new UpstreamHealth({ hostnames, leftAlone });
  const tracer = await openTracing(config.tracing, deps);
  opened.add('traces', () => tracer?.close());
  return {
    metrics,
    observer: observedBy(metrics.upstreams, upstreamHealth),
    upstreamHealth,
    tracer,
    measured: (store) => {
      const measured = new MeasuredMetadataStore({ store, tell: metrics.metadataStore.count });
      metrics.metadataStore.observe(measured, config.redis === undefined ? 'embedded' : 'redis');
      return measured;
    },
    trafficHistory: (store) => {
      const history = new TrafficHistory({ store, totals: () => metrics.traffic(), logger });
      opened.add('traffic history', () => history.close());
      return history;
    },
  };
}
