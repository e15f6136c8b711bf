import { spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import {
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ModuleRelease } from '../../src/address/module.ts';
import { DirectoryLocks } from '../../src/store/directory-locks.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { paths } from '../../src/store/keys.ts';
import type { StoredPackage } from '../../src/store/module-store.ts';
import { altered, collect, sha256Hex } from '../contract/archive-store.ts';
import { putPackage, releaseOf, testModuleStore } from '../contract/module-store.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { canMount, onSmallDisk } from './small-disk.ts';

const LONG_AGO = new Date('2024-01-01T00:00:00Z');
const one = releaseOf('1.0.0');
const two = releaseOf('2.0.0');
const bytes = randomBytes(100_000);

let directory: string;
let logger: ReturnType<typeof recordingLogger>;

const openStore = () => DirectoryModuleStore.open({ directory, logger });
const packageOf = (release: ModuleRelease) => join(directory, paths.modulePackage(release));
const recordOf = (release: ModuleRelease) => join(directory, paths.moduleRecord(release));
const warnings = () => logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message);

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-modules-'));
  logger = recordingLogger();
});

afterEach(() => rm(directory, { recursive: true, force: true }));

async function age(path: string): Promise<void> {
  await utimes(path, LONG_AGO, LONG_AGO);
}

describe('the port', () => {
  testModuleStore(async () => {
    return {
      store: await openStore(),
      another: openStore,
      isGuarded: true,
      leftovers: () => readdir(join(directory, paths.partial)),
      truncate: async (release) => {
        await truncate(packageOf(release), (await stat(packageOf(release))).size - 1);
        await age(packageOf(release));
      },
      corrupt: async (release) => {
        const handle = await open(packageOf(release), 'r+');
        const { buffer: byte } = await handle.read(Buffer.alloc(1), 0, 1, 100);
        await handle.write(Buffer.from([(byte[0] ?? 0) ^ 0xff]), 0, 1, 100);
        await handle.close();
      },
      alter: async (release) => {
        await writeFile(packageOf(release), altered(await readFile(packageOf(release))));
        await age(packageOf(release));
      },
      rewrite: async (release) => {
        await writeFile(packageOf(release), await readFile(packageOf(release)));
        await age(packageOf(release));
      },
      close: async () => {},
    };
  });
});

describe('packages that were written to since they were stored', () => {
  test('are put into quarantine when they are altered, and that is said', async () => {
    const store = await openStore();
    await putPackage(store, one, bytes);
    await writeFile(packageOf(one), altered(bytes));
    await age(packageOf(one));
    expect(await store.find(one)).toBeUndefined();
    expect(existsSync(packageOf(one))).toBe(false);
    expect(await readdir(join(directory, paths.quarantine))).toHaveLength(1);
    expect(warnings()).toEqual([expect.stringContaining('altered')]);
  });

  test('are compared once, whether the record tells another time or is verified without one', async () => {
    const store = await openStore();
    await putPackage(store, one, bytes);
    await age(packageOf(one));
    for (let time = 0; time < 3; time += 1) expect(await store.find(one)).toMatchObject({ storedAt: LONG_AGO });
    expect(logger.lines.filter(({ message }) => message.includes('is what it was'))).toHaveLength(1);
    const noted = await readFile(recordOf(one), 'utf8');
    expect(JSON.parse(noted).mtime).toBe(LONG_AGO.getTime());
    await writeFile(recordOf(one), JSON.stringify({ ...JSON.parse(noted), mtime: undefined }));
    const stored = await (await openStore()).find(one);
    expect(await (await openStore()).verify(stored as StoredPackage)).toBe(true);
    expect(await readFile(recordOf(one), 'utf8')).toBe(noted);
  });
});

