import { expect, it } from 'vitest';
import { runLarder } from '../support/command.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { startS3 } from '../support/s3.ts';

it('standard error is not used by libraries to tell of versions of Node', { timeout: 90_000 }, async () => {
  const server = await startS3();
  const { configFile } = await larderSetup({ config: { s3: server.settings } });
  const listed = await runLarder(['ls', '--json', '-c', configFile]);
  expect(server.requests).not.toEqual([]);
  expect(listed).toMatchObject({ code: 1, stderr: 'larder: nothing that is stored matches\n' });
});
