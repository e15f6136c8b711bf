import { setTimeout as delay } from 'node:timers/promises';
import { type Job, type JobHead, type JobItem, keyOf } from './job.ts';
import type { WarmJobs } from './warm-jobs.ts';

/** A job is looked at no more often than this, in milliseconds, however fast things happen: each time at all its items. */
const PACE_MS = 100;
/** While nothing but bytes comes in, that is told this often; in milliseconds. */
const PROGRESS_MS = 500;
/** A job that runs on another replica is looked at this often, in milliseconds. */
const ELSEWHERE_MS = 1_000;

/** What happens to a job. `sequence` is the last outcome that whoever hears this knows of. */
export type JobEvent =
  | { readonly type: 'planned' | 'item'; readonly sequence: number; readonly item: JobItem }
  | { readonly type: 'progress'; readonly sequence: number; readonly head: JobHead }
  /** Of what it consists the other events tell. */
  | { readonly type: 'snapshot' | 'end'; readonly sequence: number; readonly job: Job };

/**
 * All that happens to a job until it ends, at the pace of whoever takes it: what comes meanwhile is told together.
 * Begins with the job itself, then all outcomes and all that waits for one; or with what came after the outcome `after`.
 * Ends early when `signal` says so, and when this server shuts down.
 * @throws NotFound, StorageFailed
 */
export async function* watchJob(
  jobs: Pick<WarmJobs, 'get' | 'onChange' | 'closing'>,
  id: string,
  { after, signal: gone }: { after: number | undefined; signal: AbortSignal },
): AsyncGenerator<JobEvent> {
  const signal = AbortSignal.any([gone, jobs.closing]);
  let job = await jobs.get(id);
  let known = 0;
  /** What was told to be planned, or needs not be. */
  const planned = new Set<string>();
  let lookedAt = 0;
  let isAllTold = false;
  // What is ahead of us was counted by a server that did not get to writing it down. What was planned has no number.
  if (after !== undefined && after <= job.head.sequence && job.head.isPlanned) {
    known = after;
    isAllTold = true;
  } else {
    yield { type: 'snapshot', sequence: known, job };
  }
  let told = '';
  for (;;) {
    const seenAt = performance.now();
    for (const { sequence, item } of since(job, known)) {
      known = sequence;
      if (!isAllTold) planned.add(keyOf(item));
      yield { type: 'item', sequence, item };
    }
    if (!isAllTold) {
      // Planning adds to their end, and puts them in order when it is done.
      isAllTold = job.head.isPlanned;
      const found = job.items.slice(isAllTold ? 0 : lookedAt);
      lookedAt += found.length;
      for (const item of found.filter((one) => !one.outcome && !planned.has(keyOf(one)))) {
        planned.add(keyOf(item));
        yield { type: 'planned', sequence: known, item };
      }
    }
    const { head } = job;
    const progress = JSON.stringify([head.totals, head.bytes, head.isPlanned, head.isPaused ?? false]);
    if (progress !== told) yield { type: 'progress', sequence: known, head };
    told = progress;
    if (head.state !== 'running') {
      yield { type: 'end', sequence: known, job };
      return;
    }
    await change(jobs, id, signal);
    await delay(Math.max(PACE_MS - (performance.now() - seenAt), 0), undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    job = await jobs.get(id);
  }
}

function since({ items }: Job, known: number): { sequence: number; item: JobItem }[] {
  return items
    .flatMap((item) =>
      item.sequence !== undefined && item.sequence > known ? [{ sequence: item.sequence, item }] : [],
    )
    .sort((a, b) => a.sequence - b.sequence);
}

/** Resolves when something may have changed. */
async function change(jobs: Pick<WarmJobs, 'onChange'>, id: string, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  let stop: (() => void) | undefined;
  let timer: NodeJS.Timeout | undefined;
  let onAbort = () => {};
  try {
    await new Promise<void>((resolve) => {
      onAbort = resolve;
      signal.addEventListener('abort', onAbort);
      stop = jobs.onChange(id, resolve);
      timer = setTimeout(resolve, stop ? PROGRESS_MS : ELSEWHERE_MS);
    });
  } finally {
    stop?.();
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}