describe('packages that were altered and made anew while', () => {
  const anew = randomBytes(bytes.length);
  let release = () => {};
  let holding: Promise<void>;

  beforeEach(() => {
    release = () => {};
  });

  /** Keeps a release from being changed. Resolves once it does. */
  async function hold(of: ModuleRelease): Promise<void> {
    const locks = new DirectoryLocks({ directory: join(directory, paths.locks) });
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await new Promise<void>((resolve) => {
      holding = locks.hold(paths.modulePackage(of), () => {
        resolve();
        return released;
      });
    });
  }

  async function alter(of: ModuleRelease, content = altered(bytes)): Promise<void> {
    await writeFile(packageOf(of), content);
    await age(packageOf(of));
  }

  test('others were compared are not put aside', async () => {
    const store = await DirectoryModuleStore.open({ directory, logger, patienceMs: 50 });
    const last = releaseOf('3.0.0');
    for (const each of [one, two, last]) await putPackage(store, each, bytes);
    for (const each of [one, last]) await age(packageOf(each));
    await alter(two);
    await hold(one);
    for (const each of [one, two, last]) await expect(store.find(each)).rejects.toMatchObject({ busy: true });
    await store.forget(two);
    const stored = await putPackage(store, two, anew);
    // Nobody could still be writing it.
    const at = new Date(LONG_AGO.getTime() + 1_000);
    await utimes(packageOf(two), at, at);
    expect(await store.verify(stored)).toBe(true);
    release();
    await holding;
    await expect.poll(() => store.find(last).catch(() => undefined), { timeout: 10_000 }).toBeDefined();
    expect(await store.find(two)).toEqual({ ...stored, storedAt: at });
    expect(existsSync(join(directory, paths.quarantine))).toBe(false);
  });

  test('others were at the same release are not put aside', async () => {
    const store = await openStore();
    await putPackage(store, one, bytes);
    await alter(one);
    await hold(one);
    const found = store.find(one);
    await expect.poll(warnings).toEqual([expect.stringContaining('altered')]);
    const record = JSON.parse(await readFile(recordOf(one), 'utf8'));
    await writeFile(recordOf(one), JSON.stringify({ ...record, sha256: sha256Hex(anew), mtime: LONG_AGO.getTime() }));
    await alter(one, anew);
    release();
    await holding;
    expect(await found).toBeUndefined();
    expect(await store.find(one)).toMatchObject({ sha256: sha256Hex(anew) });
    expect(existsSync(join(directory, paths.quarantine))).toBe(false);
  });

  test('the store was closed are not looked at any more', async () => {
    const store = await openStore();
    await putPackage(store, one, bytes);
    await age(packageOf(one));
    await store.close();
    await expect(store.find(one)).rejects.toMatchObject({ code: 'STORAGE_FAILED', busy: true });
  });
});

describe('what lies in the directory', () => {
  test('is a package and a record that people can read', async () => {
    const release = releaseOf('1.0.0-RC1+b.5', 'xn--bcher-kva.example:8443/Acme/My_Net/aws');
    const store = await openStore();
    await putPackage(store, release, bytes, { subdir: 'modules/vpc', source: 'git::x?ref=v1', fingerprint: 'c0ffee' });
    const home = join(directory, 'modules/bücher.example:8443/acme/my_net/aws');
    expect((await readdir(home)).sort()).toEqual(['1.0.0-RC1+b.5.json', '1.0.0-RC1+b.5.tar.gz']);
    expect(await readFile(join(home, '1.0.0-RC1+b.5.json'), 'utf8')).toBe(
      [
        '{',
        `  "sha256": "${sha256Hex(bytes)}",`,
        '  "size": 100000,',
        `  "mtime": ${(await stat(join(home, '1.0.0-RC1+b.5.tar.gz'))).mtime.getTime()},`,
        '  "subdir": "modules/vpc",',
        '  "source": "git::x?ref=v1",',
        '  "fingerprint": "c0ffee"',
        '}',
        '',
      ].join('\n'),
    );
    expect(bytes.equals(await readFile(join(home, '1.0.0-RC1+b.5.tar.gz')))).toBe(true);
  });

  test('that is not ours is passed over and left alone', async () => {
    const store = await openStore();
    const stored = await putPackage(store, one, bytes);
    const home = dirname(packageOf(one));
    const foreign = ['README', 'latest.tar.gz', '1.0.tar.gz', 'v1.0.0.json', '.tar.gz', '.json', '1.0.0', '2.0.0.zip'];
    for (const name of foreign) await writeFile(join(home, name), 'foreign');
    await mkdir(join(home, '3.0.0.tar.gz'));
    for (const path of [
      'lost+found',
      'Registry.Example.com/acme/net/aws',
      'registry.example.com/Acme/net/aws',
      'registry.example.com/acme/net/AWS',
      'registry.example.com/-a/net/aws',
      'registry.example.com/acme/empty/aws',
      'a/b/c',
    ]) {
      await mkdir(join(directory, 'modules', path), { recursive: true });
    }
    await writeFile(join(directory, 'modules', 'README'), 'foreign');
    expect(await store.list(one.module)).toEqual([stored]);
    expect((await store.recorded(one.module)).map(String)).toEqual(['1.0.0']);
    expect((await collect(store.modules())).map(String)).toEqual([one.module.toString()]);
    for (const name of foreign) expect(existsSync(join(home, name)), name).toBe(true);
    expect(warnings()).toEqual([]);
  });

  test.each([
    ['a directory', (path: string) => mkdir(path)],
    ['a link to itself', (path: string) => symlink(path, path)],
    ['a link that leads nowhere', (path: string) => symlink('/absent/file', path)],
  ])('%s in the place of a file counts as no file', async (_, make) => {
    const store = await openStore();
    await putPackage(store, one, bytes);
    for (const path of [packageOf(two), recordOf(two)]) await make(path);
    expect(await store.find(two)).toBeUndefined();
    expect(await store.recall(two)).toBeUndefined();
    expect((await store.list(one.module)).map(({ release }) => release.version.toString())).toEqual(['1.0.0']);
  });

  test('is listed from memory as long as nobody touches it, and anew once another process does', async () => {
    await putPackage(await openStore(), one, bytes);
    const home = dirname(packageOf(one));
    await age(home);
    const store = await openStore();
    const list = await store.list(one.module);
    expect(await store.list(one.module)).toBe(list);
    await putPackage(await openStore(), two, bytes);
    await expect.poll(async () => (await store.list(one.module)).length, { timeout: 10_000 }).toBe(2);
  });
});

