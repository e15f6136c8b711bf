import { expect, it } from 'vitest';
import { ProviderAddress } from '../../src/address/provider.ts';
import { UpstreamAnswers } from '../../src/mirror/upstream-answers.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { upstreamAt } from '../upstream/scripted-server.ts';

const address = ProviderAddress.parse('registry.example.test/acme/widget');

async function asking({ isSealed }: { isSealed: boolean }) {
  const answers = new UpstreamAnswers({ isSealed: () => isSealed, logger: recordingLogger() });
  const upstream = await upstreamAt('registry.example.test');
  let reads = 0;
  const read = async () => {
    reads += 1;
    return { value: 'answer', fetchedAt: 0, freshUntil: 5_000 };
  };
  return {
    ask: (haveStored: boolean | (() => Promise<boolean>)) => answers.ask(upstream, read, haveStored, { address }),
    reads: () => reads,
  };
}

it('what a sealed mirror has stays as it is until something changes here, and nobody is asked', async () => {
  const { ask, reads } = await asking({ isSealed: true });
  expect(await ask(true)).toEqual({ freshUntil: Number.POSITIVE_INFINITY });
  expect(await ask(async () => true)).toEqual({ freshUntil: Number.POSITIVE_INFINITY });
  expect(reads()).toBe(0);
});

it('what a sealed mirror does not have is refused with its name', async () => {
  const { ask } = await asking({ isSealed: true });
  await expect(ask(false)).rejects.toThrow(/acme\/widget is not stored/);
  await expect(ask(async () => false)).rejects.toThrow(/acme\/widget is not stored/);
});

it('otherwise upstream is asked, whatever is stored, and its answer is as fresh as it says', async () => {
  const { ask } = await asking({ isSealed: false });
  expect(await ask(true)).toEqual({ answer: 'answer', freshUntil: 5_000 });
});
