import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { archiveName, startScene } from '../mirror/scene.ts';
import { runLarder } from '../support/command.ts';

/** Several processes are started one after the other. */
const PROCESSES = { timeout: 120_000 };

async function flipByte(file: string): Promise<void> {
  const handle = await open(file, 'r+');
  try {
    const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, 20);
    await handle.write(Buffer.from([(buffer[0] ?? 0) ^ 0xff]), 0, 1, 20);
  } finally {
    await handle.close();
  }
}

describe('larder verify', () => {
  it('discards what is damaged, beside a running server, and the next request fetches it anew', PROCESSES, async () => {
    const { registry, larder, archive, stored } = await startScene();
    const { body } = await archive();
    await stored();
    const { configFile, dataDirectory } = larder.setup;
    const directory = join(dataDirectory, 'providers', registry.hostname, 'acme', 'widget');
    const sound = await runLarder(['verify', '--config', configFile]);
    expect(sound).toMatchObject({ code: 0, stdout: '1 intact, 0 damaged and discarded\n' });

    await flipByte(join(directory, archiveName('1.0.0', 'linux_amd64')));
    const damaged = await runLarder(['verify', '--config', configFile, '--json']);
    expect(damaged.code).toBe(1);
    expect(damaged.lines()).toEqual([{ archive: expect.stringContaining('linux_amd64'), state: 'discarded' }]);

    const fetched = registry.releases.requests.count('GET', /\.zip/);
    expect((await archive()).body.equals(body)).toBe(true);
    expect(registry.releases.requests.count('GET', /\.zip/)).toBe(fetched + 1);
  });

  it('says so when there is nothing of Larder where it looks', PROCESSES, async () => {
    const { larder } = await startScene();
    const nowhere = join(larder.setup.dataDirectory, 'nowhere');
    const { code, stderr } = await runLarder(['verify'], { LARDER_DATA: nowhere });
    expect(code).toBe(1);
    expect(stderr).toContain(`there is nothing of Larder in ${nowhere}`);
  });
});
