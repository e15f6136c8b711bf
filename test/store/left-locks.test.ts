import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DirectoryLocks } from '../../src/store/directory-locks.ts';

/** What is done before a file is removed. */
const before = vi.hoisted(() => ({ removing: async (_path: string) => {} }));

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>();
  const slow: typeof real.rm = async (path, options) => {
    await before.removing(String(path));
    await real.rm(path, options);
  };
  return { ...real, rm: slow };
});

/** Long enough for whoever could get in to have got in, in milliseconds. */
const LONG_ENOUGH_MS = 300;

const LONG_AGO = new Date('2024-01-01T00:00:00Z');

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-left-locks-'));
});
afterEach(async () => {
  before.removing = async () => {};
  await rm(directory, { recursive: true, force: true });
});

async function leave(name: string): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, 'whose it was');
  await utimes(path, LONG_AGO, LONG_AGO);
  return path;
}

async function nameOfLock(): Promise<string> {
  let name = '';
  await new DirectoryLocks({ directory }).hold('a', async () => {
    [name = ''] = await readdir(directory);
  });
  return name;
}

test('two that find the same lock of a dead process do not both have it, however slow one of them is', async () => {
  const left = await leave(await nameOfLock());
  let goOn = () => {};
  const paused = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const reached = new Promise<void>((resolve) => {
    let isFirst = true;
    before.removing = async (path) => {
      if (path !== left || !isFirst) return;
      isFirst = false;
      resolve();
      await paused;
    };
  });
  let inside = 0;
  let most = 0;
  const change = async () => {
    inside += 1;
    most = Math.max(most, inside);
    await delay(LONG_ENOUGH_MS);
    inside -= 1;
  };
  const one = new DirectoryLocks({ directory }).hold('a', change);
  await reached;
  const other = new DirectoryLocks({ directory }).hold('a', change);
  await Promise.race([other, delay(LONG_ENOUGH_MS / 2)]);
  goOn();
  await Promise.all([one, other]);
  expect(most).toBe(1);
  expect(await readdir(directory)).toEqual([]);
});

test('whoever dies over taking away what a dead process left is in the way of nobody either', async () => {
  const left = await leave(await nameOfLock());
  const claimed = new Promise<string>((resolve) => {
    before.removing = async (path) => {
      if (path !== left) return;
      resolve((await readdir(directory)).find((name) => left !== join(directory, name)) ?? '');
    };
  });
  await new DirectoryLocks({ directory }).hold('a', async () => {});
  await leave(left.slice(directory.length + 1));
  await leave(await claimed);
  expect(await new DirectoryLocks({ directory }).hold('a', async () => 'done')).toBe('done');
  expect(await readdir(directory)).toEqual([]);
});
