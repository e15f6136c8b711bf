import { describe, expect, it } from 'vitest';
import { SingleFlight } from '../../src/cache/single-flight.ts';

function deferred<T>() {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}

describe('SingleFlight', () => {
  it('loads once for all who ask meanwhile, and they share the value', async () => {
    const flights = new SingleFlight<object>();
    const { promise, resolve } = deferred<object>();
    let loads = 0;
    const load = () => {
      loads += 1;
      return promise;
    };
    const waiting = Array.from({ length: 5 }, () => flights.run('k', load));
    expect(flights.has('k')).toBe(true);
    const value = {};
    resolve(value);
    for (const result of await Promise.all(waiting)) expect(result).toBe(value);
    expect(loads).toBe(1);
  });

  it('gives every one of them the error', async () => {
    const flights = new SingleFlight<number>();
    const { promise, reject } = deferred<number>();
    const waiting = Array.from({ length: 5 }, () => flights.run('k', () => promise));
    const error = new Error('no');
    reject(error);
    for (const outcome of await Promise.allSettled(waiting))
      expect(outcome).toEqual({ status: 'rejected', reason: error });
  });

  it('begins anew after a value and after an error', async () => {
    const flights = new SingleFlight<number>();
    expect(await flights.run('k', async () => 1)).toBe(1);
    await expect(flights.run('k', async () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await flights.run('k', async () => 3)).toBe(3);
    expect(flights.size).toBe(0);
  });

  it('turns what load throws at once into a rejection, and is not blocked by it', async () => {
    const flights = new SingleFlight<number>();
    const throwing = () => {
      throw new Error('at once');
    };
    await expect(flights.run('k', throwing)).rejects.toThrow('at once');
    expect(await flights.run('k', async () => 2)).toBe(2);
  });

  it('lets different keys load side by side', async () => {
    const flights = new SingleFlight<string>();
    const slow = deferred<string>();
    const first = flights.run('a', () => slow.promise);
    expect(await flights.run('b', async () => 'b')).toBe('b');
    slow.resolve('a');
    expect(await first).toBe('a');
  });
});
