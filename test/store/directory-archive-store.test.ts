import { execFileSync, spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import {
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
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
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ProviderArchive } from '../../src/address/archive.ts';
import { parseHash } from '../../src/address/hash.ts';
import { silentLogger } from '../../src/logger.ts';
import type { StoredArchive } from '../../src/store/archive-store.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { DirectoryLocks } from '../../src/store/directory-locks.ts';
import { paths } from '../../src/store/keys.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { altered, archiveOf, collect, put, sha256Hex, testArchiveStore } from '../contract/archive-store.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { expectedPackageHash, handMadeZip } from './hand-made-zip.ts';
import { canMount, onSmallDisk } from './small-disk.ts';

const hasher = new PackageHasher();
afterAll(() => hasher.close());

const LONG_AGO = new Date('2024-01-01T00:00:00Z');
const linux = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip');
const darwin = archiveOf('terraform-provider-widget_1.0.0_darwin_arm64.zip');
const bytes = randomBytes(300_000);

let directory: string;
let warnings: string[];

const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
const pathOf = (archive: ProviderArchive) => join(directory, paths.archive(archive));
const openStore = () => DirectoryArchiveStore.open({ directory, hasher, logger });
const json = async (path: string) => JSON.parse(await readFile(join(directory, path), 'utf8'));

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-archives-'));
  warnings = [];
});

afterEach(() => rm(directory, { recursive: true, force: true }));

async function place(archive: ProviderArchive, content: Buffer, at = LONG_AGO): Promise<void> {
  await mkdir(dirname(pathOf(archive)), { recursive: true });
  await writeFile(pathOf(archive), content);
  await utimes(pathOf(archive), at, at);
}

async function placeDocument(archive: ProviderArchive, entry: unknown): Promise<void> {
  const path = join(directory, paths.version(archive.provider, archive.version));
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, JSON.stringify({ archives: { [archive.platform.toString()]: entry } }));
}

describe('a directory as an archive store', () => {
  testArchiveStore(async () => {
    const stores = [await openStore()];
    return {
      store: stores[0] as DirectoryArchiveStore,
      another: async () => {
        const store = await openStore();
        stores.push(store);
        return store;
      },
      leftovers: () => readdir(join(directory, paths.partial)),
      truncate: async (archive) => {
        await truncate(pathOf(archive), (await stat(pathOf(archive))).size - 1);
        await utimes(pathOf(archive), LONG_AGO, LONG_AGO);
      },
      corrupt: async (archive) => {
        const handle = await open(pathOf(archive), 'r+');
        const { buffer: byte } = await handle.read(Buffer.alloc(1), 0, 1, 1000);
        await handle.write(Buffer.from([(byte[0] ?? 0) ^ 0xff]), 0, 1, 1000);
        await handle.close();
      },
      alter: async (archive) => {
        await writeFile(pathOf(archive), altered(await readFile(pathOf(archive))));
        await utimes(pathOf(archive), LONG_AGO, LONG_AGO);
      },
      rewrite: async (archive) => {
        await writeFile(pathOf(archive), await readFile(pathOf(archive)));
        await utimes(pathOf(archive), LONG_AGO, LONG_AGO);
      },
      place,
      close: async () => {
        for (const store of stores) await store.close();
      },
    };
  });
});

