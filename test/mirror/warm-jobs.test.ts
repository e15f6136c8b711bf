import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Platform } from '../../src/address/platform.ts';
import type { JobHead } from '../../src/mirror/job.ts';
import { MAX_JOBS } from '../../src/mirror/job-store.ts';
import { watchJob } from '../../src/mirror/job-watch.ts';
import type { PlannedItem, Wish } from '../../src/mirror/wanted.ts';
import type { Warmed } from '../../src/mirror/warm.ts';
import { JobIsRunning, MirrorIsSealed } from '../../src/mirror/warm-jobs.ts';
import { WarmSchedules } from '../../src/mirror/warm-schedules.ts';
import { metadataKeys } from '../../src/store/keys.ts';
import type { MetadataEntry } from '../../src/store/metadata-store.ts';
import { afterTest } from '../support/after-test.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { eventually } from './scene.ts';
import { BY, ended, heard, held, MemoryStore, numbered, replica, WISH } from './warm-replica.ts';

describe('a job', () => {
  it('does every item once, no more at a time than allowed', async () => {
    const { jobs, brought, most } = replica(new MemoryStore(), { items: [...numbered(250), ...numbered(250)] });
    const { id } = await jobs.create(WISH, BY);
    const { head, items } = await ended(jobs, id);
    expect(head).toMatchObject({ state: 'finished', by: BY, bytes: 2500 });
    expect(head.totals).toEqual({ items: 250, present: 0, stored: 250, unsupported: 0, failed: 0 });
    expect(items.map(({ sequence }) => sequence).sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 250 }, (_, index) => index + 1),
    );
    expect(new Set(brought).size).toBe(brought.length);
    expect(most()).toBeLessThanOrEqual(4);
  });

  it('of five thousand items is written down in few and small pieces', async () => {
    const store = new MemoryStore();
    const { jobs } = replica(store, { items: numbered(5000) });
    const { id } = await jobs.create(WISH, BY);
    await ended(jobs, id);
    await eventually(() => jobs.running).toBe(0);
    // Planned once, done once, and the little that goes with it.
    expect(store.writes).toBeLessThan(400);
    expect(Math.max(...[...store.entries.values()].map(({ length }) => length))).toBeLessThan(32 * 1024);
    expect((await jobs.get(id)).items).toHaveLength(5000);
  });

  it('tries once more what trouble kept away that passes', async () => {
    let tries = 0;
    const bring = async (version: string): Promise<Warmed> => {
      if (version !== '1.0.1') return { outcome: 'present' };
      tries += 1;
      return tries === 1 ? { outcome: 'failed', reason: 'busy', mayPass: true } : { outcome: 'stored' };
    };
    const { jobs } = replica(new MemoryStore(), { bring });
    const { head } = await ended(jobs, (await jobs.create(WISH, BY)).id);
    expect(head.totals).toMatchObject({ present: 2, stored: 1, failed: 0 });
  });

  it('goes on while its store does not answer, and is written down when it does again', async () => {
    const store = new MemoryStore();
    const { letGo, bring } = held();
    const { jobs } = replica(store, { bring });
    const { id } = await jobs.create(WISH, BY);
    await eventually(async () => (await jobs.get(id)).head.isPlanned).toBe(true);
    store.isFailing = true;
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    store.isFailing = false;
    letGo();
    expect((await ended(jobs, id)).head.totals.stored).toBe(3);
  });

  it('that ends while its store does not answer is written down when that is back, be it empty', async () => {
    const store = new MemoryStore();
    const { letGo, bring } = held();
    const { jobs } = replica(store, { bring });
    const { id } = await jobs.create(WISH, BY);
    await eventually(async () => (await jobs.get(id)).head.isPlanned).toBe(true);
    store.isFailing = true;
    letGo();
    expect((await ended(jobs, id)).head.state).toBe('finished');
    store.entries.clear();
    store.isFailing = false;
    await eventually(async () => (await jobs.list()).map((one) => one.id)).toEqual([id]);
    expect((await ended(replica(store).jobs, id)).head).toMatchObject({ state: 'finished', totals: { stored: 3 } });
  });

  it('is written down anew, all of it, when its store has forgotten it in the middle', async () => {
    const store = new MemoryStore();
    const { bring, letGo } = held();
    const { jobs } = replica(store, {
      items: numbered(250),
      bring: async (version) => (version === '1.0.0' ? { outcome: 'failed', reason: 'gone' } : bring()),
    });
    const { id } = await jobs.create(WISH, BY);
    await eventually(async () => (await jobs.get(id)).head.totals.failed).toBe(1);
    store.entries.clear();
    await eventually(() => [...store.entries.keys()].length).toBeGreaterThan(3);
    letGo();
    const { head, items } = await ended(jobs, id);
    expect(head).toMatchObject({ state: 'finished', totals: { items: 250, stored: 249, failed: 1 } });
    expect(items).toHaveLength(250);
    expect(items[0]).toMatchObject({ outcome: 'failed', reason: 'gone' });
  });

  it('says of what had to make room again that it is not here', async () => {
    const { jobs } = replica(new MemoryStore(), { items: numbered(3), isStored: (version) => version !== '1.0.0' });
    const { head, items } = await ended(jobs, (await jobs.create(WISH, BY)).id);
    expect(head.totals).toMatchObject({ stored: 2, failed: 1 });
    expect(items[0]).toMatchObject({ outcome: 'failed', reason: expect.stringContaining('limits.disk') });
  });

  it('keeps nothing of files that are not read', async () => {
    const store = new MemoryStore();
    const { jobs } = replica(store);
    const files = [...WISH.files, { path: 'prod.tfvars', text: 'password = "s3cret"' }];
    await ended(jobs, (await jobs.create({ ...WISH, files }, BY)).id);
    expect([...store.entries.values()].join('')).not.toContain('s3cret');
  });

  it('that cannot be entered leaves nothing, and is not begun', async () => {
    for (const refused of [/:jobs$/, /job-wish:/, /:job:/]) {
      const store = Object.assign(new MemoryStore(), { refused });
      const { jobs, brought } = replica(store);
      await expect(jobs.create(WISH, BY)).rejects.toThrow('does not take');
      expect([...store.entries.keys()]).toEqual([]);
      expect([jobs.running, brought]).toEqual([0, []]);
    }
  });

  it('has ended, whatever becomes of those who are told', async () => {
    const logger = recordingLogger();
    const onEnd = () => {
      throw new Error('the audit log is full');
    };
    for (const told of [onEnd, async () => onEnd()]) {
      const { jobs } = replica(new MemoryStore(), { onEnd: told, onOutcome: onEnd, logger });
      const { head } = await ended(jobs, (await jobs.create(WISH, BY)).id);
      expect(head).toMatchObject({ state: 'finished', totals: { stored: 3 } });
      await jobs.close();
    }
    const messages = logger.lines.filter(({ level }) => level === 'error').map(({ message }) => message);
    expect(messages.filter((message) => message === 'the end of a job could not be told')).toHaveLength(2);
    expect(messages.filter((message) => message.startsWith('what has become of an item'))).toHaveLength(6);
  });

  it('that cannot be planned has failed, and says why', async () => {
    const plan = async () => {
      throw new Error('a fault of ours');
    };
    const { jobs } = replica(new MemoryStore(), { plan });
    const { head } = await ended(jobs, (await jobs.create(WISH, BY)).id);
    expect(head).toMatchObject({ state: 'failed', reason: expect.stringContaining('internal error') });
  });

  it('is one of a hundred: the oldest are forgotten, with all that belongs to them', async () => {
    const store = new MemoryStore();
    const { jobs } = replica(store, { items: numbered(1) });
    const ids: string[] = [];
    for (let count = 0; count < MAX_JOBS + 3; count += 1) {
      const { id } = await jobs.create(WISH, BY);
      ids.push(id);
      await ended(jobs, id);
    }
    await eventually(() => jobs.running).toBe(0);
    expect(await jobs.list()).toHaveLength(MAX_JOBS);
    const [first = ''] = ids;
    await expect(jobs.get(first)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect([...store.entries.keys()].filter((key) => key.includes(first))).toEqual([]);
  });
});

