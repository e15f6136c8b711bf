import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { answeredWithin, settledWithin, unlessAborted } from '../src/time-limit.ts';

const never = new Promise<never>(() => {});

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('what comes in time is what it is, good or bad, and leaves no timer behind', async () => {
  for (const wait of [settledWithin, answeredWithin]) {
    expect(await wait(Promise.resolve(1), 1_000)).toBe(1);
    await expect(wait(Promise.reject(new Error('bad')), 1_000)).rejects.toThrow('bad');
  }
  expect(vi.getTimerCount()).toBe(0);
});

it('what is late is undefined, or an error, and may still fail without harm', async () => {
  let fail = (_: Error) => {};
  const late = new Promise<number>((_resolve, reject) => {
    fail = reject;
  });
  const settled = settledWithin(late, 1_000);
  const answered = expect(answeredWithin(never, 1_000)).rejects.toThrow('no answer within 1000 ms');
  await vi.advanceTimersByTimeAsync(999);
  expect(vi.getTimerCount()).toBe(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(await settled).toBeUndefined();
  await answered;
  fail(new Error('nobody hears of it'));
});

it('time that is over already is none', async () => {
  const settled = settledWithin(never, -5);
  await vi.advanceTimersByTimeAsync(0);
  expect(await settled).toBeUndefined();
});

it('what nobody wants any more ends with the reason, also when that was so before, and may still fail without harm', async () => {
  const abort = new AbortController();
  let fail = (_: Error) => {};
  const unwanted = new Promise<number>((_resolve, reject) => {
    fail = reject;
  });
  const waiting = unlessAborted(unwanted, abort.signal);
  abort.abort(new Error('no more'));
  await expect(waiting).rejects.toThrow('no more');
  await expect(unlessAborted(never, abort.signal)).rejects.toThrow('no more');
  fail(new Error('nobody hears of it'));
  expect(await unlessAborted(Promise.resolve(1), new AbortController().signal)).toBe(1);
  await expect(unlessAborted(Promise.reject(new Error('bad')), new AbortController().signal)).rejects.toThrow('bad');
});

it('what has arrived while this process was busy is in time', async () => {
  vi.useRealTimers();
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [[other]] = (await Promise.all([once(server, 'connection'), once(socket, 'connect')])) as [[Socket], unknown];
  try {
    const answered = answeredWithin(
      once(socket, 'data').then(([data]) => String(data)),
      20,
    );
    other.write('answer');
    const busyUntil = performance.now() + 100;
    while (performance.now() < busyUntil);
    expect(await answered).toBe('answer');
  } finally {
    socket.destroy();
    other.destroy();
    server.close();
  }
});
