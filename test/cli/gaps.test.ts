import { mkdir, mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { shown } from '../../src/cli/gaps.ts';
import { altered } from '../contract/archive-store.ts';
import { archiveName, startScene, WIDGET } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { runLarder } from '../support/command.ts';

const TOKEN = 'token-of-the-operators';
const config = { access: { tokens: [{ name: 'ops', token: TOKEN, roles: ['admin'] }] } };
/** Several processes are started one after the other. */
const PROCESSES = { timeout: 120_000 };

/** Version 1.0.0 of acme/widget is stored for linux_amd64; a directory holds a configuration that needs it. */
async function begin() {
  const scene = await startScene({ config });
  await scene.registry.addProvider({ ...WIDGET, platforms: ['linux_amd64', 'darwin_arm64'] });
  await scene.archive();
  await scene.stored();
  const address = `${scene.registry.hostname}/acme/widget`;
  const directory = await mkdtemp(path.join(tmpdir(), 'larder-gaps-'));
  afterTest(() => rm(directory, { recursive: true }));
  const text = JSON.stringify({
    terraform: { required_providers: { widget: { source: address, version: '~> 1.0' } } },
  });
  await mkdir(path.join(directory, 'live'));
  await writeFile(path.join(directory, 'live/main.tf.json'), text);
  await writeFile(path.join(directory, 'live/broken.tf.json'), '{"terraform":');
  await writeFile(path.join(directory, 'list.txt'), `${address}@1.0.0\n`);
  const { url, setup } = scene.larder;
  const there = ['--server', url, '--ca', setup.caFile, '--token', TOKEN];
  const home = path.join(setup.dataDirectory, 'providers', address);
  /** Past the server, long ago: the archive has other bytes of the same size, whether it was stored by now or not. */
  const alter = async () => {
    await scene.archive();
    await scene.stored();
    const file = path.join(home, archiveName('1.0.0', 'linux_amd64'));
    await writeFile(file, altered(await readFile(file)));
    await utimes(file, new Date('2024-01-01T00:00:00Z'), new Date('2024-01-01T00:00:00Z'));
  };
  return { ...scene, directory, there, here: ['--config', setup.configFile], address, alter };
}

describe('a report for people', () => {
  const NOTHING = { gaps: [], diagnostics: [], platforms: ['linux_amd64'], client: 'opentofu' };
  const gap = { kind: 'lock', address: 'h.test/acme/widget', version: '1.0.0', reason: 'no', stored: [], wantedBy: [] };

  it('says by whose rules the files were read, and gives no all-clear for what needs nothing', () => {
    const impliedHostname = 'registry.opentofu.org';
    const report = { ...NOTHING, present: { archives: 1, packages: 0 } };
    expect(shown({ ...report, impliedHostname })).toBe(
      'no gaps for linux_amd64, as OpenTofu reads these files (--client terraform otherwise): 1 archive and 0 module packages are here',
    );
    expect(shown(report)).toBe('no gaps for linux_amd64: 1 archive and 0 module packages are here');
    expect(shown({ ...NOTHING, present: { archives: 0, packages: 0 } })).not.toContain('no gaps');
  });

  it('advises to complete a lock file only where that can be', () => {
    const report = { ...NOTHING, present: { archives: 0, packages: 0 } };
    const one = { ...gap, lockFile: '.terraform.lock.hcl' };
    expect(shown({ ...report, gaps: [{ ...one, kind: 'lock' }] })).toContain('larder lock');
    const contradicted = shown({ ...report, gaps: [{ ...one, kind: 'contradicted' }] });
    expect(contradicted).not.toContain('larder lock');
    expect(contradicted).toContain('find out where that came from');
  });
});

describe('larder gaps', () => {
  it('exits with 0 when there is nothing that would fail, on a server and in its directory', PROCESSES, async () => {
    const { there, here, directory } = await begin();
    const list = path.join(directory, 'list.txt');
    const [told, found] = await Promise.all([
      runLarder(['gaps', list, ...there]),
      runLarder(['gaps', list, ...here, '--json']),
    ]);
    expect(told.stderr).toBe('');
    expect(told.stdout).toBe('no gaps for linux_amd64: 1 archive and 0 module packages are here\n');
    expect(told.code).toBe(0);
    expect(found.code, found.stderr).toBe(0);
    expect(found.lines()).toMatchObject([{ gaps: [], present: { archives: 1 } }]);
  });

  it('exits with 1 when anything would fail, and says how to bring it in', PROCESSES, async () => {
    const { there, here, directory, address } = await begin();
    const live = path.join(directory, 'live');
    const platforms = ['--platform', 'linux_amd64', '--platform', 'darwin_arm64'];
    const [told, found] = await Promise.all([
      runLarder(['gaps', live, ...platforms, ...there]),
      runLarder(['gaps', live, ...platforms, ...here, '--json']),
    ]);
    expect(told.code).toBe(1);
    expect(told.stderr).toContain('broken.tf.json:');
    expect(told.stdout).toContain(
      `${address} 1.0.0 (darwin_arm64)\n  it is not stored; of this version there are linux_amd64\n`,
    );
    expect(told.stdout).toContain('main.tf.json:1:');
    expect(told.stdout).toContain(`echo ${address}@1.0.0 | larder warm --platform darwin_arm64 -\n`);
    expect(told.stdout).toMatch(/^1 gap; 1 archive and 0 module packages are here$/m);
    expect(found.code).toBe(1);
    expect(found.lines()).toMatchObject([{ gaps: [{ kind: 'archive', address, platforms: ['darwin_arm64'] }] }]);
  });

  it('names what was altered on the disk as that, on a server and in its directory', PROCESSES, async () => {
    const { there, here, directory, address, alter } = await begin();
    const list = path.join(directory, 'list.txt');
    await alter();
    const told = await runLarder(['gaps', list, ...there]);
    expect(told.code).toBe(1);
    expect(told.stdout).toContain(`${address} 1.0.0 (linux_amd64)\n  what is stored of it was altered since it was`);
    expect(told.stdout).toContain(`echo ${address}@1.0.0 | larder warm --platform linux_amd64 -\n`);
    await alter();
    const found = await runLarder(['gaps', list, ...here, '--json']);
    expect(found.code).toBe(1);
    expect(found.lines()).toMatchObject([{ gaps: [{ kind: 'altered', address, version: '1.0.0' }] }]);
  });

  it('exits with 1 when a file cannot be read, even when nothing else is wrong', PROCESSES, async () => {
    const { here, directory } = await begin();
    const { code, stdout, stderr } = await runLarder(['gaps', path.join(directory, 'live'), ...here]);
    expect(stdout).toContain('no gaps for linux_amd64');
    expect(stderr).toMatch(/broken\.tf\.json:.*\n/);
    expect(code).toBe(1);
  });

  it('exits with 2 when it cannot be told', PROCESSES, async () => {
    const { there, directory } = await begin();
    const list = path.join(directory, 'list.txt');
    const runs = await Promise.all([
      runLarder(['gaps']),
      runLarder(['gaps', path.join(directory, 'missing.tf'), ...there]),
      runLarder(['gaps', list, '--platform', 'Linux', ...there]),
      runLarder(['gaps', list, '--server', 'http://127.0.0.1:1']),
    ]);
    expect(runs.map(({ code }) => code)).toEqual([2, 2, 2, 2]);
    for (const { stderr, stdout } of runs) {
      expect(stderr).not.toContain('    at ');
      expect(stderr).not.toBe('');
      expect(stdout).toBe('');
    }
  });
});
