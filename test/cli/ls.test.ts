import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
import { startScene, stoppedClock, WIDGET } from '../mirror/scene.ts';
import { runLarder } from '../support/command.ts';

const TOKEN = 'token-of-the-operators';
const CI = 'token-of-the-builds';
const config = {
  access: {
    tokens: [
      { name: 'ops', token: TOKEN, roles: ['admin'] },
      { name: 'ci', token: CI, roles: ['read'] },
    ],
  },
};
/** Several processes are started one after the other. */
const PROCESSES = { timeout: 120_000 };

async function begin() {
  const scene = await startScene({ config });
  await scene.archive();
  await scene.stored();
  const { url, setup } = scene.larder;
  const there = ['--server', url, '--ca', setup.caFile];
  return { ...scene, there, address: `${scene.registry.hostname}/acme/widget`, setup };
}

describe('larder ls', () => {
  it('lists what a running server has stored, and what differs upstream', PROCESSES, async () => {
    const clock = stoppedClock();
    const { registry, version, there, address } = await begin();
    await registry.addProvider({ ...WIDGET, zip: () => Buffer.from('other bytes') });
    clock.advance(25 * 3_600_000);
    await version('1.0.0');

    const [shown, told] = await Promise.all([
      runLarder(['ls', ...there, '--token', TOKEN]),
      runLarder(['ls', address, '--version', '1.0.0', '--json'], {
        LARDER_SERVER: there[1] as string,
        LARDER_TOKEN: TOKEN,
        NODE_EXTRA_CA_CERTS: there[3] as string,
      }),
    ]);
    expect(shown.stderr).toBe('');
    expect(shown.code).toBe(0);
    expect(shown.stdout).toMatch(/^ADDRESS +VERSION +PLATFORM +SIZE +STORED/);
    expect(shown.stdout).toMatch(new RegExp(`^${address} +1\\.0\\.0 +linux_amd64 .*differs upstream`, 'm'));
    expect(shown.stdout).toMatch(/^1 archive, /m);
    expect(shown.stdout).toContain('larder purge');
    expect(told.code, told.stderr).toBe(0);
    expect(told.lines()).toMatchObject([
      { kind: 'archive', address, version: '1.0.0', platform: 'linux_amd64' },
      { kind: 'drift', address, version: '1.0.0', platform: 'linux_amd64' },
    ]);
  });

  it('lists what is in a data directory, also while a server runs on it, and makes none', PROCESSES, async () => {
    const { setup, address } = await begin();
    const none = join(setup.dataDirectory, 'none');
    const [found, nothing, missing] = await Promise.all([
      runLarder(['ls', '*/acme/*', '--json', '--config', setup.configFile]),
      runLarder(['ls', '*/*/gadget', '--config', setup.configFile]),
      runLarder(['ls'], { LARDER_DATA: none }),
    ]);
    expect(found.lines()).toMatchObject([{ kind: 'archive', address }]);
    expect(nothing).toMatchObject({ code: 1, stdout: '', stderr: 'larder: nothing that is stored matches\n' });
    expect(missing).toMatchObject({ code: 2, stdout: '' });
    expect(missing.stderr).toMatch(/^larder: there is nothing of Larder in .*\n.*--config/);
    await expect(stat(none)).rejects.toThrow('ENOENT');
  });

  it('lists module packages beside the archives, and each alone by its number of parts', PROCESSES, async () => {
    const { setup, there, address } = await begin();
    const module = `registry.example.com/acme/net/aws`;
    const store = await DirectoryModuleStore.open({ directory: setup.dataDirectory, logger: silentLogger });
    for (const version of ['1.0.0', '1.1.0']) await putPackage(store, releaseOf(version, module), Buffer.alloc(2048));
    const [shown, told, one, providers] = await Promise.all([
      runLarder(['ls', ...there, '--token', TOKEN]),
      runLarder(['ls', '--json', '--config', setup.configFile]),
      runLarder(['ls', '*/acme/*/aws', '1.0.0', '--json', ...there, '--token', TOKEN]),
      runLarder(['ls', '*/*/*', '--json', '--config', setup.configFile]),
    ]);
    expect(shown.stderr).toBe('');
    expect(shown.stdout).toMatch(
      /^ADDRESS .*\n[\s\S]*^1 archive, .*\n\n^MODULE +VERSION +SIZE +STORED \(UTC\) +LAST USE +MADE OF$/m,
    );
    expect(shown.stdout).toMatch(/^registry\.example\.com\/acme\/net\/aws +1\.1\.0 +2\.0 KiB .* git::x$/m);
    expect(shown.stdout).toMatch(/^2 module packages, 4\.0 KiB$/m);
    expect(told.lines()).toMatchObject([
      { kind: 'archive', address },
      { kind: 'module', address: module, version: '1.1.0', size: 2048, source: 'git::x' },
      { kind: 'module', address: module, version: '1.0.0' },
    ]);
    expect(one.lines()).toMatchObject([{ kind: 'module', address: module, version: '1.0.0' }]);
    expect(providers.lines()).toMatchObject([{ kind: 'archive', address }]);
  });

  it('says in two lines what is in the way', PROCESSES, async () => {
    const { there } = await begin();
    const [refused, misspelt, twice] = await Promise.all([
      runLarder(['ls', ...there, '--token', CI]),
      runLarder(['ls', 'acme/widget', ...there]),
      runLarder(['ls', '*/acme/widget', '1.0.0', '--version', '1.1.0', ...there]),
    ]);
    expect(refused.stderr).toMatch(
      /^larder: .* refused: the token named ci does not have the role admin\n.*access.tokens\n$/,
    );
    expect(misspelt.stderr).toMatch(/^larder: "acme\/widget" is not a valid address: .*HOST\/NAMESPACE\/TYPE.*\n$/);
    expect(twice.stderr).toMatch(/^larder: two versions are given, 1\.0\.0 and 1\.1\.0\n.*--version/);
    for (const { code, stdout } of [refused, misspelt, twice])
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });
});
