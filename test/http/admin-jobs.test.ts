import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { Agent, request } from 'undici';
import { describe, expect, it } from 'vitest';
import { type ReceivedEvent, receivedEvents } from '../../src/cli/event-source.ts';
import { NARROW, OPS, startWarmScene, type WarmScene } from '../mirror/warm-scene.ts';
import { afterTest } from '../support/after-test.ts';
import { holdAfter, trickle } from '../support/faults.ts';

async function begin(config: Record<string, unknown> = {}) {
  const scene = await startWarmScene({
    providers: [{}, { type: 'gadget', sizeBytes: 300_000 }],
    config: { log: { audit: 'data/audit.jsonl' }, ...config },
  });
  const agent = new Agent({ connect: { ca: scene.larder.ca } });
  afterTest(() => agent.destroy());
  const events = async (id: string, headers: Record<string, string> = {}): Promise<Readable> => {
    const answer = await request(`${scene.larder.url}/admin/jobs/${id}/events`, {
      dispatcher: agent,
      headers: { authorization: `Bearer ${OPS}`, ...headers },
    });
    expect(answer.statusCode).toBe(200);
    expect(answer.headers).toMatchObject({ 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    return answer.body;
  };
  const host = scene.registry.hostname;
  return { ...scene, events, wish: { providers: [`${host}/acme/widget`, `${host}/acme/gadget`] } };
}

async function all(stream: Readable): Promise<ReceivedEvent[]> {
  const received: ReceivedEvent[] = [];
  for await (const event of receivedEvents(stream)) received.push(event);
  return received;
}

async function audit({ larder }: WarmScene): Promise<Record<string, unknown>[]> {
  await larder.app.reopenAuditLog();
  const text = await readFile(join(larder.setup.dataDirectory, 'audit.jsonl'), 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('the events of a job', () => {
  it('begin with all there is, tell each outcome once and the bytes as they come, and close with the job', async () => {
    const scene = await begin();
    const slow = trickle(200_000);
    scene.registry.releases.on(/gadget.*\.zip/, slow);
    const id = await scene.warm(scene.wish);
    const received = await all(await scene.events(id));
    expect(received[0]).toMatchObject({
      type: 'snapshot',
      data: { id, state: expect.stringMatching(/^(planning|running)$/) },
    });
    expect(received[0]?.data).not.toHaveProperty('items');
    expect(received.filter(({ type }) => type === 'item')).toHaveLength(2);
    const bytes = received
      .filter(({ type }) => type === 'progress')
      .map(({ data }) => (data as { bytes: number }).bytes);
    // Some of it was told before all of it had come.
    expect(bytes.some((one) => one > 0 && one < 300_000)).toBe(true);
    expect(bytes).toEqual([...bytes].sort((a, b) => a - b));
    expect(received.at(-1)).toMatchObject({
      type: 'end',
      data: { state: 'finished', totals: { stored: 2, waiting: 0 } },
    });
  });

  it('go on after the one that was heard last', async () => {
    const scene = await begin();
    const id = await scene.warm(scene.wish);
    await scene.ended(id);
    const received = await all(await scene.events(id, { 'last-event-id': '1' }));
    expect(received.map(({ type, id: number }) => [type, number])).toEqual([
      ['item', '2'],
      ['progress', '2'],
      ['end', '2'],
    ]);
  });

  it('do not hold up the end of the server, and neither does the job', async () => {
    const scene = await begin();
    const hold = holdAfter(10);
    scene.registry.releases.on(/\.zip/, hold.fault);
    const id = await scene.warm(scene.wish);
    const received = all(await scene.events(id));
    await hold.reached;
    const before = performance.now();
    await scene.larder.close();
    expect(performance.now() - before).toBeLessThan(10_000);
    expect((await received).some(({ type }) => type === 'end')).toBe(false);
    hold.cut();
  });
});

describe('the items of a job', () => {
  it('are told page by page, with the totals of all of them', async () => {
    const scene = await begin();
    const id = await scene.warm({ ...scene.wish, platforms: ['linux_amd64', 'plan9_386'] });
    const { items } = await scene.ended(id);
    expect(items).toHaveLength(4);
    const page = async (query: string) => (await scene.admin('GET', `jobs/${id}?${query}`)).json();
    const first = await page('items=3');
    expect(first).toMatchObject({ totals: { items: 4 }, next: 3 });
    const last = await page(`items=3&after=${first.next}`);
    expect(last).toMatchObject({ totals: { items: 4 } });
    expect(last).not.toHaveProperty('next');
    expect([...first.items, ...last.items]).toEqual(items);
    expect(await page('items=0')).toMatchObject({ items: [], totals: { items: 4 }, next: 0 });
    expect(await page('after=99')).toMatchObject({ items: [] });
    for (const query of ['items=-1', 'items=5001', 'items=x', 'after=-1', 'after=1.5', 'items=1&items=2']) {
      expect((await scene.admin('GET', `jobs/${id}?${query}`)).status, query).toBe(400);
    }
  });
});

describe('while the mirror is sealed', () => {
  const seal = async (scene: WarmScene, sealed: boolean) => {
    const answer = await scene.get('/admin/seal', {
      method: 'PUT',
      headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' },
      body: JSON.stringify({ sealed }),
    });
    expect(answer.status, answer.text()).toBe(200);
  };

  it('no job is begun, nor begun again, and it is said how to unseal', async () => {
    const scene = await begin();
    const id = await scene.warm({ providers: [`${scene.registry.hostname}/acme/absent`] });
    await scene.ended(id);
    await seal(scene, true);
    const wanted = await scene.get('/admin/warm', {
      method: 'POST',
      headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' },
      body: JSON.stringify(scene.wish),
    });
    for (const refused of [wanted, await scene.admin('POST', `jobs/${id}/retry`)]) {
      expect(refused.status).toBe(409);
      expect(refused.json()).toMatchObject({ code: 'SEALED', hint: expect.stringContaining('larder seal --off') });
      expect(refused.json().errors[0]).toContain('this mirror is sealed');
    }
    expect((await scene.admin('GET', 'jobs')).json().jobs).toMatchObject([{ id, state: 'finished' }]);
    await seal(scene, false);
    expect((await scene.admin('POST', `jobs/${id}/retry`)).status).toBe(202);
  });

  it('a job that was running is paused, says so, and brings in what was under way once it is unsealed', async () => {
    const scene = await begin();
    const hold = holdAfter(10);
    const script = scene.registry.releases.on(/gadget.*\.zip/, hold.fault);
    const id = await scene.warm(scene.wish);
    await hold.reached;
    await seal(scene, true);
    script.remove();
    await expect.poll(async () => (await scene.job(id)).state).toBe('paused');
    expect((await scene.job(id)).reason).toContain('unsealed');
    await seal(scene, false);
    expect(await scene.ended(id)).toMatchObject({ state: 'finished', totals: { stored: 2, failed: 0 } });
    hold.cut();
  });

  it('a job that is found at the start waits, and goes on once it is unsealed', async () => {
    const scene = await begin();
    const hold = holdAfter(10);
    const script = scene.registry.releases.on(/\.zip/, hold.fault);
    const id = await scene.warm(scene.wish);
    await hold.reached;
    await seal(scene, true);
    await scene.larder.close();
    script.remove();
    hold.cut();
    const again = await startWarmScene({ registry: scene.registry, setup: scene.larder.setup });
    await expect.poll(async () => (await again.job(id)).state, { timeout: 10_000 }).toBe('paused');
    await seal(again, false);
    expect(await again.ended(id)).toMatchObject({ state: 'finished', totals: { items: 2, failed: 0 } });
  });
});

describe('the doors of jobs', () => {
  it('are for operators', async () => {
    const { get } = await begin();
    for (const [method, path] of [
      ['POST', 'warm'],
      ['GET', 'jobs'],
      ['GET', 'jobs/1'],
      ['GET', 'jobs/1/events'],
      ['POST', 'jobs/1/retry'],
      ['DELETE', 'jobs/1'],
    ] as const) {
      expect((await get(`/admin/${path}`, { method })).status, path).toBe(401);
    }
  });

  it('cancel, try again, and leave a trace of who did', async () => {
    const scene = await begin();
    const hold = holdAfter(10);
    const script = scene.registry.releases.on(/\.zip/, hold.fault);
    const id = await scene.warm(scene.wish);
    await hold.reached;
    expect((await scene.admin('POST', `jobs/${id}/retry`)).status).toBe(409);
    expect((await scene.admin('DELETE', `jobs/${id}`, NARROW)).status).toBe(404);
    const cancelled = await scene.admin('DELETE', `jobs/${id}`);
    expect(cancelled.json()).toMatchObject({ id, state: 'cancelled', totals: { items: 2 } });
    hold.release();
    script.remove();
    const retried = await scene.admin('POST', `jobs/${id}/retry`);
    expect(retried.status).toBe(202);
    expect((await scene.ended(id)).totals).toMatchObject({ items: 2, waiting: 0, failed: 0 });
    expect(scene.registry.releases.requests.count(/^GET .*\.zip/)).toBe(2);
    const done = (await audit(scene)).filter(({ event }) => String(event).startsWith('warm-'));
    expect(done.map(({ event }) => event)).toEqual([
      'warm-began',
      'warm-ended',
      'warm-cancelled',
      'warm-retried',
      'warm-ended',
    ]);
    expect(done[0]).toMatchObject({ client: 'ops', job: id });
  });

  it('know of no other jobs', async () => {
    const { admin } = await begin();
    for (const [method, path] of [
      ['GET', 'jobs/20260101-000000-abcdef'],
      ['GET', 'jobs/..%2f..'],
      ['GET', 'jobs/20260101-000000-abcdef/events'],
      ['POST', 'jobs/20260101-000000-abcdef/cancel'],
    ] as const) {
      const answer = await admin(method, path);
      expect([path, answer.status]).toEqual([path, path.includes('%2f') ? answer.status : 404]);
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.status).toBeLessThan(500);
    }
    expect((await admin('PUT', 'jobs')).status).toBe(405);
  });
});
