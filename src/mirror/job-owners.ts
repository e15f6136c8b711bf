import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { JobOwner } from './job.ts';

/** When this process began, in milliseconds since the epoch: in containers every one of them has the number 1. */
const STARTED_AT = Math.round(performance.timeOrigin);

/** Somebody who runs jobs in this process, with a name of its own. */
export function newOwner(): JobOwner {
  return { instance: randomUUID(), host: hostname(), pid: process.pid, startedAt: STARTED_AT, beat: 0 };
}

/**
 * Whether this may have been a process of this very machine that is not there any more, or whose number we have now. Not
 * certain: containers may have the name of their host in common, and none of its processes.
 */
export function seemsGone({ host, pid, startedAt }: JobOwner): boolean {
  if (host !== hostname()) return false;
  if (pid === process.pid) return startedAt !== STARTED_AT;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}
