import { z } from 'zod';
import { ProviderArchive } from '../address/archive.ts';
import { parseHash } from '../address/hash.ts';
import { ModuleAddress, ModuleRelease } from '../address/module.ts';
import { Platform } from '../address/platform.ts';
import { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { PlannedItem, WantedItem } from './wanted.ts';
import { nameOf } from './warm.ts';

const count = z.number().int().min(0);
const outcome = z.enum(['present', 'stored', 'unsupported', 'failed']);

const itemShape = z.object({
  /** Unique within its job. */
  name: z.string(),
  /** `undefined` for what a wish could not be brought down to. */
  kind: z.enum(['archive', 'package']).optional(),
  /** `undefined` until it is known. */
  outcome: outcome.optional(),
  reason: z.string().optional(),
  note: z.string().optional(),
  bytes: count.optional(),
  /** The how manieth outcome of its job it is, counted from 1. */
  sequence: count.optional(),
});

const headShape = z.object({
  id: z.string(),
  state: z.enum(['running', 'finished', 'cancelled', 'failed']),
  /** On whose behalf: `token:NAME`, or `schedule:FILE`. */
  by: z.string(),
  /** RFC 3339. */
  createdAt: z.string(),
  endedAt: z.string().optional(),
  /** Why it failed as a whole. */
  reason: z.string().optional(),
  wish: z.object({
    /** The first of them. */
    files: z.array(z.string()),
    /** All of them. */
    count,
    platforms: z.array(z.string()),
    client: z.enum(['opentofu', 'terraform']),
    pieces: count,
  }),
  /** Whether it is known what the job consists of. Until then its items are those that were found so far. */
  isPlanned: z.boolean(),
  /** It waits until the mirror is unsealed. */
  isPaused: z.boolean().optional(),
  totals: z.object({ items: count, present: count, stored: count, unsupported: count, failed: count }),
  /** Bytes fetched, those of what is still arriving included. */
  bytes: count,
  /** The last one given to an outcome. Never begins anew. */
  sequence: count,
  /** Who runs it; raises `beat` for as long as it is alive. */
  owner: z
    .object({ instance: z.string(), host: z.string(), pid: z.number(), startedAt: z.number(), beat: count })
    .optional(),
});

const findingsShape = z.object({
  diagnostics: z.array(
    z.object({
      severity: z.enum(['error', 'warning', 'note']),
      file: z.string(),
      at: z.string().optional(),
      message: z.string(),
    }),
  ),
  /** The registry that was meant where none is named. */
  impliedHostname: z.string().optional(),
  /** What lock files accept, by `ADDRESS VERSION`. */
  locks: z.record(z.string(), z.array(z.string().transform(parseHash))),
});

const indexShape = z.array(z.object({ id: z.string(), createdAt: z.number(), isRunning: z.boolean() }));

/** One thing that a job brings in. */
export type JobItem = Readonly<z.output<typeof itemShape>>;
/** A job, without what it consists of. */
export type JobHead = Readonly<z.output<typeof headShape>>;
export type JobOwner = NonNullable<JobHead['owner']>;
/** What there was to say about a wish when it was read. Does not change while the job runs. */
export type JobFindings = Readonly<z.output<typeof findingsShape>>;
/** One of the jobs that there are. */
export type JobEntry = Readonly<z.output<typeof indexShape>[number]>;

/** Some of the items of a job, and how many there are before the next ones; `undefined` after the last. */
export interface JobPage {
  readonly items: readonly JobItem[];
  readonly next: number | undefined;
}

/** A job with all that it consists of. */
export interface Job {
  readonly head: JobHead;
  readonly items: readonly JobItem[];
  readonly findings: JobFindings;
}

export const NO_FINDINGS: JobFindings = { diagnostics: [], locks: {} };

/** Each answers `undefined` for what is none. */
export const stored = {
  head: (value: unknown): JobHead | undefined => headShape.safeParse(value).data,
  items: (value: unknown): JobItem[] | undefined => z.array(itemShape).safeParse(value).data,
  findings: (value: unknown): JobFindings | undefined => findingsShape.safeParse(value).data,
  index: (value: unknown): JobEntry[] | undefined => indexShape.safeParse(value).data,
};

/** @throws InvalidAddress when the item was written by somebody else */
export function wantedOf({ name, kind }: JobItem): WantedItem | undefined {
  const [address = '', version = '', platform = ''] = name.split(' ');
  if (kind === 'archive') {
    const provider = ProviderAddress.parse(address);
    return { kind, archive: new ProviderArchive(provider, Version.parse(version), Platform.parse(platform)) };
  }
  if (kind === 'package') {
    return { kind, release: new ModuleRelease(ModuleAddress.parse(address), Version.parse(version)) };
  }
  return undefined;
}

/** What it is among the items of a job, before anything has become of it. */
export function itemOf(planned: PlannedItem): JobItem {
  if ('wanted' in planned) return { name: nameOf(planned.wanted), kind: planned.wanted.kind };
  return { name: planned.unplanned, outcome: planned.outcome, reason: planned.reason };
}

/** No two items of a job have the same. */
export function keyOf({ kind, name }: Pick<JobItem, 'kind' | 'name'>): string {
  return `${kind ?? ''} ${name}`;
}

/** Nothing is to be done about it any more. */
export function isSettled({ outcome: known }: JobItem): boolean {
  return known === 'present' || known === 'stored' || known === 'unsupported';
}

/** How many of the items came to what. */
export function totalsOf(items: readonly JobItem[]): JobHead['totals'] {
  const totals = { items: items.length, present: 0, stored: 0, unsupported: 0, failed: 0 };
  for (const item of items) if (item.outcome) totals[item.outcome] += 1;
  return totals;
}

/** Bytes that were fetched for these items. */
export function fetchedFor(items: readonly JobItem[]): number {
  return items.reduce((sum, item) => sum + (item.outcome === 'stored' ? (item.bytes ?? 0) : 0), 0);
}
