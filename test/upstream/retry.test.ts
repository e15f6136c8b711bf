import { expect, test } from 'vitest';
import { backoffMs, parseRetryAfter, pause } from '../../src/upstream/retry.ts';

const now = Date.parse('2026-03-01T12:00:00Z');

test.each([
  ['7', 7_000],
  [' 0 ', 0],
  ['Sun, 01 Mar 2026 12:00:30 GMT', 30_000],
  ['Sun, 01 Mar 2026 11:00:00 GMT', 0],
  ['-5', undefined],
  ['1.5', undefined],
  ['soon', undefined],
  ['', undefined],
  [undefined, undefined],
])('Retry-After: %s', (value, expected) => {
  expect(parseRetryAfter(value, now)).toBe(expected);
});

test('pauses grow, and are spread out', () => {
  for (let i = 0; i < 100; i++) {
    expect(backoffMs(1, 100)).toBeGreaterThanOrEqual(50);
    expect(backoffMs(1, 100)).toBeLessThanOrEqual(100);
    expect(backoffMs(3, 100)).toBeGreaterThanOrEqual(200);
  }
});

test('a pause ends with its signal', async () => {
  expect(await pause(1, new AbortController().signal)).toBe(true);
  expect(await pause(60_000, AbortSignal.abort())).toBe(false);
  expect(await pause(60_000, AbortSignal.timeout(5))).toBe(false);
});
