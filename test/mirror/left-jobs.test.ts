import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { type Job, type JobHead, type JobOwner, totalsOf } from '../../src/mirror/job.ts';
import { newOwner } from '../../src/mirror/job-owners.ts';
import { JobStore } from '../../src/mirror/job-store.ts';
import { LeftJobs, type Looks } from '../../src/mirror/left-jobs.ts';
import { afterTest } from '../support/after-test.ts';
import { eventually } from './scene.ts';
import { MemoryStore } from './warm-replica.ts';

/** A number that no process has. */
const NOBODY = 2 ** 31 - 2;
const LOOKS: Looks = { everyMs: 10, deadAfterMs: 3_600_000, goneAfterMs: 200 };

/** A job of somebody else, and a replica that looks for such. */
async function begin(owner: Partial<JobOwner>, looks: Looks = LOOKS) {
  const store = new JobStore({ store: new MemoryStore() });
  const head = (beat: number): JobHead => ({
    id: 'one',
    state: 'running',
    by: 'token:ops',
    createdAt: new Date().toISOString(),
    wish: { files: [], count: 0, platforms: [], client: 'opentofu', pieces: 0 },
    isPlanned: true,
    totals: totalsOf([]),
    bytes: 0,
    sequence: 0,
    owner: { instance: 'other', host: hostname(), pid: NOBODY, startedAt: 1, ...owner, beat },
  });
  await store.putHead(head(0));
  await store.enter('one', { isRunning: true, createdAt: Date.now() });
  const taken: { job: Job; at: number }[] = [];
  const left = new LeftJobs({
    store,
    owner: newOwner(),
    runsHere: () => taken.length > 0,
    goOn: (job) => void taken.push({ job, at: performance.now() }),
    looks,
    logger: silentLogger,
  });
  const closing = new AbortController();
  const watching = left.watch(closing.signal);
  afterTest(async () => {
    closing.abort();
    await watching;
  });
  return { taken, beat: (count: number) => store.putHead(head(count)) };
}

describe('a job of a process that seems to be gone from this machine', () => {
  it('is gone on with once its beat has stood still, long before others are taken for dead', async () => {
    const before = performance.now();
    const { taken } = await begin({});
    await eventually(() => taken.length).toBe(1);
    expect((taken[0]?.at ?? 0) - before).toBeGreaterThanOrEqual(LOOKS.goneAfterMs);
  });

  it('is left alone while it beats: another container may have the same name, and numbers of its own', async () => {
    const { taken, beat } = await begin({}, { ...LOOKS, goneAfterMs: 500 });
    let beatenAt = performance.now();
    for (let count = 1; count <= 15; count += 1) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      await beat(count);
      beatenAt = performance.now();
    }
    expect(taken).toEqual([]);
    await eventually(() => taken.length).toBe(1);
    expect((taken[0]?.at ?? 0) - beatenAt).toBeGreaterThanOrEqual(450);
  });

  it('is also one whose number this process has now', async () => {
    const { taken } = await begin({ pid: process.pid });
    await eventually(() => taken.length).toBe(1);
  });
});

it('a job of another machine is not taken before that is taken for dead', async () => {
  const { taken } = await begin({ host: 'elsewhere' }, { ...LOOKS, goneAfterMs: 20, deadAfterMs: 600 });
  const before = performance.now();
  await eventually(() => taken.length).toBe(1);
  expect((taken[0]?.at ?? 0) - before).toBeGreaterThanOrEqual(500);
});
