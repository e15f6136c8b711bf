import type { Registry } from 'prom-client';
import type { LookUps } from '../cache/look-ups.ts';
import { counterOf, type Sample } from './read-at-scrape.ts';

/** What became of look-ups, by cache. @param caches by the name that they have in the metric */
export function observeCaches(registry: Registry, caches: Readonly<Record<string, LookUps>>): void {
  counterOf(registry, {
    name: 'larder_cache_lookups_total',
    help: 'Look-ups, by cache and by what became of them.',
    labels: ['cache', 'result'],
    read: () => Object.entries(caches).flatMap(([cache, lookUps]) => samplesOf(cache, lookUps)),
  });
}

function samplesOf(cache: string, { hits, coalesced, misses, stale }: LookUps): Sample[] {
  return [
    [{ cache, result: 'hit' }, hits],
    [{ cache, result: 'coalesced' }, coalesced],
    [{ cache, result: 'miss' }, misses],
    [{ cache, result: 'stale' }, stale],
  ];
}
