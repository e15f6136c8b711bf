import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { runLarder } from '../support/command.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { S3Server } from '../support/s3.ts';

it('standard error is not used by libraries to tell of versions of Node', { timeout: 90_000 }, async () => {
  const server = await S3Server.start();
  afterTest(() => server.close());
  const { bucket, endpoint, accessKeyId, secretAccessKey } = server;
  const s3 = { bucket, endpoint, pathStyle: true, accessKeyId, secretAccessKey };
  const { configFile } = await larderSetup({ config: { s3 } });
  const listed = await runLarder(['ls', '--json', '-c', configFile]);
  expect(server.requests).not.toEqual([]);
  expect(listed).toMatchObject({ code: 1, stderr: 'larder: nothing that is stored matches\n' });
});
