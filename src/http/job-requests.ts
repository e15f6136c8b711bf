import { NotFound } from '../errors.ts';
import type { JobHead } from '../mirror/job.ts';
import { watchJob } from '../mirror/job-watch.ts';
import { JobIsRunning, MirrorIsSealed, type WarmJobs } from '../mirror/warm-jobs.ts';
import type { Client } from './authenticate.ts';
import type { ServerSentEvent } from './event-stream.ts';
import { jobEvent } from './job-documents.ts';
import { RequestError } from './request-error.ts';

// What is the same of jobs whether the admin API is asked or the pages are.

/** Jobs are shown to whoever asked for them, and to those who may have everything. @param by as in the job's head */
export function isVisible(by: string, client: Client): boolean {
  return client.mayAdministerAll || by === client.subject;
}

/** @throws NotFound, also of what is not theirs */
export async function visibleJob(jobs: Pick<WarmJobs, 'head'>, id: string, client: Client): Promise<JobHead> {
  const head = await jobs.head(id);
  if (!isVisible(head.by, client)) throw new NotFound(`there is no job ${id}`);
  return head;
}

/**
 * What happens to a job, until its end or until nobody wants more.
 * @param after what was heard last, if anything
 */
export async function* jobEvents(
  jobs: WarmJobs,
  id: string,
  after: number | undefined,
  signal: AbortSignal,
): AsyncGenerator<ServerSentEvent> {
  for await (const event of watchJob(jobs, id, { after, signal })) yield jobEvent(event);
}

/**
 * Says what stands against a job for the moment; anything else is thrown as it is.
 * @param unsealing what whoever asked can do about a sealed mirror
 */
export function refusal(unsealing: string): (error: unknown) => never {
  return (error) => {
    if (error instanceof JobIsRunning) throw new RequestError(409, 'JOB_IS_RUNNING', 'the job is still running');
    if (!(error instanceof MirrorIsSealed)) throw error;
    throw new RequestError(409, 'SEALED', 'this mirror is sealed: nothing can be brought in', { hint: unsealing });
  };
}