describe('cancelling', () => {
  it('ends a job at once, and tries nothing more', async () => {
    const { letGo, bring } = held();
    const ends: string[] = [];
    const { jobs, brought } = replica(new MemoryStore(), {
      items: numbered(50),
      bring,
      onEnd: ({ state }) => void ends.push(state),
    });
    const { id } = await jobs.create(WISH, BY);
    await eventually(() => brought.length).toBe(4);
    expect((await jobs.cancel(id)).state).toBe('cancelled');
    letGo();
    expect(brought).toHaveLength(4);
    expect((await jobs.cancel(id)).state).toBe('cancelled');
    expect(ends).toEqual(['cancelled']);
  });

  it('ends the planning, too', async () => {
    const planning = held();
    const { jobs, brought } = replica(new MemoryStore(), {
      plan: async () => {
        await planning.bring();
        return numbered(3);
      },
    });
    const { id } = await jobs.create(WISH, BY);
    expect((await jobs.cancel(id)).state).toBe('cancelled');
    planning.letGo();
    expect((await jobs.get(id)).head).toMatchObject({ state: 'cancelled', isPlanned: false });
    // Begun again, it is planned first.
    await jobs.retry(id);
    expect((await ended(jobs, id)).head).toMatchObject({ state: 'finished', totals: { items: 3, stored: 3 } });
    expect(brought).toHaveLength(3);
  });

  it('while the store does not answer holds once it does: nobody else goes on with the job', async () => {
    const store = new MemoryStore();
    const { bring } = held();
    const { jobs, brought } = replica(store, { items: numbered(50), bring });
    const { id } = await jobs.create(WISH, BY);
    await eventually(() => brought.length).toBe(4);
    store.isFailing = true;
    expect((await jobs.cancel(id)).state).toBe('cancelled');
    await expect(jobs.retry(id)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    store.isFailing = false;
    const other = replica(store);
    expect((await ended(other.jobs, id)).head.state).toBe('cancelled');
    await eventually(() => jobs.running).toBe(0);
    expect((await other.jobs.head(id)).owner).toBeUndefined();
  });

  it('of a job that another replica took over meanwhile reaches that one, and overwrites nothing of it', async () => {
    const store = new MemoryStore();
    const hold = held();
    const ends: string[] = [];
    const { jobs, brought } = replica(store, {
      items: numbered(50),
      bring: hold.bring,
      onEnd: ({ state }) => void ends.push(state),
    });
    const { id } = await jobs.create(WISH, BY);
    await eventually(() => brought.length).toBe(4);
    store.isFailing = true;
    expect((await jobs.cancel(id)).state).toBe('cancelled');
    const key = metadataKeys.job(id);
    const entry = JSON.parse(store.entries.get(key) as string) as MetadataEntry & { value: JobHead };
    const theirs = JSON.stringify({
      ...entry,
      value: { ...entry.value, owner: { ...entry.value.owner, instance: 'two' } },
    });
    store.entries.set(key, theirs);
    store.isFailing = false;
    await eventually(() => jobs.running).toBe(0);
    expect(store.entries.get(key)).toBe(theirs);
    expect(store.entries.has(metadataKeys.jobCancel(id))).toBe(true);
    expect(ends).toEqual([]);
  });

  it('reaches a job that runs on another replica', async () => {
    const store = new MemoryStore();
    const { bring } = held();
    const one = replica(store, { items: numbered(50), bring });
    const other = replica(store);
    const { id } = await one.jobs.create(WISH, BY);
    await eventually(() => one.brought.length).toBe(4);
    await other.jobs.cancel(id);
    expect((await ended(other.jobs, id)).head.state).toBe('cancelled');
    expect(one.jobs.running).toBe(0);
  });
});

describe('trying again', () => {
  it('does what failed, and nothing else', async () => {
    let isWell = false;
    const bring = async (version: string): Promise<Warmed> =>
      isWell || version !== '1.0.1' ? { outcome: 'stored', bytes: 5 } : { outcome: 'failed', reason: 'broken' };
    const { jobs, brought } = replica(new MemoryStore(), { bring });
    const { id } = await jobs.create(WISH, BY);
    expect((await ended(jobs, id)).head.totals).toMatchObject({ stored: 2, failed: 1 });
    isWell = true;
    brought.length = 0;
    await jobs.retry(id);
    const { head, items } = await ended(jobs, id);
    expect(head.totals).toEqual({ items: 3, present: 0, stored: 3, unsupported: 0, failed: 0 });
    expect(brought).toEqual(['1.0.1']);
    expect(items[1]?.reason).toBeUndefined();
  });

  it('looks anew for what was not found, and keeps what is there', async () => {
    let items: PlannedItem[] = [
      ...numbered(2),
      { unplanned: 'acme/late', outcome: 'failed', reason: 'no such provider' },
    ];
    const { jobs, brought } = replica(new MemoryStore(), { plan: async () => items });
    const { id } = await jobs.create(WISH, BY);
    expect((await ended(jobs, id)).head.totals).toMatchObject({ stored: 2, failed: 1 });
    items = numbered(3);
    brought.length = 0;
    await jobs.retry(id);
    expect((await ended(jobs, id)).head.totals).toMatchObject({ items: 3, stored: 3, failed: 0 });
    expect(brought).toEqual(['1.0.2']);
  });

  it('that cannot be entered leaves the job as it ended', async () => {
    const store = new MemoryStore();
    const { jobs } = replica(store, { bring: async () => ({ outcome: 'failed', reason: 'broken' }) });
    const { id } = await jobs.create(WISH, BY);
    const before = await ended(jobs, id);
    await eventually(() => jobs.running).toBe(0);
    store.refused = /:jobs$/;
    await expect(jobs.retry(id)).rejects.toThrow('does not take');
    expect(await jobs.get(id)).toEqual(before);
    store.refused = /^$/;
    await jobs.retry(id);
    expect((await ended(jobs, id)).head.totals).toMatchObject({ failed: 3 });
  });

  it('is refused while it runs', async () => {
    const { letGo, bring } = held();
    const { jobs } = replica(new MemoryStore(), { bring });
    const { id } = await jobs.create(WISH, BY);
    await expect(jobs.retry(id)).rejects.toBeInstanceOf(JobIsRunning);
    letGo();
  });
});

describe('replicas', () => {
  it('all show a job, and its events, wherever it runs', async () => {
    const store = new MemoryStore();
    const { letGo, bring } = held();
    const one = replica(store, { bring });
    const other = replica(store);
    const { id } = await one.jobs.create(WISH, BY);
    expect((await other.jobs.list()).map((head) => [head.id, head.state])).toEqual([[id, 'running']]);
    const events = heard(watchJob(other.jobs, id, { after: undefined, signal: new AbortController().signal }));
    letGo();
    const all = await events;
    expect(all[0]).toMatchObject({ type: 'snapshot' });
    expect(all.filter(({ type }) => type === 'item')).toHaveLength(3);
    expect(all.at(-1)).toMatchObject({ type: 'end', job: { head: { state: 'finished' } } });
    expect(other.brought).toEqual([]);
  });

  it('go on with what a closed one has left, without doing again what was done', async () => {
    const store = new MemoryStore();
    const { bring } = held();
    const first = replica(store, {
      items: numbered(20),
      bring: async (version) => (version === '1.0.0' ? { outcome: 'stored', bytes: 7 } : bring()),
    });
    const { id } = await first.jobs.create(WISH, BY);
    await eventually(async () => (await first.jobs.get(id)).head.totals.stored).toBe(1);
    await first.jobs.close();
    const next = replica(store, { items: [] });
    next.jobs.start();
    const { head, items } = await ended(next.jobs, id);
    expect(head).toMatchObject({ state: 'finished', totals: { items: 20, stored: 20 } });
    expect(next.brought).not.toContain('1.0.0');
    expect(next.brought).toHaveLength(19);
    expect(new Set(items.map(({ sequence }) => sequence)).size).toBe(20);
  });

  it('take over from one that shows no life any more, and not from one that does', async () => {
    const store = new MemoryStore();
    const { letGo, bring } = held();
    const living = replica(store, { bring });
    const { id } = await living.jobs.create(WISH, BY);
    await eventually(async () => (await living.jobs.get(id)).head.isPlanned).toBe(true);
    const key = [...store.entries.keys()].find((one) => one.endsWith(`job:${id}`)) as string;
    // One of another machine, which has died.
    const entry = JSON.parse(store.entries.get(key) as string);
    const dead = {
      ...entry.value,
      id: 'dead',
      owner: { instance: 'gone', host: 'elsewhere', pid: 1, startedAt: 1, beat: 3 },
    };
    store.entries.set(key.replace(id, 'dead'), JSON.stringify({ ...entry, value: dead }));
    for (const [one, text] of store.entries) {
      if (one.includes(`job-items:${id}`)) store.entries.set(one.replace(id, 'dead'), text);
      if (one.endsWith(':jobs')) {
        const index = JSON.parse(text);
        store.entries.set(
          one,
          JSON.stringify({ ...index, value: [...index.value, { ...index.value[0], id: 'dead' }] }),
        );
      }
    }
    // The living one beats once a second.
    const other = replica(store, { looks: { everyMs: 50, deadAfterMs: 2_500 } });
    other.jobs.start();
    expect((await ended(other.jobs, 'dead')).head.totals.stored).toBe(3);
    expect(other.brought).toHaveLength(3);
    letGo();
    expect((await ended(living.jobs, id)).head.totals.stored).toBe(3);
    expect(other.brought).toHaveLength(3);
  });
});

describe('events', () => {
  it('come again from where they were heard last', async () => {
    const { jobs } = replica(new MemoryStore(), { items: numbered(5) });
    const { id } = await jobs.create(WISH, BY);
    await ended(jobs, id);
    const signal = new AbortController().signal;
    const some = await heard(watchJob(jobs, id, { after: 3, signal }));
    expect(some.map(({ type, sequence }) => [type, sequence])).toEqual([
      ['item', 4],
      ['item', 5],
      ['progress', 5],
      ['end', 5],
    ]);
    // A number that nobody has given out yet.
    expect((await heard(watchJob(jobs, id, { after: 99, signal })))[0]).toMatchObject({ type: 'snapshot' });
  });

  it('stop for whoever has gone, and when the server closes', async () => {
    const { bring } = held();
    const { jobs } = replica(new MemoryStore(), { bring });
    const { id } = await jobs.create(WISH, BY);
    const gone = new AbortController();
    const [left, closed] = [gone.signal, new AbortController().signal].map((signal) =>
      heard(watchJob(jobs, id, { after: undefined, signal })),
    );
    gone.abort();
    expect((await left)?.some(({ type }) => type === 'end')).toBe(false);
    await jobs.close();
    expect((await closed)?.some(({ type }) => type === 'end')).toBe(false);
  });
});

describe('a schedule', () => {
  async function begin(replicas: number) {
    const directory = await mkdtemp(join(tmpdir(), 'larder-schedule-'));
    afterTest(() => rm(directory, { recursive: true, force: true }));
    const file = join(directory, 'warm.txt');
    await writeFile(file, 'acme/widget\n');
    const store = new MemoryStore();
    const made: { wish: Wish; by: string }[] = [];
    let time = Date.parse('2026-03-02T10:15:30');
    const waiting = new Set<() => void>();
    const clock = {
      now: () => time,
      wait: (_ms: number, signal: AbortSignal) =>
        new Promise<void>((resolve) => {
          waiting.add(resolve);
          signal.addEventListener('abort', () => resolve());
        }),
    };
    const states: JobHead['state'][] = [];
    const seal = { isSealed: false };
    const logger = recordingLogger();
    for (let count = 0; count < replicas; count += 1) {
      const schedules = new WarmSchedules({
        schedules: [{ file, cron: '*/30 * * * *', platforms: [Platform.parse('linux_amd64')] }],
        jobs: {
          create: async (wish, by) => {
            if (seal.isSealed) throw new MirrorIsSealed();
            made.push({ wish, by });
            states.push('running');
            return { id: String(made.length) } as JobHead;
          },
          list: async () => states.map((state) => ({ by: 'schedule:warm.txt', state }) as JobHead),
        },
        store,
        client: 'opentofu',
        logger,
        clock,
      });
      schedules.start();
      afterTest(() => schedules.close());
    }
    const until = async (clockTime: string) => {
      time = Date.parse(`2026-03-02T${clockTime}`);
      await eventually(() => waiting.size).toBe(replicas);
      const all = [...waiting];
      waiting.clear();
      for (const resolve of all) resolve();
      // Everybody waits again: whatever was due has begun.
      await eventually(() => waiting.size).toBe(replicas);
    };
    return { file, made, states, seal, logger, until };
  }

  it('begins a job when it is due, with the file as it is then', async () => {
    const { file, made, states, until } = await begin(1);
    await until('10:29:59');
    expect(made).toEqual([]);
    await until('10:30:00');
    expect(made).toMatchObject([{ by: 'schedule:warm.txt', wish: { files: [{ text: 'acme/widget\n' }] } }]);
    await until('10:59:00');
    expect(made).toHaveLength(1);
    states[0] = 'finished';
    await writeFile(file, 'acme/gadget\n');
    await until('11:00:01');
    expect(made[1]?.wish.files).toEqual([{ path: 'warm.txt', text: 'acme/gadget\n' }]);
  });

  it('begins nothing while its last job still runs', async () => {
    const { made, until } = await begin(1);
    await until('10:30:00');
    await until('11:00:00');
    expect(made).toHaveLength(1);
  });

  it('begins nothing while the mirror is sealed, says so, and makes up for nothing', async () => {
    const { made, seal, logger, until } = await begin(1);
    seal.isSealed = true;
    await until('10:30:00');
    expect(logger.lines).toMatchObject([{ level: 'warn', message: expect.stringContaining('sealed') }]);
    seal.isSealed = false;
    await until('10:45:00');
    expect(made).toEqual([]);
    await until('11:00:00');
    expect(made).toHaveLength(1);
  });

  it('is run by one replica of several', async () => {
    const { made, until } = await begin(3);
    await until('10:30:00');
    expect(made).toHaveLength(1);
  });
});
