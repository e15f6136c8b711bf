import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { isLease } from '../../src/store/leases.ts';
import type { Wire } from '../../src/workers/questions.ts';
import { Supervisor, type WorkerEnd, type WorkerProcess } from '../../src/workers/supervisor.ts';
import { WorkerLine } from '../../src/workers/worker-line.ts';
import { wirePair } from '../support/wire-pair.ts';

/** A worker without a process: the test says what it does. */
class PlayedWorker implements WorkerProcess {
  readonly pid = 1;
  readonly wire: Wire;
  readonly line: WorkerLine;
  readonly ended: Promise<WorkerEnd>;
  readonly signals: string[] = [];
  end: (end: WorkerEnd) => void = () => {};

  constructor(readonly id: number) {
    const [here, there] = wirePair();
    this.wire = here;
    this.line = new WorkerLine({ wire: there });
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
  }

  kill(signal: string): void {
    this.signals.push(signal);
  }
}

const SOON = { pauseMs: 1, longestPauseMs: 4 };

function play(count: number, times: object = {}) {
  const workers: PlayedWorker[] = [];
  const supervisor = new Supervisor({
    count,
    fork: () => {
      const worker = new PlayedWorker(workers.length + 1);
      workers.push(worker);
      return worker;
    },
    logger: silentLogger,
    times: { ...SOON, ...times },
  });
  const at = (index: number) => workers[index] as PlayedWorker;
  return { supervisor, workers, at, code: supervisor.run() };
}

it('the first worker is alone until it listens', async () => {
  const { supervisor, workers, at, code } = play(3);
  expect(await at(0).line.place()).toEqual({ isFirst: true, isAlone: true });
  expect(workers).toHaveLength(1);
  await at(0).line.ready();
  await expect.poll(() => workers.length).toBe(3);
  expect(await at(1).line.place()).toEqual({ isFirst: false, isAlone: false });
  supervisor.end();
  for (const worker of workers) worker.end({ code: 0, signal: null });
  expect(await code).toBe(0);
});

it('where the first worker cannot start nobody can, and its exit code is that of all', async () => {
  const { workers, at, code } = play(3);
  at(0).end({ code: 7, signal: null });
  expect(await code).toBe(7);
  expect(workers).toHaveLength(1);
});

it('a worker that dies is started again, and what it held is free', async () => {
  const { supervisor, workers, at, code } = play(2);
  await at(0).line.ready();
  await expect.poll(() => workers.length).toBe(2);
  await at(1).line.ready();
  expect(isLease(await at(1).line.leases.acquire('key'))).toBe(true);
  expect(isLease(await at(0).line.leases.acquire('key'))).toBe(false);
  at(1).end({ code: null, signal: 'SIGKILL' });
  await expect.poll(() => workers.length).toBe(3);
  expect(isLease(await at(0).line.leases.acquire('key'))).toBe(true);
  expect(await at(2).line.place()).toEqual({ isFirst: false, isAlone: false });
  supervisor.end();
  expect(at(0).signals).toEqual(['SIGTERM']);
  at(0).end({ code: 0, signal: null });
  // It had not begun to listen.
  at(2).end({ code: null, signal: 'SIGTERM' });
  expect(await code).toBe(0);
});

it('when all have died at once, one of them is alone again until it listens', async () => {
  const { supervisor, workers, at, code } = play(3);
  await at(0).line.ready();
  await expect.poll(() => workers.length).toBe(3);
  for (const worker of [...workers]) worker.end({ code: null, signal: 'SIGBUS' });
  await expect.poll(() => workers.length).toBe(4);
  expect(await at(3).line.place()).toEqual({ isFirst: false, isAlone: true });
  await delay(20);
  expect(workers).toHaveLength(4);
  // It dies of the same.
  at(3).end({ code: null, signal: 'SIGBUS' });
  await expect.poll(() => workers.length).toBe(5);
  expect(await at(4).line.place()).toEqual({ isFirst: false, isAlone: true });
  await at(4).line.ready();
  await expect.poll(() => workers.length).toBe(7);
  supervisor.end();
  for (const worker of workers.slice(4)) worker.end({ code: 0, signal: null });
  expect(await code).toBe(0);
});

it('the exit code is the worst of those that workers end with', async () => {
  const { supervisor, workers, at, code } = play(2);
  await at(0).line.ready();
  await expect.poll(() => workers.length).toBe(2);
  supervisor.end();
  at(0).end({ code: 3, signal: null });
  at(1).end({ code: 0, signal: null });
  expect(await code).toBe(3);
});

it('a worker that does not answer is killed', async () => {
  const { supervisor, at, code } = play(1, { lookMs: 1, silenceMs: 30 });
  await at(0).line.ready();
  at(0).line.hear('unused', async () => {});
  // It stands still: nothing of what it is asked arrives.
  at(0).wire.send = () => {};
  await expect.poll(() => at(0).signals).toContain('SIGKILL');
  supervisor.end();
  at(0).end({ code: null, signal: 'SIGKILL' });
  expect(await code).toBe(1);
});

it('what a worker holds that does not answer is free for others before it is killed, and it goes on when it comes to itself', async () => {
  const { supervisor, workers, at, code } = play(2, { lookMs: 1, holdMs: 50, silenceMs: 60_000 });
  await at(0).line.ready();
  await expect.poll(() => workers.length).toBe(2);
  await at(1).line.ready();
  const lost = await at(1).line.leases.acquire('key');
  if (!isLease(lost)) throw new Error('somebody has it');
  const { send } = at(1).wire;
  at(1).wire.send = () => {};
  const next = await vi.waitUntil(
    async () => {
      const acquired = await at(0).line.leases.acquire('key');
      return isLease(acquired) ? acquired : undefined;
    },
    { timeout: 10_000 },
  );
  expect(next.token).toBeGreaterThan(lost.token);
  expect(at(1).signals).toEqual([]);
  // It takes nothing away from whoever has it now.
  at(1).wire.send = send;
  await lost.release();
  expect(isLease(await at(1).line.leases.acquire('key'))).toBe(false);
  expect(isLease(await at(1).line.leases.acquire('other'))).toBe(true);
  supervisor.end();
  for (const worker of workers) worker.end({ code: 0, signal: null });
  expect(await code).toBe(0);
});

it('the others are told and asked, and whoever does waits for what they do about it', async () => {
  const { supervisor, workers, at, code } = play(3);
  await at(0).line.ready();
  await expect.poll(() => workers.length).toBe(3);
  const heard: number[] = [];
  for (const worker of workers) worker.line.hear('sealing', async () => void heard.push(worker.id));
  await Promise.all([at(1).line.ready(), at(2).line.ready()]);
  expect(await at(1).line.askOthers('sealing')).toEqual([]);
  expect(heard.sort()).toEqual([1, 3]);
  for (const worker of workers) worker.line.hear('who', (about) => `${about} ${worker.id}`);
  expect([...(await at(0).line.askOthers('who', 'it is'))].sort()).toEqual(['it is 2', 'it is 3']);
  supervisor.end();
  for (const worker of workers) worker.end({ code: 0, signal: null });
  await code;
});