describe('the directory is a static mirror', () => {
  const index = paths.index(linux.provider);
  const document = paths.version(linux.provider, linux.version);

  test('index.json and VERSION.json say what is stored, sorted and readable', async () => {
    const store = await openStore();
    await put(store, linux, bytes);
    await put(store, darwin, bytes);
    await put(store, archiveOf('terraform-provider-widget_1.10.0_linux_amd64.zip'), bytes);
    await put(store, archiveOf('terraform-provider-widget_1.9.0_linux_amd64.zip'), bytes);
    expect(await readFile(join(directory, index), 'utf8')).toBe(
      `${JSON.stringify({ versions: { '1.0.0': {}, '1.9.0': {}, '1.10.0': {} } }, null, 2)}\n`,
    );
    const entry = async (archive: ProviderArchive) => ({
      hashes: [`zh:${sha256Hex(bytes)}`],
      url: archive.filename,
      size: bytes.length,
      mtime: (await stat(pathOf(archive))).mtime.getTime(),
    });
    const archives = { darwin_arm64: await entry(darwin), linux_amd64: await entry(linux) };
    expect(await readFile(join(directory, document), 'utf8')).toBe(`${JSON.stringify({ archives }, null, 2)}\n`);
  });

  test('what is discarded is not named any more, and the last one takes the documents with it', async () => {
    const store = await openStore();
    await put(store, linux, bytes);
    await put(store, darwin, bytes);
    await store.discard(linux);
    expect(Object.keys((await json(document)).archives)).toEqual(['darwin_arm64']);
    await store.discard(darwin);
    expect(await readdir(join(directory, paths.provider(linux.provider)))).toEqual([]);
  });

  test('what others wrote about other platforms and versions stays', async () => {
    const foreign = { hashes: [`zh:${'a'.repeat(64)}`], url: darwin.filename, note: 'kept' };
    await placeDocument(darwin, foreign);
    await writeFile(join(directory, paths.provider(linux.provider), '0.9.0.json'), '{"archives":{}}');
    const store = await openStore();
    const stored = await put(store, linux, bytes);
    await store.putPackageHash(stored, expectedPackageHash([]) as never);
    expect((await json(document)).archives.darwin_arm64).toEqual(foreign);
    expect((await json(document)).archives.linux_amd64.hashes).toEqual([
      expectedPackageHash([]),
      `zh:${sha256Hex(bytes)}`,
    ]);
    expect(await json(index)).toEqual({ versions: { '0.9.0': {}, '1.0.0': {} } });
  });

  test.each(['', '{', 'null', '[]', '{"archives":[]}', '{"archives":{"linux_amd64":null}}', '\0\0\0\0'])(
    'a damaged VERSION.json (%j) is no archive and no obstacle',
    async (text) => {
      await place(linux, bytes);
      await writeFile(join(directory, document), text);
      const store = await openStore();
      expect(await store.find(linux)).toBeUndefined();
      expect(await store.adopt(linux, { sha256: sha256Hex(bytes) })).toBeDefined();
      expect((await json(document)).archives.linux_amd64.size).toBe(bytes.length);
    },
  );

  test("R24: another process's writes are seen", async () => {
    const [here, there] = [await openStore(), await openStore()];
    expect(await here.find(linux)).toBeUndefined();
    expect(await here.list(linux.provider)).toEqual([]);
    const stored = await put(there, linux, bytes);
    expect(await here.find(linux)).toEqual(stored);
    expect(await here.list(linux.provider)).toEqual([stored]);
    await there.discard(linux);
    expect(await here.find(linux)).toBeUndefined();
    expect(await here.list(linux.provider)).toEqual([]);
  });

  test('a remembered list is not believed once the directory has changed', async () => {
    const store = await openStore();
    await put(store, linux, bytes);
    const home = join(directory, paths.provider(linux.provider));
    await utimes(home, LONG_AGO, LONG_AGO);
    const list = await store.list(linux.provider);
    expect(await store.list(linux.provider)).toBe(list);
    await put(store, darwin, bytes);
    expect(await store.list(linux.provider)).toHaveLength(2);
    await store.discard(darwin);
    expect(await store.list(linux.provider)).toEqual([expect.objectContaining({ h1: undefined })]);
    const h1 = parseHash(expectedPackageHash([]));
    await store.putPackageHash({ archive: linux, sha256: sha256Hex(bytes) }, h1);
    expect(await store.list(linux.provider)).toEqual([expect.objectContaining({ h1 })]);
  });

  test('a remembered list is not believed for long when another process may have changed the directory', async () => {
    const [here, there] = [await openStore(), await openStore()];
    await put(here, linux, bytes);
    await utimes(join(directory, paths.provider(linux.provider)), LONG_AGO, LONG_AGO);
    expect(await here.list(linux.provider)).toHaveLength(1);
    await put(there, darwin, bytes);
    await vi.waitFor(async () => expect(await here.list(linux.provider)).toHaveLength(2), { timeout: 5_000 });
  });

  test('foreign files and directories are passed over', async () => {
    const store = await openStore();
    const stored = await put(store, linux, bytes);
    const home = join(directory, paths.provider(linux.provider));
    await mkdir(join(home, '1.0.0', 'linux_amd64'), { recursive: true });
    await mkdir(join(home, 'terraform-provider-widget_1.0.0_linux_arm64.zip'));
    for (const name of ['README.md', 'latest.json', 'terraform-provider-other_1.0.0_linux_amd64.zip', 'x.zip']) {
      await writeFile(join(home, name), 'foreign');
    }
    await writeFile(join(directory, 'providers', 'README'), 'foreign');
    for (const path of ['lost+found', 'Registry.Example.com/acme/widget', 'registry.example.com/a--b/c', 'a/b/c/d']) {
      await mkdir(join(directory, 'providers', path), { recursive: true });
    }
    expect(await store.list(linux.provider)).toEqual([stored]);
    expect((await collect(store.providers())).map(String)).toEqual([linux.provider.toString()]);
  });
});

