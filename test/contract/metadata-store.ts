import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { MetadataStore } from '../../src/store/metadata-store.ts';

const HOUR_MS = 3_600_000;

/** What every metadata store owes its users. `open` gives a store that others of this test run may share. */
export function metadataStoreContract(name: string, open: () => Promise<MetadataStore>): void {
  describe(`${name} as a metadata store`, () => {
    let store: MetadataStore;
    let number = 0;
    const unusedKey = () => `contract:${number++}:h.example:8443/ns/type`;

    beforeAll(async () => {
      store = await open();
    });
    afterAll(async () => {
      await store?.close();
    });

    it('gives back what was put, with its instant', async () => {
      const key = unusedKey();
      const value = { versions: [{ version: '1.0.0', n: 1.5, none: null }], text: 'ü ✓ "quoted" \n {}', empty: [] };
      await store.put(key, { value, fetchedAt: 1_700_000_000_123 }, HOUR_MS);
      expect(await store.get(key)).toEqual({ value, fetchedAt: 1_700_000_000_123 });
    });

    it.each([[null], [false], [0], [''], [[]], ['text']])('keeps %j as a value, not as an absence', async (value) => {
      const key = unusedKey();
      await store.put(key, { value, fetchedAt: 1 }, HOUR_MS);
      expect(await store.get(key)).toEqual({ value, fetchedAt: 1 });
    });

    it('knows nothing of a key that was never put', async () => {
      expect(await store.get(unusedKey())).toBeUndefined();
    });

    it('gives the last of several puts', async () => {
      const key = unusedKey();
      await store.put(key, { value: 'older', fetchedAt: 1 }, HOUR_MS);
      await store.put(key, { value: 'newer', fetchedAt: 2 }, HOUR_MS);
      expect(await store.get(key)).toEqual({ value: 'newer', fetchedAt: 2 });
    });

    it('keeps keys apart that differ in case or by what follows', async () => {
      const key = unusedKey();
      const keys = [`${key}/1.0.0-RC1`, `${key}/1.0.0-rc1`, key, `${key}:`, `${key}::x`];
      for (const one of keys) await store.put(one, { value: one, fetchedAt: 1 }, HOUR_MS);
      for (const one of keys) expect((await store.get(one))?.value).toBe(one);
    });

    it('takes keys and values of the greatest size that addresses and registries allow', async () => {
      const key = `${unusedKey()}${'ü'.repeat(650)}`;
      const value = Array.from({ length: 20_000 }, (_, n) => ({ n, text: 'x'.repeat(100) }));
      await store.put(key, { value, fetchedAt: 1 }, HOUR_MS);
      expect((await store.get(key))?.value).toEqual(value);
    });

    it('forgets what was kept long enough', async () => {
      const key = unusedKey();
      await store.put(key, { value: 1, fetchedAt: 1 }, 20);
      await expect.poll(() => store.get(key), { interval: 10, timeout: 5_000 }).toBeUndefined();
    });

    it('keeps an entry whose instant is long past: freshness is not its business', async () => {
      const key = unusedKey();
      await store.put(key, { value: 1, fetchedAt: 0 }, 90 * 24 * HOUR_MS);
      expect(await store.get(key)).toEqual({ value: 1, fetchedAt: 0 });
    });

    it('takes an unlimited and a fractional time to live', async () => {
      for (const keepForMs of [Number.POSITIVE_INFINITY, 86_400_000.5]) {
        const key = unusedKey();
        await store.put(key, { value: 1, fetchedAt: 1 }, keepForMs);
        expect(await store.get(key)).toBeDefined();
      }
    });

    it('deletes, and does not mind what is not there', async () => {
      const key = unusedKey();
      await store.put(key, { value: 1, fetchedAt: 1 }, HOUR_MS);
      await store.delete(key);
      expect(await store.get(key)).toBeUndefined();
      await store.delete(key);
    });

    it('shares its entries with another store at the same place', async () => {
      const key = unusedKey();
      const other = await open();
      try {
        await store.put(key, { value: 'shared', fetchedAt: 1 }, HOUR_MS);
        expect((await other.get(key))?.value).toBe('shared');
      } finally {
        await other.close();
      }
      expect((await store.get(key))?.value).toBe('shared');
    });

    it('survives many operations at once', async () => {
      const keys = Array.from({ length: 300 }, unusedKey);
      await Promise.all(keys.map((key) => store.put(key, { value: key, fetchedAt: 1 }, HOUR_MS)));
      const found = await Promise.all(keys.map((key) => store.get(key)));
      expect(found.map((entry) => entry?.value)).toEqual(keys);
    });

    it('says that it works', async () => {
      await expect(store.check()).resolves.toBeUndefined();
    });

    it('rejects everything after it was closed, and can be closed twice', async () => {
      const closed = await open();
      await closed.close();
      await closed.close();
      const entry = { value: 1, fetchedAt: 1 };
      await expect(closed.get('k')).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
      await expect(closed.put('k', entry, 1_000)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
      await expect(closed.delete('k')).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
      await expect(closed.check()).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    });
  });
}
