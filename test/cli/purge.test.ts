import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
import { type SceneOptions, startScene, stoppedClock, WIDGET } from '../mirror/scene.ts';
import { runLarder } from '../support/command.ts';

const TOKEN = 'token-of-the-operators';
const config = {
  access: { tokens: [{ name: 'ops', token: TOKEN, roles: ['admin'] }] },
  log: { audit: 'data/audit.jsonl' },
};
const PLATFORMS = ['linux_amd64', 'darwin_arm64'];
/** Several processes are started one after the other. */
const PROCESSES = { timeout: 120_000 };

async function begin(options: SceneOptions = {}) {
  const scene = await startScene({ config, providers: [{ platforms: PLATFORMS }], ...options });
  await scene.archive();
  await scene.stored();
  const { url, setup } = scene.larder;
  const there = ['--server', url, '--ca', setup.caFile, '--token', TOKEN];
  const isStored = async () =>
    (await scene.archive('1.0.0', 'linux_amd64', { method: 'HEAD' })).headers['last-modified'];
  return { ...scene, there, isStored, setup, address: `${scene.registry.hostname}/acme/widget` };
}

describe('larder purge', () => {
  it(
    'shows what would be removed, and with --yes makes a running server accept what upstream has',
    PROCESSES,
    async () => {
      const clock = stoppedClock();
      const { there, address, registry, archive, version, isStored } = await begin();
      await registry.addProvider({ ...WIDGET, platforms: PLATFORMS, zip: () => Buffer.from('other bytes') });
      clock.advance(25 * 3_600_000);
      await version('1.0.0');
      const refused = await archive('1.0.0', 'darwin_arm64');
      expect(refused.status).toBe(502);

      const [shown, planned, partly] = await Promise.all([
        runLarder(['purge', address, ...there]),
        runLarder(['purge', address, '1.0.0', '--dry-run', '--json', ...there]),
        runLarder(['purge', address, '1.0.0', '--platform', 'darwin_arm64', '--yes', ...there]),
      ]);
      expect(shown.stdout).toMatch(new RegExp(`^${address} 1\\.0\\.0: linux_amd64 \\(.*B\\), SHA256SUMS$`, 'm'));
      expect(shown.stdout).toMatch(/^would be removed: 1 archive of 1 version, /m);
      expect(shown.stderr).toMatch(/nothing was removed\n.*--yes/);
      expect(shown.code).toBe(2);
      expect(planned).toMatchObject({ code: 0, stderr: '' });
      expect(planned.lines()).toMatchObject([
        { state: 'would be removed', address, version: '1.0.0', checksums: true },
      ]);
      expect(partly.stdout).toContain('darwin_arm64 stays refused');
      expect(partly).toMatchObject({ code: 1, stderr: 'larder: nothing that is stored matches\n' });
      expect(await isStored()).toBeDefined();

      // As the error tells.
      const [, command = ''] = /: larder (purge .*)$/.exec(refused.json().hint) ?? [];
      const removed = await runLarder([...command.split(' '), '--yes', ...there]);
      expect(removed).toMatchObject({ code: 0, stderr: '' });
      expect(removed.stdout).toMatch(/^removed: 1 archive of 1 version, /m);
      for (const platform of PLATFORMS) expect((await archive('1.0.0', platform)).text()).toBe('other bytes');
    },
  );

  it('works on the data directory, what it remembers of upstream included', PROCESSES, async () => {
    const { setup, address, registry, larder } = await begin();
    await larder.close();
    await registry.addProvider({ ...WIDGET, platforms: PLATFORMS, zip: () => Buffer.from('other bytes') });
    const removed = await runLarder(['purge', '*/acme/*', '--yes', '--json', '--config', setup.configFile]);
    expect(removed.code, removed.stderr).toBe(0);
    expect(removed.lines()).toMatchObject([{ state: 'removed', address, version: '1.0.0' }]);
    expect(removed.stderr).toContain('freshness.packages');
    const audit = await readFile(join(setup.dataDirectory, 'audit.jsonl'), 'utf8');
    const acts = audit
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(acts.at(-1)).toMatchObject({ event: 'purged', client: 'command line', address, version: '1.0.0' });

    const scene = await startScene({ setup, registry, providers: [] });
    for (const platform of PLATFORMS) expect((await scene.archive('1.0.0', platform)).text()).toBe('other bytes');
  });

  it('removes module packages and what is remembered of them, by addresses of four parts', PROCESSES, async () => {
    const { setup, there } = await begin();
    const module = 'registry.example.com/acme/net/aws';
    const store = await DirectoryModuleStore.open({ directory: setup.dataDirectory, logger: silentLogger });
    const releases = ['1.0.0', '1.1.0', '2.0.0'].map((version) => releaseOf(version, module));
    for (const release of releases) await putPackage(store, release, Buffer.alloc(2048));
    await store.discard(releaseOf('1.1.0', module));

    const [shown, platform] = await Promise.all([
      runLarder(['purge', 'Registry.Example.com/Acme/Net/aws', ...there]),
      runLarder(['purge', module, '--platform', 'linux_amd64', '--yes', ...there]),
    ]);
    expect(shown).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') });
    expect(shown.stdout).toBe(
      [
        `${module} 2.0.0: package (2.0 KiB), what is remembered of it`,
        `${module} 1.1.0: what is remembered of it`,
        `${module} 1.0.0: package (2.0 KiB), what is remembered of it`,
        'would be removed: 2 module packages of 2 versions, 4.0 KiB, and what is remembered of 1 other version',
        '',
      ].join('\n'),
    );
    expect(platform).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('modules have no platforms'),
    });
    expect(await store.list(releases[0]?.module as never)).toHaveLength(2);

    const record = await runLarder(['purge', module, '1.1.0', '--dry-run', ...there]);
    expect(record.stdout).toBe(
      `${module} 1.1.0: what is remembered of it\nwould be removed: what is remembered of 1 version\n`,
    );
    const over = await runLarder(['purge', module, '1.1.0', '--yes', '--json', ...there]);
    expect(over.lines()).toEqual([{ state: 'removed', address: module, version: '1.1.0', record: true, settled: [] }]);
    const here = await runLarder(['purge', '*/*/*/aws', '--yes', '--config', setup.configFile]);
    expect(here.code, here.stderr).toBe(0);
    expect(here.stdout).toMatch(/^removed: 2 module packages of 2 versions, 4\.0 KiB$/m);
    for (const release of releases) expect(await store.recall(release)).toBeUndefined();
  });
});
