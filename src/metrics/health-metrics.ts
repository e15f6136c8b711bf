import type { Registry } from 'prom-client';
import type { Health } from '../http/health.ts';
import { gaugeOf, type Sample } from './read-at-scrape.ts';

/** Checks that take longer, in milliseconds, are told of as they were last seen: workers wait a second for all metrics of another. */
const LOOK_MS = 500;

/** Tells what `/readyz` would, so that it can be seen where nobody asks that. */
export function observeHealth(registry: Registry, health: Pick<Health, 'look'>): void {
  gaugeOf(registry, {
    name: 'larder_ready',
    help: 'Whether a check of /readyz succeeds.',
    labels: ['check'],
    together: 'min',
    read: async () => {
      const checks = Object.entries(await health.look(LOOK_MS));
      return checks.map(([check, { status }]): Sample => [{ check }, status === 'ok' ? 1 : 0]);
    },
  });
}
