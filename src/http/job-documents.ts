import type { Job, JobFindings, JobHead, JobItem } from '../mirror/job.ts';
import type { JobEvent } from '../mirror/job-watch.ts';
import type { ServerSentEvent } from './event-stream.ts';

/** One thing that a job brings in, as JSON. */
export interface JobItemDocument {
  readonly name: string;
  /** Absent for what a wish could not be brought down to. */
  readonly kind?: 'archive' | 'package' | undefined;
  /** Absent until it is known. */
  readonly outcome?: 'present' | 'stored' | 'unsupported' | 'failed' | undefined;
  readonly reason?: string | undefined;
  readonly note?: string | undefined;
  readonly bytes?: number | undefined;
}

/** How far a job is, as JSON. */
export interface JobProgressDocument {
  readonly state: JobHead['state'];
  /** Why it failed as a whole. */
  readonly reason?: string | undefined;
  readonly endedAt?: string | undefined;
  /** `waiting` are those without an outcome. */
  readonly totals: JobHead['totals'] & { readonly waiting: number };
  /** Fetched so far. */
  readonly bytes: number;
}

/** A job, as JSON. */
export interface JobDocument extends JobProgressDocument {
  readonly id: string;
  /** `token:NAME`, or `schedule:FILE`. */
  readonly by: string;
  readonly createdAt: string;
  readonly wish: {
    /** The first of `count`. */
    readonly files: readonly string[];
    readonly count: number;
    /** Empty: those of the lists, or else of the configuration. */
    readonly platforms: readonly string[];
    readonly client: string;
  };
}

/** A job with all that it consists of, as JSON. */
export interface WholeJobDocument extends JobDocument {
  readonly diagnostics: JobFindings['diagnostics'];
  readonly items: readonly JobItemDocument[];
}

export function jobDocument(head: JobHead): JobDocument {
  const { id, by, createdAt, wish } = head;
  const { pieces: _, ...asked } = wish;
  return { id, by, createdAt, ...progressDocument(head), wish: asked };
}

export function wholeJobDocument({ head, items, findings }: Job): WholeJobDocument {
  return { ...jobDocument(head), diagnostics: findings.diagnostics, items: items.map(itemDocument) };
}

export function jobEvent({ type, sequence, ...event }: JobEvent): ServerSentEvent {
  if ('job' in event) return { type, id: sequence, data: wholeJobDocument(event.job) };
  if ('item' in event) return { type, id: sequence, data: itemDocument(event.item) };
  return { type, id: sequence, data: progressDocument(event.head) };
}

function progressDocument({ state, reason, endedAt, totals, bytes }: JobHead): JobProgressDocument {
  const waiting = totals.items - totals.present - totals.stored - totals.unsupported - totals.failed;
  return { state, reason, endedAt, totals: { ...totals, waiting }, bytes };
}

function itemDocument({ sequence: _, ...item }: JobItem): JobItemDocument {
  return item;
}
