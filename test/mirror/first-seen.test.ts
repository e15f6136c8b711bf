import { describe, expect, it } from 'vitest';
import { ProviderAddress } from '../../src/address/provider.ts';
import { silentLogger } from '../../src/logger.ts';
import { FirstSeen } from '../../src/mirror/first-seen.ts';
import type { MetadataEntry } from '../../src/store/metadata-store.ts';

const WIDGET = ProviderAddress.parse('registry.example.com/acme/widget');

/** A store in memory, which can be away. */
function scriptedStore() {
  const entries = new Map<string, MetadataEntry>();
  const store = {
    isAway: false,
    writes: 0,
    get: async (key: string) => {
      if (store.isAway) throw new Error('away');
      return entries.get(key);
    },
    put: async (key: string, entry: MetadataEntry) => {
      if (store.isAway) throw new Error('away');
      store.writes += 1;
      entries.set(key, structuredClone(entry));
    },
  };
  return store;
}

function begin(store = scriptedStore()) {
  const clock = { now: 1_000 };
  const open = () => new FirstSeen({ store, logger: silentLogger, now: () => clock.now });
  return { store, clock, open, seen: open() };
}

describe('versions that are seen', () => {
  it('at the first look are of any age, later ones of the age that they have here', async () => {
    const { seen, clock, store, open } = begin();
    expect(await seen.note(WIDGET, ['1.0.0', '1.1.0'])).toEqual(new Map(Object.entries({ '1.0.0': 0, '1.1.0': 0 })));
    clock.now = 2_000;
    const expected = new Map(Object.entries({ '1.0.0': 0, '1.1.0': 0, '1.2.0': 2_000 }));
    expect(await seen.note(WIDGET, ['1.2.0', '1.0.0'])).toEqual(expected);
    clock.now = 3_000;
    expect(await seen.note(WIDGET, ['1.2.0'])).toEqual(expected);
    expect(store.writes).toBe(2);
    expect(await open().note(WIDGET, ['1.2.0'])).toEqual(expected);
    expect(store.writes).toBe(2);
  });

  it('by two replicas count from the earlier sight, and none gets lost', async () => {
    const { seen, clock, open, store } = begin();
    await seen.note(WIDGET, ['1.0.0']);
    const other = open();
    await other.note(WIDGET, ['1.0.0']);
    clock.now = 2_000;
    await seen.note(WIDGET, ['1.0.0', '1.1.0']);
    clock.now = 3_000;
    await other.note(WIDGET, ['1.0.0', '1.1.0', '1.2.0']);
    const expected = new Map(Object.entries({ '1.0.0': 0, '1.1.0': 2_000, '1.2.0': 3_000 }));
    expect(await new FirstSeen({ store, logger: silentLogger }).note(WIDGET, ['1.2.0'])).toEqual(expected);
  });

  it('at the same time are all remembered', async () => {
    const { seen, clock, open } = begin();
    await seen.note(WIDGET, ['1.0.0']);
    clock.now = 2_000;
    await Promise.all(['1.1.0', '1.2.0', '1.3.0'].map((version) => seen.note(WIDGET, [version])));
    expect([...((await open().note(WIDGET, ['1.0.0'])) ?? [])]).toHaveLength(4);
  });

  it('are older where upstream says so, and never younger', async () => {
    const { seen, clock, open } = begin();
    await seen.note(WIDGET, ['1.0.0']);
    clock.now = 5_000;
    await seen.note(WIDGET, ['1.1.0']);
    await seen.tell(WIDGET, '1.1.0', 4_000);
    await seen.tell(WIDGET, '1.1.0', 9_000);
    await seen.tell(WIDGET, '1.1.0', undefined);
    await seen.tell(WIDGET, '7.0.0', 4_000);
    expect(await open().note(WIDGET, ['1.1.0'])).toEqual(new Map(Object.entries({ '1.0.0': 0, '1.1.0': 4_000 })));
  });

  it('at the first look are as old as upstream says, by which they are known from then on', async () => {
    const { seen, open } = begin();
    await seen.note(WIDGET, ['1.0.0', '1.1.0', '1.2.0']);
    const other = open();
    await other.note(WIDGET, ['1.0.0']);
    await seen.tell(WIDGET, '1.2.0', 900);
    await seen.tell(WIDGET, '1.1.0', undefined);
    // The other one remembers no more than that they were there.
    await other.note(WIDGET, ['1.3.0']);
    const known = await open().note(WIDGET, ['1.0.0']);
    expect(known).toEqual(new Map(Object.entries({ '1.0.0': 0, '1.1.0': 1, '1.2.0': 900, '1.3.0': 1_000 })));
  });
});

describe('a store that is away', () => {
  it('leaves what this process has seen, and gets the rest when it is back', async () => {
    const { seen, clock, store, open } = begin();
    await seen.note(WIDGET, ['1.0.0']);
    store.isAway = true;
    clock.now = 2_000;
    const expected = new Map(Object.entries({ '1.0.0': 0, '1.1.0': 2_000 }));
    expect(await seen.note(WIDGET, ['1.1.0'])).toEqual(expected);
    store.isAway = false;
    clock.now = 3_000;
    expect(await seen.note(WIDGET, ['1.1.0'])).toEqual(expected);
    expect(await open().note(WIDGET, ['1.1.0'])).toEqual(expected);
  });

  it('says nothing of what was not seen by this process, and that is not taken for a first look', async () => {
    const { seen, store, clock, open } = begin();
    await seen.note(WIDGET, ['1.0.0']);
    const later = open();
    store.isAway = true;
    expect(await later.note(WIDGET, ['1.1.0'])).toBeUndefined();
    store.isAway = false;
    clock.now = 2_000;
    expect((await later.note(WIDGET, ['1.1.0']))?.get('1.1.0')).toBe(2_000);
  });
});
