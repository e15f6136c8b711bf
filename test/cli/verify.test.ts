import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ModuleRelease } from '../../src/address/module.ts';
import { silentLogger } from '../../src/logger.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { paths } from '../../src/store/keys.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
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
  it(
    'puts what is damaged aside, beside a running server, and the next request fetches it anew',
    PROCESSES,
    async () => {
      const { registry, larder, archive, stored } = await startScene();
      const { body } = await archive();
      await stored();
      const { configFile, dataDirectory } = larder.setup;
      const directory = join(dataDirectory, 'providers', registry.hostname, 'acme', 'widget');
      const sound = await runLarder(['verify', '--config', configFile]);
      expect(sound).toMatchObject({ code: 0, stdout: '1 intact, 0 damaged and put into quarantine\n' });

      await flipByte(join(directory, archiveName('1.0.0', 'linux_amd64')));
      const damaged = await runLarder(['verify', '--config', configFile, '--json']);
      expect(damaged.code).toBe(1);
      expect(damaged.lines()).toEqual([
        {
          archive: expect.stringContaining('linux_amd64'),
          state: 'quarantined',
          quarantine: expect.stringMatching(/^\d{8}T\d{6}Z-/),
        },
      ]);
      const listed = await runLarder(['ls', '--quarantined', '--config', configFile, '--json']);
      expect(listed.lines()).toMatchObject([
        { kind: 'quarantined', address: `${registry.hostname}/acme/widget`, version: '1.0.0', platform: 'linux_amd64' },
      ]);

      const fetched = registry.releases.requests.count('GET', /\.zip/);
      expect((await archive()).body.equals(body)).toBe(true);
      expect(registry.releases.requests.count('GET', /\.zip/)).toBe(fetched + 1);
    },
  );

  it('reads module packages, too, and keeps what is remembered of the damaged ones', PROCESSES, async () => {
    const { larder } = await startScene({ providers: [] });
    const { configFile, dataDirectory: directory } = larder.setup;
    const store = await DirectoryModuleStore.open({ directory, logger: silentLogger });
    const [sound, damaged] = ['1.0.0', '2.0.0'].map((version) => releaseOf(version)) as [ModuleRelease, ModuleRelease];
    for (const release of [sound, damaged]) await putPackage(store, release, Buffer.alloc(2048));
    await flipByte(join(directory, paths.modulePackage(damaged)));

    const { code, lines } = await runLarder(['verify', '--config', configFile, '--json']);
    expect(code).toBe(1);
    expect(lines()).toEqual([
      { package: 'registry.example.com/acme/net/aws 1.0.0', state: 'intact' },
      {
        package: 'registry.example.com/acme/net/aws 2.0.0',
        state: 'quarantined',
        quarantine: expect.any(String),
      },
    ]);
    expect(await store.find(damaged)).toBeUndefined();
    expect(await store.recall(damaged)).toMatchObject({ size: 2048 });
    const again = await runLarder(['verify', '--config', configFile]);
    expect(again).toMatchObject({ code: 0, stdout: '1 intact, 0 damaged and put into quarantine\n' });
  });

  it('says so when there is nothing of Larder where it looks', PROCESSES, async () => {
    const { larder } = await startScene();
    const nowhere = join(larder.setup.dataDirectory, 'nowhere');
    const { code, stderr } = await runLarder(['verify'], { LARDER_DATA: nowhere });
    expect(code).toBe(2);
    expect(stderr).toContain(`there is nothing of Larder in ${nowhere}`);
  });
});
