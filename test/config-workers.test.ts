import { expect, it } from 'vitest';
import { shareOf } from '../src/cli/serve-workers.ts';
import { configDirectory } from './support/config-directory.ts';

const { load } = configDirectory();

it('one process serves unless more are asked for, and LARDER_WORKERS goes before the file', async () => {
  expect((await load('log: { level: info }')).workers).toBe(1);
  expect((await load('workers: 3')).workers).toBe(3);
  expect((await load('workers: 3', { LARDER_WORKERS: '2' })).workers).toBe(2);
});

it.each(['0', '65', '1.5', 'many'])('%s workers are refused', async (count) => {
  await expect(load('log: { level: info }', { LARDER_WORKERS: count })).rejects.toThrow(
    /LARDER_WORKERS: workers: must be/,
  );
});

it('workers together download no more at once than one process would, as long as each may download', async () => {
  const config = await load('limits: { downloads: 10 }');
  expect(shareOf(config, 4).limits.downloads).toBe(2);
  expect(shareOf(config, 16).limits.downloads).toBe(1);
  expect(shareOf(config, 4).limits.metadataDeadline).toBe(config.limits.metadataDeadline);
});
