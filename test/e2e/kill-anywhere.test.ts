import { expect, it } from 'vitest';
import { killAgainAndAgain } from './killing.ts';

/** The long form has hundreds of rounds: `npx tsx test/e2e/kill-long.ts`. */
const ROUNDS = 8;
const TIME_MS = 25_000;
/** As many at a time as there are cores to be counted on. */
const SEEDS = [20_240_101, 20_250_202];

it('R03: killed at random points while it is busy, it serves nothing that is not whole and right', {
  timeout: 240_000,
}, async () => {
  const killings = await Promise.all(SEEDS.map((seed) => killAgainAndAgain({ rounds: ROUNDS, seed, timeMs: TIME_MS })));
  for (const { rounds } of killings) expect(rounds).toBeGreaterThan(0);
  expect(killings.reduce((sum, { answers }) => sum + answers, 0)).toBeGreaterThan(0);
});