describe('archives that others put in place', () => {
  const zip = handMadeZip([{ name: 'terraform-provider-widget_v1.0.0', content: 'binary' }]);
  const h1 = expectedPackageHash([['terraform-provider-widget_v1.0.0', 'binary']]);

  test.each([
    ['the h1: that `tofu providers mirror` writes', [h1]],
    ['a zh:', [`zh:${sha256Hex(zip)}`]],
    ['one of several', [expectedPackageHash([]), `zh:${'0'.repeat(64)}`, h1]],
  ])('are found by %s', async (_, hashes) => {
    await place(linux, zip);
    await placeDocument(linux, { hashes, url: linux.filename });
    const store = await openStore();
    const stored = await store.find(linux);
    expect(stored).toMatchObject({ sha256: sha256Hex(zip), size: zip.length });
    expect(zip.equals(await buffer(await store.read(stored as StoredArchive)))).toBe(true);
    expect(await store.list(linux.provider)).toEqual([stored]);
  });

  test('are listed without being asked for one by one', async () => {
    for (const archive of [linux, darwin]) await place(archive, zip);
    await writeFile(
      join(directory, paths.version(linux.provider, linux.version)),
      JSON.stringify({
        archives: {
          linux_amd64: { hashes: [h1], url: linux.filename },
          darwin_arm64: { hashes: [h1], url: darwin.filename },
        },
      }),
    );
    const store = await openStore();
    expect(await store.list(linux.provider)).toHaveLength(2);
    expect((await collect(store.providers())).map(String)).toEqual([linux.provider.toString()]);
  });

  test('are discarded when they contradict every hash beside them', async () => {
    await place(linux, zip);
    await placeDocument(linux, { hashes: [expectedPackageHash([])], url: linux.filename });
    const store = await openStore();
    expect(await store.find(linux)).toBeUndefined();
    expect(existsSync(pathOf(linux))).toBe(false);
    expect(warnings).toHaveLength(1);
  });

  test('are left alone while they may still be being copied', async () => {
    await place(linux, zip.subarray(0, 50), new Date());
    await placeDocument(linux, { hashes: [`zh:${sha256Hex(zip)}`], url: linux.filename, size: zip.length });
    const store = await openStore();
    expect(await store.find(linux)).toBeUndefined();
    expect(await store.list(linux.provider)).toEqual([]);
    await place(linux, zip, new Date());
    expect(await store.find(linux)).toMatchObject({ sha256: sha256Hex(zip) });
  });

  test('are in the list once they are whole, though the directory does not change any more', async () => {
    const home = dirname(pathOf(linux));
    await place(linux, zip.subarray(0, 50), new Date());
    await placeDocument(linux, { hashes: [`zh:${sha256Hex(zip)}`], url: linux.filename, size: zip.length });
    await utimes(home, LONG_AGO, LONG_AGO);
    const store = await openStore();
    expect(await store.list(linux.provider)).toEqual([]);
    await place(linux, zip);
    expect((await stat(home)).mtimeMs).toBe(LONG_AGO.getTime());
    expect(await store.list(linux.provider)).toHaveLength(1);
  });

  test('are in the list once a document names them, though the directory does not change any more', async () => {
    await place(linux, zip);
    await placeDocument(linux, {});
    await utimes(dirname(pathOf(linux)), LONG_AGO, LONG_AGO);
    const store = await openStore();
    expect(await store.list(linux.provider)).toEqual([]);
    await placeDocument(linux, { hashes: [`zh:${sha256Hex(zip)}`], url: linux.filename });
    expect(await store.list(linux.provider)).toHaveLength(1);
  });

  test('are not read again until they change', async () => {
    await place(linux, Buffer.from('no zip'));
    await placeDocument(linux, { hashes: [h1], url: linux.filename });
    let asked = 0;
    const counting = { hash: async () => ({ reason: `no zip ${++asked}` }), close: async () => {} };
    const store = await DirectoryArchiveStore.open({ directory, hasher: counting as never, logger });
    for (let time = 0; time < 3; time += 1) expect(await store.find(linux)).toBeUndefined();
    expect(await store.list(linux.provider)).toEqual([]);
    expect(asked).toBe(1);
    await place(linux, Buffer.from('changed'));
    await Promise.all([store.find(linux), store.find(linux)]);
    expect(asked).toBe(2);
  });

  test.each([
    ['a pipe', (path: string) => void execFileSync('mkfifo', [path])],
    ['a directory', (path: string) => mkdir(path)],
    ['a link to itself', (path: string) => symlink(path, path)],
    ['a link that leads nowhere', (path: string) => symlink('/absent/file', path)],
  ])('%s in the place of a file counts as no file, and the others are served', async (_, make) => {
    const store = await openStore();
    await put(store, darwin, bytes);
    const other = archiveOf('terraform-provider-widget_2.0.0_linux_amd64.zip');
    const { provider, version } = other;
    for (const path of [paths.version(provider, version), paths.shasums(provider, version), paths.archive(other)]) {
      await make(join(directory, path));
    }
    expect(await store.find(other)).toBeUndefined();
    expect(await store.getRelease(provider, version)).toBeUndefined();
    expect((await store.list(provider)).map(({ archive }) => archive)).toEqual([darwin]);
  });

  test('a record under another name says nothing of the file', async () => {
    await place(linux, zip);
    await placeDocument(linux, { hashes: [`zh:${'0'.repeat(64)}`], url: 'https://cdn.example.com/x.zip', size: 3 });
    const store = await openStore();
    expect(await store.find(linux)).toBeUndefined();
    expect(existsSync(pathOf(linux))).toBe(true);
  });
});

