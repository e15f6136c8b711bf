import { describe, expect, it } from 'vitest';
import { configDirectory } from './support/config-directory.ts';

const { inside, load } = configDirectory({ 'list.yaml': 'providers: []\n' });

describe('warm', () => {
  it('is for linux_amd64, four at a time, and on no schedule unless told otherwise', async () => {
    const { warm } = await load('');
    expect(warm.platforms.map(String)).toEqual(['linux_amd64']);
    expect(warm).toMatchObject({ concurrency: 4, schedules: [] });
  });

  it('takes files of schedules from beside the file that names them', async () => {
    const { warm } = await load(`
warm:
  platforms: [linux_arm64, darwin_arm64]
  concurrency: 2
  schedules:
    - { file: list.yaml, cron: "30 2 * * 1-5" }
    - { file: list.yaml, cron: " 0 0 1 * * ", platforms: [windows_amd64] }
`);
    expect(warm.platforms.map(String)).toEqual(['linux_arm64', 'darwin_arm64']);
    expect(warm.schedules[0]).toEqual({
      file: inside('list.yaml'),
      cron: '30 2 * * 1-5',
      platforms: undefined,
    });
    expect(warm.schedules[1]?.cron).toBe('0 0 1 * *');
    expect(warm.schedules[1]?.platforms?.map(String)).toEqual(['windows_amd64']);
  });

  it.each([
    ['platforms: [Linux-AMD64]', 'warm.platforms[0]', 'OS_ARCH'],
    ['platforms: []', 'warm.platforms', 'empty'],
    ['concurrency: 0', 'warm.concurrency', 'whole number'],
    ['schedules: [{ file: list.yaml, cron: "30 2 * *" }]', 'warm.schedules[0].cron', 'five fields'],
    ['schedules: [{ file: list.yaml, cron: "0 30 2 * * *" }]', 'warm.schedules[0].cron', 'five fields'],
    ['schedules: [{ file: list.yaml, cron: "61 2 * * *" }]', 'warm.schedules[0].cron', 'five fields'],
    ['schedules: [{ file: list.yaml, cron: "0 0 31 2 *" }]', 'warm.schedules[0].cron', 'some day'],
    ['schedules: [{ file: absent.yaml, cron: "30 2 * * *" }]', 'warm.schedules[0].file', 'there is no file'],
    ['schedules: [{ file: list.yaml, cron: "30 2 * * *", when: now }]', 'warm.schedules[0].when', 'not a known key'],
    ['schedule: []', 'warm.schedule', 'schedules'],
  ])('%s is refused by name', async (yaml, key, why) => {
    const error = await load(`warm:\n  ${yaml}\n`).then(
      () => undefined,
      (reason: Error) => reason,
    );
    expect(error?.message).toContain(key);
    expect(error?.message).toContain(why);
  });
});
