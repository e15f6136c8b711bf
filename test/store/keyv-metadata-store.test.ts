import { Keyv, type KeyvStoreAdapter } from 'keyv';
import { describe, expect, it } from 'vitest';
import { KeyvMetadataStore } from '../../src/store/keyv-metadata-store.ts';
import { metadataStoreContract } from '../contract/metadata-store.ts';

const TIME_LIMIT_MS = 30;
const ENTRY = { value: 1, fetchedAt: 1 };

const memory = new Map<string, string>();
metadataStoreContract('any Keyv', async () => {
  return new KeyvMetadataStore({ keyv: new Keyv({ store: memory }), timeLimitMs: 5_000 });
});

/** A storage whose every operation ends in the same way. */
function storeOver(operation: () => Promise<never>): KeyvMetadataStore {
  const storage = {
    opts: {},
    on: () => storage,
    get: operation,
    set: operation,
    delete: operation,
    clear: operation,
    disconnect: operation,
  } as unknown as KeyvStoreAdapter;
  return new KeyvMetadataStore({ keyv: new Keyv({ store: storage }), timeLimitMs: TIME_LIMIT_MS });
}

describe('KeyvMetadataStore', () => {
  it.each([
    ['never answers', () => new Promise<never>(() => {}), /no answer within 30 ms/],
    ['fails', () => Promise.reject(new Error('broken')), /broken/],
  ])('never takes a storage that %s for an empty one', async (_, operation, why) => {
    const store = storeOver(operation);
    for (const attempt of [
      () => store.get('k'),
      () => store.put('k', ENTRY, 1_000),
      () => store.delete('k'),
      () => store.check(),
    ]) {
      await expect(attempt()).rejects.toMatchObject({
        code: 'STORAGE_FAILED',
        cause: expect.objectContaining({ message: expect.stringMatching(why) }),
      });
    }
    await expect(store.close()).rejects.toThrow(why);
  });

  it('says what is in trouble, where that is another service', async () => {
    const keyv = () => new Keyv({ store: new Map(), namespace: 'ns' });
    for (const store of ['redis', undefined] as const) {
      const closed = new KeyvMetadataStore({ keyv: keyv(), timeLimitMs: TIME_LIMIT_MS, ...(store && { store }) });
      await closed.close();
      const failure = await closed.get('k').catch((error: unknown) => error);
      expect(failure).toMatchObject({ code: 'STORAGE_FAILED', store });
    }
  });

  it('does not report a write as done that the storage declined', async () => {
    const store = storeOver((async () => false) as unknown as () => Promise<never>);
    await expect(store.put('k', ENTRY, 1_000)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  });

  it('R62: takes values that are no entries for misses', async () => {
    const values = new Map<string, unknown>();
    const store = new KeyvMetadataStore({ keyv: new Keyv({ store: values, namespace: 'ns' }), timeLimitMs: 5_000 });
    for (const value of ['{', '', 'null', '1', '"text"', '[]', '{}', '{"value":null}', '{"value":{"value":1}}']) {
      values.set('ns:k', value);
      expect(await store.get('k'), value).toBeUndefined();
    }
    values.set('ns:k', '{"value":{"value":1,"fetchedAt":1}}');
    expect(await store.get('k')).toEqual(ENTRY);
  });
});