describe('archives that were written to since they were stored', () => {
  const document = paths.version(linux.provider, linux.version);
  const rewrite = async (archive: ProviderArchive) => place(archive, await readFile(pathOf(archive)));
  /** By the clock of a file system two writes may be one. */
  const aMomentAgo = () => new Date(Date.now() - 1_000);

  test('are compared once, by whichever process, and then known by their new time', async () => {
    const log = recordingLogger();
    const open = () => DirectoryArchiveStore.open({ directory, hasher, logger: log });
    const compared = () => log.lines.filter(({ message }) => message.includes('is what it was')).length;
    await put(await open(), linux, bytes);
    await rewrite(linux);
    const store = await open();
    for (let time = 0; time < 3; time += 1) expect(await store.find(linux)).toMatchObject({ storedAt: LONG_AGO });
    expect(await (await open()).find(linux)).toMatchObject({ storedAt: LONG_AGO });
    expect(compared()).toBe(1);
    expect((await json(document)).archives.linux_amd64.mtime).toBe(LONG_AGO.getTime());
  });

  test('are put into quarantine when they are altered, and that is said', async () => {
    const store = await openStore();
    await put(store, linux, bytes);
    await put(store, darwin, bytes);
    await place(linux, altered(bytes));
    expect(await store.find(linux)).toBeUndefined();
    expect(existsSync(pathOf(linux))).toBe(false);
    expect(Object.keys((await json(document)).archives)).toEqual(['darwin_arm64']);
    expect(await readdir(join(directory, paths.quarantine))).toHaveLength(1);
    expect(warnings).toEqual([expect.stringContaining('altered')]);
  });

  test('are left in their place while they may still be being written, and not found meanwhile', async () => {
    const store = await openStore();
    await put(store, linux, bytes);
    await place(linux, altered(bytes), aMomentAgo());
    for (let time = 0; time < 2; time += 1) expect(await store.find(linux)).toBeUndefined();
    expect(await store.adopt(linux, { sha256: sha256Hex(bytes) })).toBeUndefined();
    expect(altered(bytes).equals(await readFile(pathOf(linux)))).toBe(true);
    await place(linux, bytes, new Date());
    expect(await store.find(linux)).toMatchObject({ sha256: sha256Hex(bytes) });
    expect(warnings).toEqual([]);
  });

  test('are not read when that happens after they were found', async () => {
    const store = await openStore();
    const stored = await put(store, linux, bytes);
    await place(linux, altered(bytes), aMomentAgo());
    await expect(store.read(stored)).rejects.toMatchObject({ gone: true });
    await place(linux, bytes);
    expect(bytes.equals(await buffer(await store.read(stored)))).toBe(true);
  });

  test('are known without a comparison once they were verified', async () => {
    await put(await openStore(), linux, bytes);
    await rewrite(linux);
    const store = await openStore();
    expect(await store.verify((await store.peek(linux)) as StoredArchive)).toBe(true);
    expect((await json(document)).archives.linux_amd64.mtime).toBe(LONG_AGO.getTime());
  });

  test('are not named again when they are discarded while they are compared', async () => {
    const store = await openStore();
    for (const archive of [linux, darwin]) await put(store, archive, bytes);
    for (const archive of [linux, darwin]) await rewrite(archive);
    const comparing = [linux, darwin].map((archive) => store.find(archive));
    await store.discard(darwin);
    await Promise.all(comparing);
    expect(Object.keys((await json(document)).archives)).toEqual(['linux_amd64']);
  });

  test('count as known where an older record does not tell their time, which is noted when they are verified', async () => {
    await put(await openStore(), linux, bytes);
    const path = join(directory, document);
    const entry = (await json(document)).archives.linux_amd64;
    await placeDocument(linux, { hashes: entry.hashes, url: entry.url, size: entry.size });
    const older = await readFile(path, 'utf8');
    await rewrite(linux);
    const store = await openStore();
    const stored = await store.find(linux);
    expect(stored).toMatchObject({ storedAt: LONG_AGO });
    expect(await readFile(path, 'utf8')).toBe(older);
    expect(await store.verify(stored as StoredArchive)).toBe(true);
    expect((await json(document)).archives.linux_amd64.mtime).toBe(LONG_AGO.getTime());
  });

  test('are served where nothing can be written down', async () => {
    await put(await openStore(), linux, bytes);
    await rewrite(linux);
    const store = await openStore();
    // What stands in the way of every new document, also for root.
    await rm(join(directory, paths.partial), { recursive: true });
    await writeFile(join(directory, paths.partial), '');
    for (let time = 0; time < 2; time += 1) {
      const stored = (await store.find(linux)) as StoredArchive;
      expect(bytes.equals(await buffer(await store.read(stored)))).toBe(true);
    }
    expect((await json(document)).archives.linux_amd64.mtime).not.toBe(LONG_AGO.getTime());
  });

  test('are given to nobody where what is altered cannot be put aside', async () => {
    const store = await openStore();
    const stored = await put(store, linux, bytes);
    await place(linux, altered(bytes));
    await rm(join(directory, paths.partial), { recursive: true });
    await writeFile(join(directory, paths.partial), '');
    for (let time = 0; time < 2; time += 1) expect(await store.find(linux)).toBeUndefined();
    await expect(store.read(stored)).rejects.toMatchObject({ gone: true });
    expect(warnings).toEqual([expect.stringContaining('altered'), expect.stringContaining('stays')]);
  });

  test('are compared one after the other when there are many, and all of them are found', async () => {
    const many = Array.from({ length: 12 }, (_, index) =>
      archiveOf(`terraform-provider-widget_1.${index}.0_linux_amd64.zip`),
    );
    const store = await openStore();
    for (const archive of many) await put(store, archive, bytes);
    for (const [index, archive] of many.entries()) await place(archive, index === 7 ? altered(bytes) : bytes);
    expect(await store.list(linux.provider)).toHaveLength(12);
    const found = await Promise.all(many.map((archive) => store.find(archive)));
    expect(found.map((stored) => stored?.sha256 === sha256Hex(bytes))).toEqual(many.map((_, index) => index !== 7));
  });

  test('are not put aside when they were purged and fetched anew while others were compared', async () => {
    const store = await DirectoryArchiveStore.open({ directory, hasher, logger, patienceMs: 50 });
    const ofGadget = (version: string) =>
      archiveOf(`terraform-provider-gadget_${version}_linux_amd64.zip`, 'registry.example.com/acme/gadget');
    const [first, last] = [ofGadget('1.0.0'), ofGadget('2.0.0')];
    for (const archive of [first, linux, last]) await put(store, archive, bytes);
    await rewrite(first);
    await rewrite(last);
    await place(linux, altered(bytes));
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const locks = new DirectoryLocks({ directory: join(directory, paths.locks) });
    // What is first cannot be noted meanwhile.
    let hold = () => {};
    const held = new Promise<void>((resolve) => {
      hold = resolve;
    });
    const holding = locks.hold(paths.provider(first.provider), () => {
      hold();
      return released;
    });
    await held;
    for (const archive of [first, linux, last]) await expect(store.find(archive)).rejects.toMatchObject({ busy: true });
    await store.discard(linux);
    const anew = await put(store, linux, randomBytes(bytes.length));
    // Nobody could still be writing it.
    const at = new Date(LONG_AGO.getTime() + 1_000);
    await utimes(pathOf(linux), at, at);
    expect(await store.verify(anew)).toBe(true);
    release();
    await holding;
    await expect.poll(() => store.find(last).catch(() => undefined), { timeout: 10_000 }).toBeDefined();
    expect(await store.find(linux)).toEqual({ ...anew, storedAt: at });
    expect(existsSync(join(directory, paths.quarantine))).toBe(false);
    expect(warnings).toEqual([]);
  });

  test('are waited for as long as was said, and to the end where nothing was', async () => {
    await put(await openStore(), linux, randomBytes(20_000_000));
    await rewrite(linux);
    const hasty = await DirectoryArchiveStore.open({ directory, hasher, logger, patienceMs: 0 });
    await expect(hasty.find(linux)).rejects.toMatchObject({ busy: true });
    await hasty.close();
    expect(await (await openStore()).find(linux)).toMatchObject({ storedAt: LONG_AGO });
  });

  test('are not compared any more when the store is closed', async () => {
    const store = await openStore();
    await put(store, linux, bytes);
    await rewrite(linux);
    await store.close();
    await expect(store.find(linux)).rejects.toMatchObject({ code: 'STORAGE_FAILED', busy: true });
  });
});

