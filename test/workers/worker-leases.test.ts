import { expect, it } from 'vitest';
import { isLease } from '../../src/store/leases.ts';
import { LeaseDesk } from '../../src/workers/lease-desk.ts';
import { Questions } from '../../src/workers/questions.ts';
import { WorkerLeases } from '../../src/workers/worker-leases.ts';
import { acquired, leasesContract } from '../contract/leases.ts';
import { wirePair } from '../support/wire-pair.ts';

const KEY = 'archive/h.example/ns/type';

function worker(desk: LeaseDesk, id: number): WorkerLeases {
  const [here, there] = wirePair();
  new Questions({ wire: there, answers: desk.answersFor(id) });
  return new WorkerLeases({ supervisor: new Questions({ wire: here, answers: {} }) });
}

leasesContract('workers of one machine', async () => {
  const desk = new LeaseDesk();
  const [here, there] = [worker(desk, 1), worker(desk, 2)];
  return { here, there, close: async () => void (await Promise.all([here.close(), there.close()])) };
});

it('what a worker held that died is there for the others at once', async () => {
  const desk = new LeaseDesk();
  const [dying, other] = [worker(desk, 1), worker(desk, 2)];
  const lease = await acquired(dying, KEY);
  const kept = await acquired(other, `${KEY}/kept`);
  desk.left(1);
  expect((await acquired(other, KEY)).token).toBeGreaterThan(lease.token);
  expect(await other.look(`${KEY}/kept`)).toEqual({ token: kept.token, text: undefined });
});

it('a supervisor that says nothing leaves everybody to themselves, and is told so', async () => {
  const leases = new WorkerLeases({ supervisor: { ask: async () => Promise.reject(new Error('no answer')) } });
  const lease = await leases.acquire(KEY);
  if (!isLease(lease)) throw new Error('somebody has it');
  expect(lease.token).toBe(0);
  expect(leases.unshared).toBe(1);
  await lease.note('nobody hears');
  await lease.release();
  await expect(leases.look(KEY)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
});
