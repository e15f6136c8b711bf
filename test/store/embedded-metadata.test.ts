import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { open } from 'lmdb';
import { afterAll, describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { EmbeddedKeyvStorage, openEmbeddedMetadata } from '../../src/store/embedded-keyv.ts';
import { metadataStoreContract } from '../contract/metadata-store.ts';
import { recordingLogger } from '../support/recording-logger.ts';

const HOUR_MS = 3_600_000;
const root = mkdtempSync(join(tmpdir(), 'larder-metadata-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let number = 0;
const unusedDirectory = () => join(root, String(number++), 'metadata');

const shared = unusedDirectory();
metadataStoreContract('the embedded store', () => openEmbeddedMetadata(shared, { logger: silentLogger }));

describe('the embedded store', () => {
  it('still has its entries after a restart', async () => {
    const directory = unusedDirectory();
    const first = await openEmbeddedMetadata(directory, { logger: silentLogger });
    await first.put('k', { value: 'kept', fetchedAt: 1 }, HOUR_MS);
    await first.close();

    const logger = recordingLogger();
    const second = await openEmbeddedMetadata(directory, { logger });
    expect((await second.get('k'))?.value).toBe('kept');
    await second.close();
    expect(logger.lines).toEqual([]);
  });

  // Each of these ends a process that opens or reads the file without looking first.
  it.each([
    ['holds something else', (file: string) => writeFileSync(file, Buffer.alloc(40_000, 'x'))],
    ['is far too short', (file: string) => writeFileSync(file, 'hello')],
    ['was cut', (file: string) => truncateSync(file, Math.floor(readFileSync(file).length / 2))],
    [
      'was overwritten after its first pages',
      (file: string) => {
        const bytes = readFileSync(file);
        writeFileSync(file, bytes.fill(0xff, 8_192));
      },
    ],
    [
      'is a directory',
      (file: string) => {
        rmSync(file);
        mkdirSync(file);
      },
    ],
  ])('begins anew, with a warning, when its file %s', async (_, damage) => {
    const directory = unusedDirectory();
    const before = await openEmbeddedMetadata(directory, { logger: silentLogger });
    for (let n = 0; n < 500; n++) await before.put(`k${n}`, { value: 'x'.repeat(900), fetchedAt: 1 }, HOUR_MS);
    await before.close();
    damage(join(directory, 'metadata.mdb'));

    const logger = recordingLogger();
    const store = await openEmbeddedMetadata(directory, { logger });
    try {
      expect(await store.get('k1')).toBeUndefined();
      await store.put('k1', { value: 'new', fetchedAt: 2 }, HOUR_MS);
      expect((await store.get('k1'))?.value).toBe('new');
    } finally {
      await store.close();
    }
    expect(logger.lines.map((line) => line.level)).toEqual(['warn']);
    expect(readdirSync(directory)).toContain('metadata.mdb.damaged');
  });

  it('R62: takes a damaged or foreign record for a miss', async () => {
    const directory = unusedDirectory();
    const store = await openEmbeddedMetadata(directory, { logger: silentLogger });
    const raw = open<string, string>({ path: join(directory, 'metadata.mdb'), noSubdir: true, encoding: 'string' });
    try {
      await store.put('moved', { value: 'of another key', fetchedAt: 1 }, HOUR_MS);
      const record = raw.get('larder::moved') ?? '';
      expect(record).toContain('of another key');
      raw.putSync('larder::elsewhere', record);
      raw.putSync('larder::altered', record.replace('another', 'no'));
      raw.putSync('larder::foreign', 'not one of ours');
      raw.putSync('larder::empty', '');
      for (const key of ['elsewhere', 'altered', 'foreign', 'empty']) expect(await store.get(key)).toBeUndefined();
      expect((await store.get('moved'))?.value).toBe('of another key');
    } finally {
      await raw.close();
      await store.close();
    }
  });

  it('refuses writes on a full disk, goes on reading, and takes them again when there is room', async () => {
    const file = join(root, 'full.mdb');
    const script = fileURLToPath(new URL('full-disk.ts', import.meta.url));
    // A limit on the size of files (in KiB, with its signal ignored) fails a write as a full disk does, without needing one.
    const limited = `ulimit -f 2048; trap '' XFSZ; exec "$0" --import tsx "$1" "$2"`;
    const { stdout } = await promisify(execFile)('bash', ['-c', limited, process.execPath, script, file]);
    expect(JSON.parse(stdout)).toEqual({ taken: true, refused: true, firstIsThere: true, works: true });
  });

  it('says why it cannot be opened', async () => {
    const file = join(root, 'occupied');
    writeFileSync(file, '');
    const opening = openEmbeddedMetadata(join(file, 'metadata'), { logger: silentLogger });
    await expect(opening).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  });

  it('does not take a lock file that cannot be opened for damaged metadata, nor end with it', async () => {
    const directory = unusedDirectory();
    const before = await openEmbeddedMetadata(directory, { logger: silentLogger });
    await before.put('k', { value: 'kept', fetchedAt: 1 }, HOUR_MS);
    await before.close();
    // For whoever may open everything, a directory in its place is what somebody else's file is for others.
    rmSync(join(directory, 'metadata.mdb-lock'));
    mkdirSync(join(directory, 'metadata.mdb-lock'));

    await expect(openEmbeddedMetadata(directory, { logger: silentLogger })).rejects.toMatchObject({
      code: 'STORAGE_FAILED',
    });
    expect(readdirSync(directory)).not.toContain('metadata.mdb.damaged');

    rmSync(join(directory, 'metadata.mdb-lock'), { recursive: true });
    const after = await openEmbeddedMetadata(directory, { logger: silentLogger });
    expect((await after.get('k'))?.value).toBe('kept');
    await after.close();
  });
});

describe('EmbeddedKeyvStorage', () => {
  const opened = (namespace: string | undefined) => {
    const directory = unusedDirectory();
    mkdirSync(directory, { recursive: true });
    const storage = new EmbeddedKeyvStorage(join(directory, 'm.mdb'));
    storage.namespace = namespace;
    return storage;
  };

  it('clears its own namespace and no other', async () => {
    const storage = opened('a');
    for (let n = 0; n < 250; n++) await storage.set(`k${n}`, 'of a');
    storage.namespace = 'b';
    await storage.set('k1', 'of b');
    storage.namespace = 'a';
    await storage.clear();
    expect(await storage.has('k1')).toBe(false);
    expect(await storage.has('k249')).toBe(false);
    storage.namespace = 'b';
    expect(await storage.get('k1')).toBe('of b');
    await storage.disconnect();
  });

  it('iterates over one namespace, without what has expired', async () => {
    const storage = opened('b');
    await storage.set('other', 'x');
    storage.namespace = 'a';
    for (let n = 0; n < 205; n++) await storage.set(`k${n}`, `v${n}`);
    await storage.set('gone', 'x', -1);
    const seen = new Map<string, string>();
    for await (const [key, value] of storage.iterator<string>('a')) seen.set(key, value);
    expect(seen.size).toBe(205);
    expect(seen.get('k204')).toBe('v204');
    await storage.disconnect();
  });

  it('prunes what has expired, of every namespace, and keeps the rest', async () => {
    const storage = opened('a');
    for (let n = 0; n < 250; n++) await storage.set(`old${n}`, 'x', -1);
    await storage.set('kept', 'x', HOUR_MS);
    await storage.set('for ever', 'x');
    storage.namespace = 'b';
    await storage.set('old', 'x', -1);
    await storage.prune();
    // Only what is really gone answers `false` here.
    expect(await storage.delete('old')).toBe(false);
    storage.namespace = 'a';
    expect(await storage.delete('old0')).toBe(false);
    expect(await storage.delete('old249')).toBe(false);
    expect(await storage.get('kept')).toBe('x');
    expect(await storage.get('for ever')).toBe('x');
    await storage.disconnect();
  });

  it('stops pruning when it is closed in the middle of it', async () => {
    const storage = opened('a');
    for (let n = 0; n < 1_000; n++) await storage.set(`old${n}`, 'x', -1);
    const pruning = storage.prune();
    await storage.disconnect();
    await expect(pruning).resolves.toBeUndefined();
  });
});