describe('partial files', () => {
  const partial = (name: string) => join(directory, paths.partial, name);
  const name = (host: string, pid: number) => `${host}-${pid}-${randomUUID()}`;

  test('what dead processes left is swept, what living ones write is not', async () => {
    const child = spawn(process.execPath, ['-e', '']);
    await once(child, 'exit');
    const dead = name(hostname(), child.pid as number);
    const predecessor = name(hostname(), process.pid);
    const ancient = name('another-host', 1);
    const living = [name(hostname(), process.ppid), name(hostname(), process.pid), name('another-host', 1), 'foreign'];
    await mkdir(join(directory, paths.partial));
    for (const file of [dead, predecessor, ancient, ...living]) await writeFile(partial(file), 'partial');
    const aWhileAgo = new Date(Date.now() - process.uptime() * 1000 - 60_000);
    await utimes(partial(predecessor), aWhileAgo, aWhileAgo);
    await utimes(partial(ancient), LONG_AGO, LONG_AGO);
    await openStore();
    expect((await readdir(join(directory, paths.partial))).sort()).toEqual(living.sort());
  });

  test('a crash after the archive is in place leaves no archive without a record, until it is compared', async () => {
    const store = await openStore();
    await put(store, linux, bytes);
    await rm(join(directory, paths.version(linux.provider, linux.version)));
    expect(await store.find(linux)).toBeUndefined();
    expect(await store.adopt(linux, { sha256: sha256Hex(bytes) })).toBeDefined();
  });
});

