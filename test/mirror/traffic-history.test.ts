import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { TrafficHistory, type TrafficPoint } from '../../src/mirror/traffic-history.ts';
import { NO_TRAFFIC, type TrafficTotals } from '../../src/mirror/traffic-log.ts';
import type { MetadataEntry } from '../../src/store/metadata-store.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOON = Date.parse('2026-03-01T12:00:30Z');

/** Whatever is put comes back as JSON would have it. */
class Store {
  readonly entries = new Map<string, string>();
  isAway = false;
  gets = 0;

  async get(key: string): Promise<MetadataEntry | undefined> {
    this.gets += 1;
    if (this.isAway) throw new Error('away');
    const entry = this.entries.get(key);
    return entry === undefined ? undefined : JSON.parse(entry);
  }

  async put(key: string, entry: MetadataEntry): Promise<void> {
    if (this.isAway) throw new Error('away');
    this.entries.set(key, JSON.stringify(entry));
  }
}

function begin() {
  const store = new Store();
  const clock = { now: NOON };
  const replica = () => {
    let totals: TrafficTotals = NO_TRAFFIC;
    const history = new TrafficHistory({
      store,
      totals: () => totals,
      logger: silentLogger,
      now: () => clock.now,
    });
    const goThrough = (more: Partial<TrafficTotals>) => {
      totals = Object.fromEntries(
        Object.entries(totals).map(([name, value]) => [name, value + (more[name as keyof TrafficTotals] ?? 0)]),
      ) as unknown as TrafficTotals;
      history.note();
    };
    return { history, goThrough };
  };
  return { store, clock, replica };
}

/** Those in which something went through: when they began, and how many requests there were. */
function busy(points: readonly TrafficPoint[]): [string, number][] {
  return points.filter(({ requests }) => requests > 0).map(({ at, requests }) => [at.toISOString(), requests]);
}

