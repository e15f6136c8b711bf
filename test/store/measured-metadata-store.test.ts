import { expect, it } from 'vitest';
import { MeasuredMetadataStore } from '../../src/store/measured-metadata-store.ts';
import type { MetadataStore } from '../../src/store/metadata-store.ts';

function begin(failing = false) {
  const calls: unknown[][] = [];
  const told: [operation: string, failed: boolean][] = [];
  const call =
    <T>(name: string, result: T) =>
    async (...of: unknown[]): Promise<T> => {
      calls.push([name, ...of]);
      if (failing) throw new Error('away');
      return result;
    };
  const store: MetadataStore = {
    get: call('get', { value: 1, fetchedAt: 2 }),
    put: call('put', undefined),
    delete: call('delete', undefined),
    check: call('check', undefined),
    close: call('close', undefined),
  };
  const measured = new MeasuredMetadataStore({
    store,
    tell: (operation, seconds, failed) => {
      expect(seconds).toBeGreaterThanOrEqual(0);
      told.push([operation, failed]);
    },
  });
  return { measured, calls, told };
}

const entry = { value: 1, fetchedAt: 2 };

it('does what the store does, and tells of each operation', async () => {
  const { measured, calls, told } = begin();
  expect(await measured.get('a')).toEqual(entry);
  await measured.put('b', entry, 3);
  await measured.delete('c');
  await measured.check();
  await measured.close();
  expect(calls).toEqual([['get', 'a'], ['put', 'b', entry, 3], ['delete', 'c'], ['check'], ['close']]);
  expect(told).toEqual([
    ['read', false],
    ['write', false],
    ['delete', false],
    ['check', false],
  ]);
});

it('fails as the store does, and tells of that', async () => {
  const { measured, told } = begin(true);
  await expect(measured.get('a')).rejects.toThrow('away');
  await expect(measured.put('b', entry, 3)).rejects.toThrow('away');
  await expect(measured.delete('c')).rejects.toThrow('away');
  await expect(measured.check()).rejects.toThrow('away');
  expect(told).toEqual([
    ['read', true],
    ['write', true],
    ['delete', true],
    ['check', true],
  ]);
});
