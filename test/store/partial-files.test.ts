import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { PartialFiles } from '../../src/store/partial-files.ts';
import { isAbandoned, newPartialName } from '../../src/store/partial-name.ts';

const MINUTE_MS = 60_000;

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-partial-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const open = () => PartialFiles.open(directory, silentLogger);
const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * MINUTE_MS);
/** Of a process that is not seen from here: in another container on this host, or on another machine. */
const unseen = (host: string) => `${host}+00c0ffee-1-${randomUUID()}`;

describe('a check', () => {
  test('succeeds where files can be made, and leaves nothing', async () => {
    await (await PartialFiles.open(join(directory, 'partial'), silentLogger)).check();
    expect(await readdir(join(directory, 'partial'))).toEqual([]);
  });

  test('tells whether it is only the writing that fails', async () => {
    const partials = await PartialFiles.open(join(directory, 'partial'), silentLogger);
    await rm(join(directory, 'partial'), { recursive: true });
    await writeFile(join(directory, 'partial'), 'in the way');
    await expect(partials.check()).rejects.toMatchObject({
      code: 'STORAGE_FAILED',
      message: 'writing to the data directory failed (ENOTDIR)',
      readable: true,
    });
    await rm(directory, { recursive: true });
    await expect(partials.check()).rejects.toMatchObject({
      message: 'reading the data directory failed (ENOENT)',
      readable: false,
    });
  });
});

describe('a directory that replicas share', () => {
  test('a start leaves alone what others write, wherever they run', async () => {
    const [here, there] = [unseen(hostname()), unseen('another-host')];
    await writeFile(join(directory, here), 'partial');
    await writeFile(join(directory, there), 'partial');
    await utimes(join(directory, here), minutesAgo(5), minutesAgo(5));
    await utimes(join(directory, there), minutesAgo(300), minutesAgo(300));
    await mkdir(join(directory, unseen(hostname())));
    const mine = await (await open()).create();
    await mine.handle.close();
    await open();
    expect(await readdir(directory)).toHaveLength(4);
  });

  test('what a container left that is gone is swept when nobody has written to it for a while', async () => {
    const left = unseen(hostname());
    await writeFile(join(directory, left), 'partial');
    await utimes(join(directory, left), minutesAgo(20), minutesAgo(20));
    await open();
    expect(await readdir(directory)).toEqual([]);
  });

  test('a directory in which something is made for long is not taken for one that was left', () => {
    const name = unseen(hostname());
    const mtimeMs = minutesAgo(60).getTime();
    expect(isAbandoned(name, { mtimeMs, isFile: false })).toBe(false);
    expect(isAbandoned(name, { mtimeMs: minutesAgo(25 * 60).getTime(), isFile: false })).toBe(true);
    expect(isAbandoned(newPartialName(), { mtimeMs: Date.now(), isFile: false })).toBe(false);
  });
});

describe('what another process writes', () => {
  test('is read as it grows, by many at the cost of one descriptor, and after it was renamed', async () => {
    const partial = await (await open()).create();
    const shared = await (await open()).openShared(basename(partial.path));
    const [one, other] = [await shared?.openReader(), await shared?.openReader()];
    const into = Buffer.alloc(10);
    expect(await shared?.size()).toBe(0);
    expect(await one?.read(into, 0)).toBe(0);
    await partial.handle.write('hello');
    expect(await shared?.size()).toBe(5);
    expect(await one?.read(into, 1)).toBe(4);
    expect(into.toString('utf8', 0, 4)).toBe('ello');
    await partial.handle.close();
    await rm(partial.path);
    await one?.close();
    await shared?.close();
    expect(await other?.read(into, 0)).toBe(5);
    await other?.close();
    await other?.close();
    await expect(other?.read(into, 0)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  });

  test('is found by the names that such files have, and by no path', async () => {
    await writeFile(join(directory, 'secret'), 'x');
    const partials = await PartialFiles.open(join(directory, 'partial'), silentLogger);
    for (const name of ['../secret', 'secret', '', '.', `../${newPartialName()}`, `a/${newPartialName()}`]) {
      expect(await partials.openShared(name), name).toBeUndefined();
    }
    expect(await partials.openShared(newPartialName())).toBeUndefined();
  });
});
