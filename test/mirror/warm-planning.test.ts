import { describe, expect, it } from 'vitest';
import type { Diagnostic } from '../../src/configuration/requirements.ts';
import type { Job } from '../../src/mirror/job.ts';
import { findingsOf, MAX_DIAGNOSTICS } from '../../src/mirror/job-findings.ts';
import { type JobEvent, watchJob } from '../../src/mirror/job-watch.ts';
import { Opening } from '../../src/mirror/opening.ts';
import type { PlanOptions } from '../../src/mirror/planned-wish.ts';
import type { PlannedItem } from '../../src/mirror/wanted.ts';
import { eventually } from './scene.ts';
import { BY, ended, heard, MemoryStore, numbered, replica, WISH } from './warm-replica.ts';

const MISSING: PlannedItem = { unplanned: 'h/acme/missing', outcome: 'failed', reason: 'h has no acme/missing' };

/** A plan that finds what it is told to find, when it is told so. */
function planning() {
  const begun: PlanOptions[] = [];
  const ends: ((items: readonly PlannedItem[]) => void)[] = [];
  return {
    begun,
    find: (...items: PlannedItem[]) => {
      for (const item of items) begun.at(-1)?.onPlanned(item);
    },
    end: (items: readonly PlannedItem[]) => ends.at(-1)?.(items),
    plan: (options: PlanOptions) =>
      new Promise<readonly PlannedItem[]>((resolve, reject) => {
        begun.push(options);
        ends.push(resolve);
        options.signal.addEventListener('abort', () => reject(options.signal.reason));
      }),
  };
}

function names({ items }: Pick<Job, 'items'>): string[] {
  return items.map(({ name, outcome = '' }) => `${name.split(' ')[1] ?? name} ${outcome}`.trim());
}

describe('a job that is being planned', () => {
  it('shows what was found so far, here and on other replicas, and tells it as it is found', async () => {
    const store = new MemoryStore();
    const { plan, begun, find, end } = planning();
    const { jobs } = replica(store, { plan });
    const other = replica(store);
    const { id } = await jobs.create(WISH, BY);
    const events: JobEvent[] = [];
    const told = (async () => {
      const signal = new AbortController().signal;
      for await (const event of watchJob(jobs, id, { after: undefined, signal })) events.push(event);
    })();
    await eventually(() => begun.length).toBe(1);
    const [first, second, third] = numbered(3) as [PlannedItem, PlannedItem, PlannedItem];
    find(third, MISSING);
    expect(names(await jobs.get(id))).toEqual(['1.0.2', 'h/acme/missing failed']);
    expect((await jobs.get(id)).head).toMatchObject({ isPlanned: false, totals: { items: 2, failed: 1 } });
    await eventually(async () => names(await other.jobs.get(id))).toEqual(['1.0.2', 'h/acme/missing failed']);
    await eventually(() => events.map(({ type }) => type)).toContain('planned');
    find(first, third);
    expect((await jobs.get(id)).head.totals.items).toBe(3);
    end([first, second, third, MISSING]);
    expect(names(await ended(jobs, id))).toEqual([
      '1.0.0 stored',
      '1.0.1 stored',
      '1.0.2 stored',
      'h/acme/missing failed',
    ]);
    await told;
    const items = events.flatMap((event) => ('item' in event ? [[event.type, event.sequence]] : []));
    expect(items.filter(([type]) => type === 'item').map(([, sequence]) => sequence)).toEqual([1, 2, 3, 4]);
    const planned = events.filter(({ type }) => type === 'planned').map((event) => 'item' in event && event.item.name);
    expect(new Set(planned).size).toBe(planned.length);
    expect(events[0]).toMatchObject({ type: 'snapshot', sequence: 0 });
    const states = events.flatMap((event) => ('head' in event ? [event.head.isPlanned] : []));
    expect(states[0]).toBe(false);
    expect(states.at(-1)).toBe(true);
    await eventually(async () => names(await other.jobs.get(id))).toHaveLength(4);
  });

  it('is told from its beginning to whoever comes again meanwhile: what was found has no number', async () => {
    const { plan, begun, find, end } = planning();
    const { jobs } = replica(new MemoryStore(), { plan });
    const { id } = await jobs.create(WISH, BY);
    await eventually(() => begun.length).toBe(1);
    find(...numbered(2));
    const all = heard(watchJob(jobs, id, { after: 0, signal: new AbortController().signal }));
    end(numbered(2));
    expect((await all).slice(0, 3).map(({ type }) => type)).toEqual(['snapshot', 'planned', 'planned']);
  });

  it('does not believe what is found once the mirror is sealed, and is planned anew when it is open', async () => {
    const opening = new Opening();
    const { plan, begun, find, end } = planning();
    const { jobs } = replica(new MemoryStore(), { plan, opening });
    const { id } = await jobs.create(WISH, BY);
    await eventually(() => begun.length).toBe(1);
    find(...numbered(1));
    opening.seal();
    find({ unplanned: 'h/acme/widget 1.0.1', outcome: 'unsupported', reason: 'it is not stored' });
    await eventually(async () => (await jobs.get(id)).head.isPaused).toBe(true);
    expect(names(await jobs.get(id))).toEqual(['1.0.0']);
    opening.unseal();
    await eventually(() => begun.length).toBe(2);
    expect((await jobs.get(id)).head.isPaused).toBeUndefined();
    find(...numbered(2));
    end(numbered(2));
    expect(names(await ended(jobs, id))).toEqual(['1.0.0 stored', '1.0.1 stored']);
  });
});

