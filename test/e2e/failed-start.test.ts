import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { startLarderProcess } from '../support/larder-process.ts';
import { larderSetup } from '../support/larder-setup.ts';

it('a start that fails ends the process, also while Redis is being tried for ever', { timeout: 60_000 }, async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  afterTest(async () => void taken.close());
  const { port } = taken.address() as AddressInfo;
  // Nobody listens on port 1.
  const setup = await larderSetup({ config: { listen: { port }, redis: { url: 'redis://127.0.0.1:1' } } });
  await expect(startLarderProcess(setup)).rejects.toThrow(/ended \(1\)[\s\S]*EADDRINUSE/);
});