describe('records', () => {
  test.each([
    ['cut off', '{"sha256": "aa'],
    ['empty', ''],
    ['a list', '[]'],
    ['null', 'null'],
    ['without a digest', JSON.stringify({ size: bytes.length, subdir: '', source: 'x' })],
    ['with another digest than can be', JSON.stringify({ sha256: 'abc', size: bytes.length, subdir: '', source: 'x' })],
    ['of a size below nothing', JSON.stringify({ sha256: sha256Hex(bytes), size: -1, subdir: '', source: 'x' })],
    ['of a size that is text', JSON.stringify({ sha256: sha256Hex(bytes), size: '100000', subdir: '', source: 'x' })],
    ['without a place', JSON.stringify({ sha256: sha256Hex(bytes), size: bytes.length, source: 'x' })],
  ])('that are %s make a miss, are said once, and are replaced by the next package', async (_, text) => {
    const store = await openStore();
    await putPackage(store, one, bytes);
    await writeFile(recordOf(one), text);
    for (let time = 0; time < 3; time += 1) {
      expect(await store.find(one)).toBeUndefined();
      expect(await store.recall(one)).toBeUndefined();
      expect(await store.list(one.module)).toEqual([]);
    }
    expect(warnings()).toEqual(['the record of a module package is not readable; the package is not used']);
    const stored = await putPackage(store, one, bytes);
    expect(await store.find(one)).toEqual(stored);
  });

  test('with more in them than we know are read', async () => {
    const store = await openStore();
    const stored = await putPackage(store, one, bytes);
    const document = JSON.parse(await readFile(recordOf(one), 'utf8'));
    await writeFile(recordOf(one), JSON.stringify({ ...document, madeBy: 'a later release' }));
    expect(await store.find(one)).toEqual(stored);
  });
});

describe('a crash', () => {
  test('after the package is in place leaves nothing that is found, and is mended by the next put', async () => {
    const store = await openStore();
    await putPackage(store, one, bytes);
    await rm(recordOf(one));
    expect(await store.find(one)).toBeUndefined();
    expect(await store.list(one.module)).toEqual([]);
    const other = randomBytes(100);
    const stored = await putPackage(store, one, other);
    expect(other.equals(await buffer(await store.read(stored)))).toBe(true);
    expect(await store.find(one)).toEqual(stored);
  });

  test('in the place of what cannot be read leaves nothing that is found', async () => {
    const store = await openStore();
    await putPackage(store, one, bytes);
    await writeFile(recordOf(one), 'broken off');
    // The last moment before its record would be written: that cannot be done, for a directory is in its place.
    const other = randomBytes(bytes.length);
    const put = putPackage(store, one, other);
    const blocked = (async () => {
      while (existsSync(recordOf(one))) await new Promise(setImmediate);
      await mkdir(join(recordOf(one), 'in the way'), { recursive: true });
    })();
    const [outcome] = await Promise.allSettled([put, blocked]);
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'STORAGE_FAILED' } });
    expect(await store.find(one)).toBeUndefined();
    expect(existsSync(packageOf(one))).toBe(false);
  });

  test('while a package is being made is swept at the next start, with everything in it', async () => {
    const child = spawn(process.execPath, ['-e', '']);
    await once(child, 'exit');
    const store = await openStore();
    const living = await store.workDirectory();
    const left = await store.workDirectory();
    await mkdir(join(left.path, 'deep'));
    await writeFile(join(left.path, 'deep', 'file'), 'partial');
    await rename(left.path, join(directory, paths.partial, `${hostname()}-${child.pid}-${randomUUID()}`));
    await openStore();
    expect(await readdir(join(directory, paths.partial))).toEqual([living.path.split('/').at(-1)]);
    await living.remove();
  });
});