describe('a job while the mirror is sealed', () => {
  it('waits at its start, can be cancelled, and is gone on with elsewhere', async () => {
    const store = new MemoryStore();
    const { plan, begun } = planning();
    const first = replica(store, { plan });
    const ids = [(await first.jobs.create(WISH, BY)).id, (await first.jobs.create(WISH, BY)).id];
    await eventually(() => begun.length).toBe(2);
    await first.jobs.close();
    const opening = new Opening();
    opening.seal();
    const sealed = replica(store, { opening });
    sealed.jobs.start();
    for (const id of ids) await eventually(async () => (await sealed.jobs.get(id)).head.isPaused).toBe(true);
    expect(sealed.brought).toEqual([]);
    const [cancelled = '', left = ''] = ids;
    const { state, isPaused } = await sealed.jobs.cancel(cancelled);
    expect([state, isPaused]).toEqual(['cancelled', undefined]);
    await sealed.jobs.close();
    const open = replica(store);
    open.jobs.start();
    expect((await ended(open.jobs, left)).head).toMatchObject({ state: 'finished', totals: { stored: 3 } });
  });

  it('holds nothing against what the seal kept away', async () => {
    const opening = new Opening();
    let isFirst = true;
    const { jobs, brought } = replica(new MemoryStore(), {
      items: numbered(1),
      opening,
      bring: async () => {
        if (!isFirst) return { outcome: 'present', bytes: 10 };
        isFirst = false;
        opening.seal();
        return { outcome: 'stored', bytes: 10, note: 'clients may find it incomplete: it is sealed' };
      },
    });
    const { id } = await jobs.create(WISH, BY);
    await eventually(async () => (await jobs.get(id)).head.isPaused).toBe(true);
    expect((await jobs.get(id)).head.totals).toMatchObject({ items: 1, stored: 0, failed: 0 });
    opening.unseal();
    const { items } = await ended(jobs, id);
    expect(items).toMatchObject([{ outcome: 'stored', bytes: 10 }]);
    expect(items[0]?.note).toBeUndefined();
    expect(brought).toHaveLength(2);
  });
});

describe('what there is to say about a wish', () => {
  const one = (severity: Diagnostic['severity'], index: number): Diagnostic => ({
    file: `${index}.tf`,
    at: undefined,
    severity,
    message: 'this is so',
  });

  it('is in the order of its files', () => {
    const all = [one('note', 1), one('warning', 2), one('error', 3)];
    expect(findingsOf({ items: [], diagnostics: all }).diagnostics).toEqual(all);
  });

  it('loses notes and warnings before errors when there is too much', () => {
    const many = Array.from({ length: MAX_DIAGNOSTICS }, (_, index) =>
      one(index % 2 === 0 ? 'note' : 'warning', index),
    );
    const { diagnostics } = findingsOf({
      items: [],
      diagnostics: [...many, one('error', 5_000), one('error', 5_001)],
    });
    expect(diagnostics).toHaveLength(MAX_DIAGNOSTICS);
    expect(diagnostics.slice(0, 3).map(({ file }) => file)).toEqual(['5000.tf', '5001.tf', '1.tf']);
    expect(diagnostics.filter(({ severity }) => severity === 'warning')).toHaveLength(MAX_DIAGNOSTICS / 2);
  });
});
