import { describe, expect, it } from 'vitest';
import { StorageFailed } from '../../src/errors.ts';
import { silentLogger } from '../../src/logger.ts';
import { type ForgetEffects, Forgettings } from '../../src/mirror/forgettings.ts';
import { metadataKeys } from '../../src/store/keys.ts';
import type { MetadataEntry } from '../../src/store/metadata-store.ts';
import { afterTest } from '../support/after-test.ts';

/** Nobody looks but when told to. */
const NEVER_MS = 3_600_000;

/** A metadata store that can be lost, or not answer. */
function storeOf() {
  const entries = new Map<string, MetadataEntry>();
  return {
    entries,
    isDown: false,
    async get(key: string) {
      if (this.isDown) throw new StorageFailed('metadata read', new Error('down'));
      return entries.get(key);
    },
    async put(key: string, entry: MetadataEntry) {
      if (this.isDown) throw new StorageFailed('metadata write', new Error('down'));
      entries.set(key, JSON.parse(JSON.stringify(entry)) as MetadataEntry);
    },
    async delete(key: string) {
      if (this.isDown) throw new StorageFailed('metadata delete', new Error('down'));
      entries.delete(key);
    },
  };
}

async function replica(store: ReturnType<typeof storeOf>) {
  const heard: string[] = [];
  const effects: ForgetEffects = {
    forget: (key) => void heard.push(key),
    settle: (subject) => void heard.push(`drift of ${subject}`),
    forgetAll: () => void heard.push('everything'),
  };
  const forgettings = await Forgettings.open({ store, logger: silentLogger });
  forgettings.watch(effects, NEVER_MS);
  afterTest(() => forgettings.close());
  return {
    heard,
    look: () => forgettings.look(),
    forgets: async (...keys: string[]) => {
      for (const key of keys) forgettings.note({ key });
      await forgettings.look();
    },
    forgettings,
  };
}

describe('what an operator had forgotten on one replica', () => {
  it('is forgotten by the others, each once, in order, and not once more by whoever told it', async () => {
    const store = storeOf();
    const [one, two, three] = [await replica(store), await replica(store), await replica(store)];
    await one.forgets('a', 'b');
    one.forgettings.note({ subject: 'widget' });
    await one.look();
    for (const other of [two, three]) {
      await other.look();
      await other.look();
      expect(other.heard).toEqual(['a', 'b', 'drift of widget']);
    }
    await two.forgets('c');
    await Promise.all([one.look(), three.look()]);
    expect(one.heard).toEqual(['c']);
    expect(three.heard.slice(3)).toEqual(['c']);
  });

  it('is nothing to one that starts afterwards, which remembers nothing', async () => {
    const store = storeOf();
    await (await replica(store)).forgets('a');
    const late = await replica(store);
    await late.look();
    expect(late.heard).toEqual([]);
  });

  it('makes those forget everything that missed more than the journal holds, or could not look before', async () => {
    const store = storeOf();
    const [one, slow] = [await replica(store), await replica(store)];
    store.isDown = true;
    const blind = await replica(store);
    store.isDown = false;
    for (let round = 0; round < 5; round += 1) {
      await one.forgets(...Array.from({ length: 50 }, (_, index) => `${round}-${index}`));
    }
    await Promise.all([slow.look(), blind.look()]);
    expect([slow.heard, blind.heard]).toEqual([['everything'], ['everything']]);
    const journal = store.entries.get(metadataKeys.forgettings)?.value;
    expect(journal).toHaveLength(200);
    await one.forgets('after');
    await slow.look();
    expect(slow.heard).toEqual(['everything', 'after']);
  });

  it('is everything, where it is very much at once', async () => {
    const store = storeOf();
    const [one, two] = [await replica(store), await replica(store)];
    await one.forgets(...Array.from({ length: 1_000 }, (_, index) => `${index}`));
    await two.look();
    expect(two.heard).toContain('everything');
    expect(two.heard.length).toBeLessThan(200);
  });

  it('is told when the store is back, which then loses it, too', async () => {
    const store = storeOf();
    const [one, two] = [await replica(store), await replica(store)];
    store.entries.set('a', { value: 'old checksums', fetchedAt: 0 });
    store.isDown = true;
    await one.forgets('a');
    await two.look();
    store.isDown = false;
    await one.look();
    await two.look();
    expect([one.heard, two.heard]).toEqual([['a'], ['a']]);
    expect(store.entries.has('a')).toBe(false);
  });

  it('is told again by whoever was overwritten', async () => {
    const store = storeOf();
    const [one, two] = [await replica(store), await replica(store)];
    await one.forgets('a');
    const without: MetadataEntry = { value: [{ id: 'x:1', about: { key: 'b' } }], fetchedAt: 0 };
    store.entries.set(metadataKeys.forgettings, without);
    await two.look();
    expect(two.heard).toEqual(['b']);
    await one.look();
    await two.look();
    expect(two.heard).toEqual(['b', 'a']);
  });

  it('is nothing where the store lost its memory, or has something else in its place', async () => {
    const store = storeOf();
    const [one, two] = [await replica(store), await replica(store)];
    await one.forgets('a');
    await two.look();
    store.entries.clear();
    await two.look();
    store.entries.set(metadataKeys.forgettings, { value: { foreign: true }, fetchedAt: 0 });
    await two.look();
    expect(two.heard).toEqual(['a']);
  });
});