describe('what others put in place', () => {
  test('is left alone while it may still be being copied, and found once it is whole', async () => {
    const store = await openStore();
    await putPackage(store, one, bytes);
    await writeFile(packageOf(one), bytes.subarray(0, 500));
    expect(await store.find(one)).toBeUndefined();
    expect(existsSync(packageOf(one))).toBe(true);
    await writeFile(packageOf(one), bytes);
    expect(await store.find(one)).toBeDefined();
    expect(warnings()).toEqual([]);
  });

  test('is discarded when it stays too short, and that is said', async () => {
    const store = await openStore();
    await putPackage(store, one, bytes);
    await writeFile(packageOf(one), bytes.subarray(0, 500));
    await age(packageOf(one));
    expect(await store.find(one)).toBeUndefined();
    expect(existsSync(packageOf(one))).toBe(false);
    expect(existsSync(recordOf(one))).toBe(true);
    expect(logger.lines.filter(({ level }) => level === 'warn')).toMatchObject([
      { fields: { module: one.module.toString(), version: '1.0.0', expected: bytes.length, size: 500 } },
    ]);
  });
});

describe('a failing disk', () => {
  const hasTmpfs = canMount();

  test.skipIf(!hasTmpfs)('R83: a full disk fails the put, keeps what is stored and heals by itself', async () => {
    const usual = directory;
    await onSmallDisk(async (small) => {
      directory = small;
      const store = await openStore();
      const kept = await putPackage(store, one, bytes);
      const large = randomBytes(16 * 1024 ** 2);
      // Making it is what fails, in the work directory.
      await expect(putPackage(store, two, large)).rejects.toMatchObject({ code: 'ENOSPC' });
      expect(await readdir(join(small, paths.partial))).toEqual([]);
      expect(await store.find(two)).toBeUndefined();
      expect(bytes.equals(await buffer(await store.read((await store.find(one)) as StoredPackage)))).toBe(true);

      const work = await store.workDirectory();
      const file = join(work.path, 'package');
      await writeFile(file, bytes);
      const filler = join(small, 'filler');
      await writeFile(filler, large).catch(() => {});
      const record = { sha256: sha256Hex(bytes), size: bytes.length, subdir: '', source: 'x', fingerprint: undefined };
      await expect(store.put(two, { ...record, file })).rejects.toMatchObject({ code: 'STORAGE_FAILED', full: true });
      await work.remove();
      expect(await store.find(two)).toBeUndefined();
      expect(existsSync(packageOf(two))).toBe(false);
      await rm(filler);
      expect(await putPackage(store, two, bytes)).toMatchObject({ size: kept.size });
    }).finally(() => {
      directory = usual;
    });
  });

  if (!hasTmpfs) console.warn('not tested: a full disk (needs the right to mount a tmpfs)');

  test('a data directory that cannot be made is said, by code', async () => {
    await writeFile(join(directory, 'file'), '');
    await expect(DirectoryModuleStore.open({ directory: join(directory, 'file'), logger })).rejects.toMatchObject({
      code: 'STORAGE_FAILED',
    });
  });

  test('a cleared away directory for partial files is made again', async () => {
    const store = await openStore();
    await rm(join(directory, paths.partial), { recursive: true });
    expect(await putPackage(store, one, bytes)).toMatchObject({ size: bytes.length });
  });

  test('a work directory that cannot be removed is said and hurts nobody', async () => {
    const store = await openStore();
    const work = await store.workDirectory();
    await rm(work.path, { recursive: true });
    await writeFile(join(directory, 'file'), '');
    await rm(join(directory, paths.partial), { recursive: true });
    await symlink(join(directory, 'file'), join(directory, paths.partial));
    await expect(work.remove()).resolves.toBeUndefined();
    expect(warnings()).toEqual(['a work directory could not be removed']);
  });
});
