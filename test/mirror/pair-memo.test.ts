import { expect, test, vi } from 'vitest';
import { PairMemo } from '../../src/mirror/pair-memo.ts';

test('the same two objects cost one making, however often they are asked about', () => {
  const memo = new PairMemo<object>();
  const make = vi.fn(() => ({}));
  const [one, other] = [{}, {}];
  expect(memo.get(one, other, make)).toBe(memo.get(one, other, make));
  expect(make).toHaveBeenCalledTimes(1);
});

test('another object on either side is made for anew, equal or not', () => {
  const memo = new PairMemo<number>();
  const [one, other] = [{}, {}];
  expect(memo.get(one, other, () => 1)).toBe(1);
  expect(memo.get({}, other, () => 2)).toBe(2);
  expect(memo.get(one, {}, () => 3)).toBe(3);
  expect(memo.get(one, other, () => 4)).toBe(1);
});

test('nothing made is remembered like anything else, and a failure is not', () => {
  const memo = new PairMemo<undefined>();
  const [one, other] = [{}, {}];
  const make = vi.fn(() => undefined);
  const fail = () =>
    memo.get(one, other, () => {
      throw new Error('not now');
    });
  expect(fail).toThrow('not now');
  expect(memo.get(one, other, make)).toBeUndefined();
  expect(memo.get(one, other, make)).toBeUndefined();
  expect(make).toHaveBeenCalledTimes(1);
});
