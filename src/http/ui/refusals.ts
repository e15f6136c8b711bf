import { LRUCache } from 'lru-cache';
import type { AuditTrail } from '../audit-entry.ts';

/** Kinds of refusals that are remembered; beyond that the one that was not repeated for longest is forgotten. */
const MAX_KINDS = 200;
/** Characters of what clients and upstreams say. */
const MAX_TEXT = 300;

/** What was not verified, or not let in, is refused as well, if by ourselves. */
const REFUSED_BYTES: ReadonlySet<unknown> = new Set(['INTEGRITY_MISMATCH', 'UPSTREAM_INVALID', 'UPSTREAM_REFUSED']);

/** Something that was refused, once or again and again. */
export interface Refusal {
  readonly what: string;
  /** Name of a token. */
  readonly client: string;
  readonly remote: string;
  /** The code of the error. */
  readonly outcome: string;
  readonly reason: string;
  readonly count: number;
  readonly firstAt: Date;
  readonly lastAt: Date;
  /** Of the last one, to be found in the logs. */
  readonly requestId: string;
}

/** What this replica refused since its start: made of what is written down for the audit log, whether or not there is one. */
export class Refusals implements AuditTrail {
  readonly #known = new LRUCache<string, Refusal>({ max: MAX_KINDS });
  readonly #now: () => number;

  constructor({ now = Date.now }: { now?: () => number } = {}) {
    this.#now = now;
  }

  record(event: string, fields: Readonly<Record<string, unknown>>): void {
    const isRefused = event === 'refused' || (event === 'failed' && REFUSED_BYTES.has(fields['outcome']));
    if (!isRefused) return;
    const text = (name: string) => String(fields[name] ?? '').slice(0, MAX_TEXT);
    const address = text('provider') || text('module');
    const named = [address, text('version'), text('platform')].filter((part) => part !== '').join(' ');
    const about = {
      what: named || text('path'),
      client: text('client'),
      remote: text('remote'),
      outcome: text('outcome'),
      reason: text('reason'),
    };
    const key = JSON.stringify(about);
    const known = this.#known.get(key);
    const lastAt = new Date(this.#now());
    this.#known.set(key, {
      ...about,
      count: (known?.count ?? 0) + 1,
      firstAt: known?.firstAt ?? lastAt,
      lastAt,
      requestId: text('requestId'),
    });
  }

  /** Latest first. */
  get all(): readonly Refusal[] {
    return [...this.#known.values()].sort((a, b) => b.lastAt.getTime() - a.lastAt.getTime());
  }
}

/** Tells all of them. */
export function toAll(...trails: readonly (AuditTrail | undefined)[]): AuditTrail {
  return {
    record: (event, fields) => {
      for (const trail of trails) trail?.record(event, fields);
    },
  };
}
