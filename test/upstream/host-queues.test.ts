import { expect, it } from 'vitest';
import { HostQueues } from '../../src/upstream/host-queues.ts';
import { failureOf, patience } from './scripted-server.ts';

const here = new URL('https://registry.example.com/v1/');
const there = new URL('https://registry.example.com:8443/v1/');

/** A task that ends when told to. */
function held() {
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  return { task: () => ended, end };
}

it('lets so many through to a host at a time, and tells how many wait at each', async () => {
  const queues = new HostQueues({ concurrency: 2 });
  expect(queues.states()).toEqual([]);
  const { task, end } = held();
  const taken = [here, here, here, here, there, there, there].map((url) => queues.take(url, patience(), task));
  await expect
    .poll(() => queues.states())
    .toEqual([
      { host: 'registry.example.com:8443', waiting: 1 },
      { host: 'registry.example.com', waiting: 2 },
    ]);
  end();
  await Promise.all(taken);
  expect(queues.states()).toEqual([]);
});

it('whoever loses patience is not let through any more', async () => {
  const queues = new HostQueues({ concurrency: 1 });
  const { task, end } = held();
  const first = queues.take(here, patience(), task);
  const giveUp = new AbortController();
  let ran = false;
  const second = queues.take(here, giveUp.signal, async () => {
    ran = true;
  });
  giveUp.abort();
  expect(await failureOf(second)).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'timeout' });
  end();
  await first;
  await queues.take(here, patience(), async () => {});
  expect(ran).toBe(false);
});