describe('a failing disk', () => {
  const hasTmpfs = canMount();

  test.skipIf(!hasTmpfs)('R83: a full disk fails the write, keeps what is stored and heals by itself', async () => {
    const store = await openStore();
    const usual = directory;
    const before = await onSmallDisk(async (small) => {
      directory = small;
      const full = await openStore();
      const kept = await put(full, darwin, bytes);
      const incoming = await full.receive(linux);
      const write = async () => {
        for (let written = 0; written < 16; written += 1) await incoming.write(randomBytes(1024 ** 2));
      };
      await expect(write()).rejects.toMatchObject({ code: 'STORAGE_FAILED', full: true });
      await incoming.abort();
      expect(await readdir(join(small, paths.partial))).toEqual([]);
      expect(await full.find(linux)).toBeUndefined();
      expect(bytes.equals(await buffer(await full.read((await full.find(darwin)) as StoredArchive)))).toBe(true);
      expect(await put(full, linux, bytes)).toMatchObject({ size: bytes.length });
      return kept;
    }).finally(() => {
      directory = usual;
    });
    expect(before.size).toBe(bytes.length);
    await store.close();
  });

  if (!hasTmpfs) console.warn('not tested: a full disk (needs the right to mount a tmpfs)');

  test('a data directory that cannot be made is said, by code', async () => {
    await writeFile(join(directory, 'file'), '');
    await expect(
      DirectoryArchiveStore.open({ directory: join(directory, 'file'), hasher, logger }),
    ).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  });

  test('a cleared away directory for partial files is made again, for all who write at once', async () => {
    const store = await openStore();
    await rm(join(directory, paths.partial), { recursive: true });
    const both = await Promise.all([linux, darwin].map((archive) => put(store, archive, bytes)));
    expect(both.map(({ size }) => size)).toEqual([bytes.length, bytes.length]);
  });

  test('check rejects when nothing can be written', async () => {
    const store = await openStore();
    await store.check();
    await rm(directory, { recursive: true });
    await expect(store.check()).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  });
});
