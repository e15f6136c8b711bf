import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';

const UNIT = join(import.meta.dirname, '../../deploy/systemd/larder.service');

async function settings(): Promise<Map<string, string>> {
  const lines = (await readFile(UNIT, 'utf8')).split('\n').filter((line) => /^\w+=/.test(line));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
}

it('the unit gives Larder longer to stop than Larder takes, and tells it alone', async () => {
  const unit = await settings();
  expect(Number.parseInt(unit.get('TimeoutStopSec') ?? '', 10)).toBeGreaterThan(25 + 5);
  expect(unit.get('KillMode')).toBe('mixed');
  expect(unit.get('ExecReload')).toContain('-HUP $MAINPID');
});

it('the unit may write where its data is, and nowhere else', async () => {
  const unit = await settings();
  expect(Object.fromEntries(unit)).toMatchObject({
    ProtectSystem: 'strict',
    ProtectHome: 'yes',
    NoNewPrivileges: 'yes',
    DynamicUser: 'yes',
    StateDirectory: 'larder',
    CapabilityBoundingSet: '',
  });
  expect(unit.get('Environment')).toContain(`LARDER_DATA=/var/lib/${unit.get('StateDirectory')}`);
  expect(Number(unit.get('LimitNOFILE'))).toBeGreaterThanOrEqual(65_536);
});

it('systemd finds nothing wrong with the unit', async (context) => {
  const directory = await mkdtemp(join(tmpdir(), 'larder-unit-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  // Programs have to exist.
  const unit = (await readFile(UNIT, 'utf8')).replace('/usr/bin/node ', `${process.execPath} `);
  await writeFile(join(directory, 'larder.service'), unit);
  const verified = await promisify(execFile)('systemd-analyze', ['verify', join(directory, 'larder.service')]).catch(
    (error: NodeJS.ErrnoException & { stderr?: string }) => error,
  );
  if ('code' in verified && verified.code === 'ENOENT') return context.skip('no systemd-analyze here');
  // Other units of the machine are not ours.
  expect(
    String(verified.stderr)
      .split('\n')
      .filter((line) => line.includes('larder.service')),
  ).toEqual([]);
});
