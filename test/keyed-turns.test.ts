import { expect, it } from 'vitest';
import { KeyedTurns } from '../src/keyed-turns.ts';

/** Work that ends when told to. */
function held<T>(value: T) {
  let finish = () => {};
  let fail = (_: Error) => {};
  let isBegun = false;
  const ended = new Promise<T>((resolve, reject) => {
    finish = () => resolve(value);
    fail = reject;
  });
  const work = () => {
    isBegun = true;
    return ended;
  };
  return { work, finish: () => finish(), fail: (error: Error) => fail(error), isBegun: () => isBegun };
}

it('work of one key goes one at a time, in the order in which it came', async () => {
  const turns = new KeyedTurns();
  const order: string[] = [];
  const first = held('first');
  const results = [
    turns.take('a', async () => {
      order.push('first begins');
      await first.work();
      order.push('first ends');
    }),
    turns.take('a', async () => void order.push('second')),
    turns.take('a', async () => void order.push('third')),
  ];
  await turns.take('b', async () => void order.push('of another key'));
  first.finish();
  await Promise.all(results);
  expect(order).toEqual(['first begins', 'of another key', 'first ends', 'second', 'third']);
});

it('gives back what the work gives or throws, and what fails holds nobody up', async () => {
  const turns = new KeyedTurns();
  const failing = held(1);
  const failed = turns.take('a', failing.work);
  const next = turns.take('a', async () => 'next');
  failing.fail(new Error('of the first alone'));
  await expect(failed).rejects.toThrow('of the first alone');
  expect(await next).toBe('next');
});

it('remembers no key of which nothing is under way', async () => {
  const turns = new KeyedTurns();
  const [one, other] = [held(1), held(2)];
  const all = [turns.take('a', one.work), turns.take('a', async () => 3), turns.take('b', other.work)];
  expect(turns.size).toBe(2);
  one.finish();
  other.finish();
  expect(await Promise.all(all)).toEqual([1, 3, 2]);
  expect(turns.size).toBe(0);
});
