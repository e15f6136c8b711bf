import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { runTarget } from './target.ts';
import { TARGETS } from './targets.ts';

const { short } = JSON.parse(await readFile(new URL('./seeds.json', import.meta.url), 'utf8')) as { short: number[] };

test.each(TARGETS.map((target) => [target.name, target] as const))(
  'whatever it is given: %s',
  { timeout: 120_000 },
  async (_, target) => {
    for (const seed of short) {
      const { failure, inputs } = await runTarget(target, { inputs: target.short, seed });
      expect(failure).toBeUndefined();
      expect(inputs).toBe(target.short);
    }
  },
);
