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

/** `planning`: it is being found out what it consists of. `paused`: the mirror is sealed, it goes on once that is over. */
export type JobState = JobHead['state'] | 'planning' | 'paused';

/** How far a job is, as JSON. */
export interface JobProgressDocument {
  readonly state: JobState;
  /** Why it failed as a whole, or is paused. */
  readonly reason?: string | undefined;
  readonly endedAt?: string | undefined;
  /** `waiting` are those without an outcome. While it is `planning` there may be more. */
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

/** A job and what there was to say about its wish, as JSON. */
export interface ToldJobDocument extends JobDocument {
  readonly diagnostics: JobFindings['diagnostics'];
  /** The registry that was meant where none is named. */
  readonly impliedHostname?: string | undefined;
}

/** A job with some of what it consists of, as JSON. */
export interface JobPageDocument extends ToldJobDocument {
  readonly items: readonly JobItemDocument[];
  /** With it as `after` the next items are answered. Absent with the last of them. */
  readonly next?: number | undefined;
}

export function jobDocument(head: JobHead): JobDocument {
  const { id, by, createdAt, wish } = head;
  const { pieces: _, ...asked } = wish;
  return { id, by, createdAt, ...progressDocument(head), wish: asked };
}

export function jobPageDocument({ items, next, ...job }: Job & { next?: number | undefined }): JobPageDocument {
  return { ...toldJobDocument(job), items: items.map(itemDocument), next };
}

export function jobEvent({ type, sequence, ...event }: JobEvent): ServerSentEvent {
  if ('job' in event) return { type, id: sequence, data: toldJobDocument(event.job) };
  if ('item' in event) return { type, id: sequence, data: itemDocument(event.item) };
  return { type, id: sequence, data: progressDocument(event.head) };
}

function toldJobDocument({ head, findings }: Pick<Job, 'head' | 'findings'>): ToldJobDocument {
  const { diagnostics, impliedHostname } = findings;
  return { ...jobDocument(head), diagnostics, ...(impliedHostname !== undefined && { impliedHostname }) };
}

function progressDocument({ endedAt, totals, bytes, ...head }: JobHead): JobProgressDocument {
  const waiting = totals.items - totals.present - totals.stored - totals.unsupported - totals.failed;
  const state = stateOf(head);
  const reason = state === 'paused' ? 'this mirror is sealed; the job goes on once it is unsealed' : head.reason;
  return { state, reason, endedAt, totals: { ...totals, waiting }, bytes };
}

function stateOf({ state, isPaused, isPlanned }: Pick<JobHead, 'state' | 'isPaused' | 'isPlanned'>): JobState {
  if (state !== 'running') return state;
  if (isPaused) return 'paused';
  return isPlanned ? 'running' : 'planning';
}

function itemDocument({ sequence: _, ...item }: JobItem): JobItemDocument {
  return item;
}
