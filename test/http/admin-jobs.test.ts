import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { Agent, request } from 'undici';
import { describe, expect, it } from 'vitest';
import { type ReceivedEvent, receivedEvents } from '../../src/cli/event-source.ts';
import type { WholeJobDocument } from '../../src/http/job-documents.ts';
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
    expect(received[0]).toMatchObject({ type: 'snapshot', data: { id, state: 'running' } });
    const [snapshot] = received.map(({ data }) => data as WholeJobDocument);
    const items = snapshot?.items ?? [];
    const known = items.filter(({ outcome }) => outcome);
    const told = received.filter(({ type }) => type === 'item');
    expect(known.length + told.length).toBe(2);
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
