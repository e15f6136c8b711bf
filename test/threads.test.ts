import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { Threads } from '../src/threads.ts';
import { afterTest } from './support/after-test.ts';

/** Answers with its own number, dies of `die`, says nothing to `hang`. */
const PROGRAM = `
  const { parentPort, threadId } = require('node:worker_threads');
  parentPort.on('message', (job) => {
    if (job === 'die') throw new Error('it died');
    if (job === 'leave') process.exit();
    if (job !== 'hang') parentPort.postMessage(threadId);
  });`;

function setup({ idleMs }: { idleMs?: number } = {}) {
  const started: Worker[] = [];
  const threads = new Threads<string, number>({
    start: () => {
      const worker = new Worker(PROGRAM, { eval: true });
      started.push(worker);
      return worker;
    },
    ...(idleMs !== undefined && { idleMs }),
  });
  afterTest(() => threads.close());
  return { threads, started };
}

test('one after the other is done by the same thread, those at the same time each by one', async () => {
  const { threads, started } = setup();
  const first = await threads.run('a');
  expect(await threads.run('b')).toBe(first);
  expect(started).toHaveLength(1);
  const both = await Promise.all([threads.run('c'), threads.run('d')]);
  expect(new Set(both).size).toBe(2);
});

test('one that was prepared does the job, and only one is', async () => {
  const { threads, started } = setup();
  threads.prepare();
  threads.prepare();
  await threads.run('a');
  expect(started).toHaveLength(1);
});

test('a thread that dies or ends fails its job, and the next one has a new one', async () => {
  const { threads, started } = setup();
  await expect(threads.run('die')).rejects.toThrow('it died');
  await expect(threads.run('leave')).rejects.toThrow('its thread ended');
  expect(await threads.run('a')).toBeGreaterThan(0);
  expect(started).toHaveLength(3);
});

test('a job that is given up ends with its reason, and with its thread', async () => {
  const { threads, started } = setup();
  const giving = new AbortController();
  const job = threads.run('hang', giving.signal);
  const ended = once(started[0] as Worker, 'exit');
  giving.abort(new Error('not wanted any more'));
  await expect(job).rejects.toThrow('not wanted any more');
  await ended;
  await expect(threads.run('a', giving.signal)).rejects.toThrow('not wanted any more');
  expect(started).toHaveLength(1);
});

test('one that has nothing to do ends after a while', async () => {
  const { threads, started } = setup({ idleMs: 1 });
  await threads.run('a');
  await once(started[0] as Worker, 'exit');
  await threads.run('b');
  expect(started).toHaveLength(2);
});

test('closing ends those at work and those without, and takes no more jobs', async () => {
  const { threads, started } = setup();
  await threads.run('a');
  const job = expect(threads.run('hang')).rejects.toThrow('its thread ended');
  const other = await Promise.allSettled([job, threads.close()]);
  expect(other.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
  await expect(threads.run('b')).rejects.toThrow('no threads any more');
  expect(started.map(({ threadId }) => threadId)).toEqual([-1]);
});