describe('the history of what went through', () => {
  it('has every minute of the last hour, and every quarter of the last day and week, empty ones too', async () => {
    const { replica } = begin();
    const { history } = replica();
    for (const [range, count, stepMs, first] of [
      ['hour', 60, MINUTE, '2026-03-01T11:01:00.000Z'],
      ['day', 96, 15 * MINUTE, '2026-02-28T12:15:00.000Z'],
      ['week', 672, 15 * MINUTE, '2026-02-22T12:15:00.000Z'],
    ] as const) {
      const points = await history.points(range);
      expect(points).toHaveLength(count);
      expect(points[0]).toEqual({ at: new Date(first), ...NO_TRAFFIC });
      const steps = points.slice(1).map(({ at }, index) => at.getTime() - (points[index]?.at.getTime() ?? 0));
      expect(new Set(steps)).toEqual(new Set([stepMs]));
      expect(points.at(-1)?.at.getTime()).toBeLessThanOrEqual(NOON);
    }
  });

  it('puts what went through into the minute and the quarter of an hour in which it was noted', async () => {
    const { clock, replica } = begin();
    const { history, goThrough } = replica();
    goThrough({ requests: 2, hits: 1, misses: 1, bytesServed: 100, bytesFetched: 50 });
    goThrough({ requests: 1, stale: 1, failures: 1 });
    clock.now += 20 * MINUTE;
    goThrough({ requests: 5 });
    const points = await history.points('hour');
    expect(busy(points)).toEqual([
      ['2026-03-01T12:00:00.000Z', 3],
      ['2026-03-01T12:20:00.000Z', 5],
    ]);
    expect(points.find(({ requests }) => requests === 3)).toMatchObject({
      hits: 1,
      misses: 1,
      stale: 1,
      failures: 1,
      bytesServed: 100,
      bytesFetched: 50,
    });
    expect(busy(await history.points('week'))).toEqual([
      ['2026-03-01T12:00:00.000Z', 3],
      ['2026-03-01T12:15:00.000Z', 5],
    ]);
  });

  it('is that of all replicas together, and of those that are gone', async () => {
    const { clock, replica } = begin();
    const [one, other] = [replica(), replica()];
    one.goThrough({ requests: 3 });
    other.goThrough({ requests: 4 });
    await Promise.all([one.history.save(), other.history.save()]);
    // They have signed on at the same moment: whoever was overlooked does it again.
    one.goThrough({ requests: 1 });
    other.goThrough({ requests: 1 });
    await one.history.save();
    await other.history.save();
    for (const { history } of [one, other, replica()]) {
      expect(busy(await history.points('hour'))).toEqual([['2026-03-01T12:00:00.000Z', 9]]);
    }
    await one.history.close();
    await other.history.close();
    clock.now += 3 * DAY;
    const later = replica();
    later.goThrough({ requests: 2 });
    for (let look = 0; look < 2; look += 1) {
      expect(busy(await later.history.points('week'))).toEqual([
        ['2026-03-01T12:00:00.000Z', 9],
        ['2026-03-04T12:00:00.000Z', 2],
      ]);
    }
  });

  it('sees a replica again that was silent for hours', async () => {
    const { clock, replica } = begin();
    const [one, other] = [replica(), replica()];
    one.goThrough({ requests: 1 });
    await one.history.save();
    clock.now += 5 * HOUR;
    expect(busy(await other.history.points('day'))).toEqual([['2026-03-01T12:00:00.000Z', 1]]);
    one.goThrough({ requests: 7 });
    await one.history.save();
    expect(busy(await other.history.points('day'))).toEqual([
      ['2026-03-01T12:00:00.000Z', 1],
      ['2026-03-01T17:00:00.000Z', 7],
    ]);
  });

  it('ends after a week', async () => {
    const { clock, replica } = begin();
    const { history, goThrough } = replica();
    goThrough({ requests: 1 });
    await history.save();
    clock.now += 7 * DAY;
    expect(busy(await history.points('week'))).toEqual([]);
    expect(busy(await replica().history.points('week'))).toEqual([]);
  });

  it('is what went through here while the store is away, and lacks nothing when it is back', async () => {
    const { store, replica } = begin();
    const [one, other] = [replica(), replica()];
    one.goThrough({ requests: 3 });
    await one.history.save();
    store.isAway = true;
    other.goThrough({ requests: 4 });
    await other.history.save();
    expect(busy(await other.history.points('hour'))).toEqual([['2026-03-01T12:00:00.000Z', 4]]);
    store.isAway = false;
    await other.history.save();
    expect(busy(await one.history.points('hour'))).toEqual([['2026-03-01T12:00:00.000Z', 7]]);
  });

  it.each([[[]], ['nonsense'], [{ minutes: [[1, 2]], quarters: 'x' }], [[{ id: 'x', at: NOON, requests: 'many' }]]])(
    'does not stumble over foreign data: %j',
    async (foreign) => {
      const { store, clock, replica } = begin();
      const one = replica();
      one.goThrough({ requests: 3 });
      await one.history.save();
      for (const key of store.entries.keys()) {
        if (key.endsWith(':traffic') && !Array.isArray(foreign)) continue;
        await store.put(key, { value: foreign, fetchedAt: clock.now });
      }
      expect(busy(await replica().history.points('hour'))).toEqual([]);
      expect(busy(await one.history.points('hour'))).toEqual([['2026-03-01T12:00:00.000Z', 3]]);
    },
  );

  it('writes nothing while nothing goes through, and little however long it lives', async () => {
    const { store, clock, replica } = begin();
    const { history, goThrough } = replica();
    await history.save();
    expect(store.entries.size).toBe(0);
    for (let minute = 0; minute < 10 * 24 * 60; minute += 5) {
      clock.now += 5 * MINUTE;
      goThrough({ requests: 100_000, hits: 90_000, misses: 10_000, bytesServed: 2 ** 40, bytesFetched: 2 ** 40 });
    }
    await history.save();
    expect(store.entries.size).toBe(2);
    const largest = Math.max(...[...store.entries.values()].map((text) => text.length));
    expect(largest).toBeLessThan(64 * 1024);
  });

  it('asks little of the store for many replicas that came and went', async () => {
    const { store, clock, replica } = begin();
    const survivor = replica();
    survivor.goThrough({ requests: 1_000 });
    await survivor.history.save();
    for (let index = 0; index < 300; index += 1) {
      const { history, goThrough } = replica();
      goThrough({ requests: 1 });
      await history.close();
    }
    clock.now += 3 * HOUR;
    const { history } = replica();
    const before = store.gets;
    // What little went through is forgotten first.
    expect(busy(await history.points('day'))).toEqual([['2026-03-01T12:00:00.000Z', 1_199]]);
    expect(store.gets - before).toBeLessThanOrEqual(201);
    await history.points('day');
    expect(store.gets - before).toBeLessThanOrEqual(202);
  });
});
