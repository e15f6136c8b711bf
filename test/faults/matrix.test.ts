import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Outcome, World } from './asking.ts';
import { COLUMNS, type Column, outcomeOf, STATES, type State, TROUBLES } from './table.ts';
import { STRIKES } from './troubles.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Longer than anything that upstream said is kept. */
const FORGOTTEN_MS = 13 * HOUR_MS;
/** Long enough for upstream to be asked again. */
const AGED_MS = 2 * HOUR_MS;
/** Longer than a host in trouble is left alone. */
const CALM_MS = 2 * MINUTE_MS;

const COLUMN_NAMES = Object.keys(COLUMNS) as Column[];
const STATE_NAMES = Object.keys(STATES) as State[];
/** Preparing takes as long as it takes on a machine that does much else. */
const BATCH = 240_000;

/** What came of one cell, and how often upstream was asked for it. */
interface Seen {
  readonly outcome: string;
  readonly asked: number;
  readonly healed: string;
}

/*
 * The columns are independent of each other: each has its own Larder and its own upstream, and all go through the same
 * steps at once. The clock is one for all and stands still but for the steps. Everything that is asked for in a state
 * serves all troubles one after the other, except where it has to be unknown.
 */
let worlds: World[];

function advance(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
}

/** Does the same in every column, all at the same time. */
async function everywhere(work: (world: World) => Promise<void>): Promise<void> {
  await Promise.all(worlds.map(work));
}

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
  worlds = await Promise.all(COLUMN_NAMES.map((column) => World.start(column)));
  await everywhere(async (world) => {
    for (const state of ['warm', 'stale', 'stored'] as const) await world.publish(state);
    await world.store('stored');
    if (world.column === 'archive' || world.column === 'package') await world.store('stale');
  });
}, BATCH);

afterAll(async () => {
  await everywhere((world) => world.close());
  vi.useRealTimers();
});

describe.each(TROUBLES.map((trouble, index) => ({ trouble, index })))('upstream: $trouble', ({ trouble, index }) => {
  const seen = new Map<string, Seen | { readonly mistake: unknown }>();

  beforeAll(async () => {
    const subjects = (column: Column): Record<State, string> => ({
      cold: `cold${index}`,
      warm: 'warm',
      // What was located is stored soon after.
      stale: column === 'moduleDownload' ? `stale${index}` : 'stale',
      stored: 'stored',
    });
    const outcomes = new Map<string, { outcome: Outcome; asked: number }>();

    advance(FORGOTTEN_MS);
    await everywhere(async (world) => {
      const { cold, stale } = subjects(world.column);
      await world.publish(cold);
      if (stale !== 'stale') await world.publish(stale);
      await world.learn(stale);
    });
    advance(AGED_MS);
    await everywhere(async (world) => {
      await world.expectRight('warm');
      STRIKES[trouble](world.target);
    });
    for (const state of ['warm', 'stale', 'stored', 'cold'] as const) {
      await everywhere(async (world) => {
        world.forgetRequests();
        const of = subjects(world.column)[state];
        const isFine = outcomeOf(trouble, world.column, state) === 'fresh';
        const outcome = await (isFine ? world.askPatiently(of) : world.ask(of));
        outcomes.set(`${world.column} ${state}`, { outcome, asked: world.asked });
      });
      advance(CALM_MS);
    }
    await everywhere((world) => world.heal());
    advance(CALM_MS);
    await everywhere(async (world) => {
      for (const state of STATE_NAMES) {
        const of = subjects(world.column)[state];
        const key = `${world.column} ${state}`;
        const found = outcomes.get(key);
        try {
          if (!found) throw new Error('was not asked');
          const outcome = world.describe(of, found.outcome);
          const healed = await world.expectRight(of).then(
            () => 'fresh',
            (error: unknown) => String(error),
          );
          seen.set(key, { outcome, asked: found.asked, healed });
        } catch (mistake) {
          seen.set(key, { mistake });
        }
      }
    });
  }, BATCH);

  const cells = COLUMN_NAMES.flatMap((column) =>
    STATE_NAMES.flatMap((state) => {
      const outcome = outcomeOf(trouble, column, state);
      return outcome === undefined ? [] : [{ column, state, outcome }];
    }),
  );

  it.each(cells)('$column, $state: $outcome', ({ column, state, outcome }) => {
    const found = seen.get(`${column} ${state}`);
    if (!found) throw new Error('this cell was never reached');
    if ('mistake' in found) throw found.mistake;
    // Unmarked is unmarked, whether it is all there is or all that is left.
    expect(found.outcome).toBe(outcome === 'kept' ? 'fresh' : outcome);
    expect(found.healed, 'once upstream is well again').toBe('fresh');
    if (state === 'warm') expect(found.asked).toBe(0);
  });
});

describe('after all that', () => {
  it.each(COLUMN_NAMES)('%s: nothing half-made lies about, and nothing went wrong that has no name', async (column) => {
    const world = worlds.find((one) => one.column === column);
    const partial = join(world?.larder.setup.dataDirectory ?? '', 'partial');
    await expect.poll(() => readdir(partial), { timeout: 20_000, interval: 50 }).toEqual([]);
    expect(world?.larder.log.filter(({ level }) => level === 'error')).toEqual([]);
  });
});
