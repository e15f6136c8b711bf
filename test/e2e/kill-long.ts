/**
 * Kills busy Larders at random points, hundreds of times: `npx tsx test/e2e/kill-long.ts [ROUNDS] [SEED]`. Two of them live
 * and die side by side. Says the seed first; the same seed gives the same points again.
 */
import { randomInt } from 'node:crypto';
import { killAgainAndAgain } from './killing.ts';

const [rounds = 240, seed = randomInt(2 ** 31)] = process.argv.slice(2).map(Number);
console.log(`${rounds} rounds, seed ${seed}`);
let done = 0;
const onRound = () => {
  done += 1;
  if (done % 10 === 0) console.log(`${done} rounds`);
};
const lanes = [Math.ceil(rounds / 2), Math.floor(rounds / 2)].filter((count) => count > 0);
const killings = await Promise.all(
  lanes.map((count, lane) => killAgainAndAgain({ rounds: count, seed: seed + lane, onRound })),
);
for (const killing of killings) console.log(JSON.stringify(killing));
