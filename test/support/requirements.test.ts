import { expect, test } from 'vitest';
import { closingLine } from './closing-line.ts';
import { requirement } from './requirements.ts';

test('parts are looked for on PATH', () => {
  expect(requirement('git')).toMatchObject({ name: 'git', present: expect.any(Boolean) });
});

test('one closing line names what is missing, what was not tested and how to get it', () => {
  expect(closingLine([])).toBeUndefined();
  const line = closingLine(['tofu', 'redis-server']);
  expect(line?.split('\n')).toHaveLength(1);
  expect(line).toMatch(/no tofu here, so not tested: .+ \(to get it: .+\); no redis-server here, so not tested: .+\.$/);
});
