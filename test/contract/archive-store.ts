import { createHash, randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { parseHash, parseSha256, type Sha256 } from '../../src/address/hash.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import type { ArchiveStore, StoredArchive } from '../../src/store/archive-store.ts';
import { expectedPackageHash, handMadeZip } from '../store/hand-made-zip.ts';

/** What a store is tested with. */
export interface ArchiveStoreFixture {
  readonly store: ArchiveStore;
  /** Another store over the same bytes, as another replica has it. */
  another(): Promise<ArchiveStore>;
  /** Names of what is lying about although nothing is arriving. */
  leftovers(): Promise<readonly string[]>;
  /** Makes the archive lose its last byte, long ago. */
  truncate(archive: ProviderArchive): Promise<void>;
  /** Changes one byte of the archive. */
  corrupt(archive: ProviderArchive): Promise<void>;
  /** The same, long ago, where the store is to notice it by itself. */
  readonly alter?: (archive: ProviderArchive) => Promise<void>;
  /** Writes the same bytes there once more. */
  readonly rewrite?: (archive: ProviderArchive) => Promise<void>;
  /** Puts a file in the archive's place, past the store, long ago. */
  place(archive: ProviderArchive, bytes: Buffer): Promise<void>;
  close(): Promise<void>;
}

export function archiveOf(filename: string, provider = 'registry.example.com/acme/widget'): ProviderArchive {
  return ProviderArchive.parseFilename(ProviderAddress.parse(provider), filename);
}

export function sha256Hex(bytes: Uint8Array): Sha256 {
  return parseSha256(createHash('sha256').update(bytes).digest('hex'));
}

/** The same with another byte in its middle. */
export function altered(bytes: Buffer): Buffer {
  const middle = bytes.length >> 1;
  return Buffer.concat([
    bytes.subarray(0, middle),
    Buffer.from([(bytes[middle] ?? 0) ^ 0xff]),
    bytes.subarray(middle + 1),
  ]);
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

export async function put(store: ArchiveStore, archive: ProviderArchive, bytes: Buffer): Promise<StoredArchive> {
  const incoming = await store.receive(archive);
  await incoming.write(bytes);
  return incoming.commit(sha256Hex(bytes));
}

const linux = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip');
const darwin = archiveOf('terraform-provider-widget_1.0.0_darwin_arm64.zip');
const newer = archiveOf('terraform-provider-widget_1.1.0-rc.1+build_linux_amd64.zip');
const bytes = randomBytes(300_000);

/** The promises of the ArchiveStore port, for any implementation. */
export function testArchiveStore(open: () => Promise<ArchiveStoreFixture>): void {
  let fixture: ArchiveStoreFixture;
  let store: ArchiveStore;

  beforeEach(async () => {
    fixture = await open();
    store = fixture.store;
  });

  afterEach(async () => {
    try {
      expect(await fixture.leftovers()).toEqual([]);
    } finally {
      await fixture.close();
    }
  });

  const names = async (provider = linux.provider) =>
    (await store.list(provider)).map(({ archive }) => archive.filename).sort();

  describe('present means committed', () => {
    test('nothing is there at first', async () => {
      expect(await store.find(linux)).toBeUndefined();
      expect(await store.list(linux.provider)).toEqual([]);
      expect(await collect(store.providers())).toEqual([]);
      expect(await store.adopt(linux, { sha256: sha256Hex(bytes) })).toBeUndefined();
      expect(await store.getRelease(linux.provider, linux.version)).toBeUndefined();
      await store.discard(linux);
      await store.check();
    });

    test('what is committed is found, here and by another replica', async () => {
      const stored = await put(store, linux, bytes);
      expect(stored).toMatchObject({ size: bytes.length, sha256: sha256Hex(bytes), h1: undefined });
      expect(Math.abs(Date.now() - stored.storedAt.getTime())).toBeLessThan(60_000);
      for (const one of [store, await fixture.another()]) {
        expect(await one.find(linux)).toEqual(stored);
        expect(await one.find(darwin)).toBeUndefined();
        expect(await one.list(linux.provider)).toEqual([stored]);
        expect((await collect(one.providers())).map(String)).toEqual([linux.provider.toString()]);
        expect(bytes.equals(await buffer(await one.read(stored)))).toBe(true);
      }
    });

    test('R24: what another replica has just stored is found, also by one that looked for it in vain a moment before', async () => {
      const replica = await fixture.another();
      expect(await store.find(linux)).toBeUndefined();
      const stored = await put(replica, linux, bytes);
      expect(await store.find(linux)).toEqual(stored);
    });

    test('R04: nothing that is arriving is found', async () => {
      const incoming = await store.receive(linux);
      await incoming.write(bytes);
      expect(await store.find(linux)).toBeUndefined();
      expect(await store.list(linux.provider)).toEqual([]);
      await incoming.abort();
      await incoming.abort();
      expect(await store.find(linux)).toBeUndefined();
    });

    test('R83: what there is no room for is refused before it arrives', async () => {
      const incoming = await store.receive(linux);
      await incoming.expect(bytes.length);
      await expect(incoming.expect(Number.MAX_SAFE_INTEGER)).rejects.toMatchObject({
        code: 'STORAGE_FAILED',
        full: true,
      });
      await incoming.abort();
    });

    test('what is arriving can be read as far as it has come, and also afterwards', async () => {
      const incoming = await store.receive(linux);
      const early = await incoming.openReader();
      const into = Buffer.alloc(200_000);
      expect(await early.read(into, 0)).toBe(0);
      await incoming.write(bytes.subarray(0, 100_000));
      const length = await early.read(into, 40_000);
      expect(into.subarray(0, length)).toEqual(bytes.subarray(40_000, 40_000 + length));
      await incoming.write(bytes.subarray(100_000));
      await incoming.commit(sha256Hex(bytes));
      const late = await incoming.openReader();
      for (const reader of [early, late]) {
        expect(await reader.read(into, 250_000)).toBe(50_000);
        expect(into.subarray(0, 50_000)).toEqual(bytes.subarray(250_000));
        await reader.close();
        await reader.close();
      }
      await incoming.abort();
      expect(await store.find(linux)).toBeDefined();
    });

    test('R24: two replicas that commit the same archive agree', async () => {
      const other = await fixture.another();
      await Promise.all([put(store, linux, bytes), put(other, linux, bytes)]);
      expect(await store.find(linux)).toEqual(await other.find(linux));
      expect(bytes.equals(await buffer(await other.read((await other.find(linux)) as StoredArchive)))).toBe(true);
    });

    test('many archives of a provider, committed at once, are all there', async () => {
      const archives = Array.from({ length: 12 }, (_, index) =>
        archiveOf(`terraform-provider-widget_1.${index % 3}.0_linux_arch${index}.zip`),
      );
      await Promise.all(archives.map((archive, index) => put(store, archive, Buffer.from(`bytes ${index}`))));
      expect(await names()).toEqual(archives.map(({ filename }) => filename).sort());
    });

    test('providers whose names begin alike are told apart', async () => {
      const other = archiveOf(
        'terraform-provider-widget-pro_1.0.0_linux_amd64.zip',
        'registry.example.com/acme/widget-pro',
      );
      const port = archiveOf(linux.filename, 'registry.example.com:8443/acme/widget');
      for (const archive of [linux, other, port]) await put(store, archive, Buffer.from(archive.toString()));
      expect(await names(other.provider)).toEqual([other.filename]);
      expect(await names(port.provider)).toEqual([port.filename]);
      expect((await collect(store.providers())).map(String).sort()).toEqual(
        [linux, other, port].map(({ provider }) => provider.toString()).sort(),
      );
    });
  });

  describe('reading', () => {
    test.each([
      [0, 0],
      [0, 299_999],
      [299_999, 299_999],
      [1_000, 200_000],
    ])('bytes %i to %i', async (start, end) => {
      const stored = await put(store, linux, bytes);
      expect(bytes.subarray(start, end + 1).equals(await buffer(await store.read(stored, { start, end })))).toBe(true);
    });

    test('goes on to the end when the archive is discarded meanwhile', async () => {
      const large = randomBytes(3_000_000);
      const stream = await store.read(await put(store, linux, large));
      await store.discard(linux);
      expect(large.equals(await buffer(stream))).toBe(true);
      expect(await store.find(linux)).toBeUndefined();
    });

    test('what is gone is an error, not an empty stream', async () => {
      const stored = await put(store, linux, bytes);
      await store.discard(linux);
      await expect(store.read(stored)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    });
  });

  describe('discarding and damage', () => {
    test('discards one archive and keeps the others', async () => {
      for (const archive of [linux, darwin, newer]) await put(store, archive, bytes);
      await store.discard(darwin);
      await store.discard(darwin);
      expect(await names()).toEqual([linux.filename, newer.filename]);
      await store.discard(linux);
      await store.discard(newer);
      expect(await names()).toEqual([]);
      expect(await collect(store.providers())).toEqual([]);
    });

    test('an archive that has lost its size is not found, and can be stored anew', async () => {
      await put(store, linux, bytes);
      await fixture.truncate(linux);
      expect(await store.find(linux)).toBeUndefined();
      expect(await names()).toEqual([]);
      const stored = await put(store, linux, bytes);
      expect(await store.find(linux)).toEqual(stored);
    });

    test('an archive that was altered is neither found nor read, and can be stored anew', async ({ skip }) => {
      if (!fixture.alter) return skip();
      const listed = await put(store, linux, bytes);
      await fixture.alter(linux);
      const replica = await fixture.another();
      await expect(replica.read(listed)).rejects.toMatchObject({ code: 'STORAGE_FAILED', gone: true });
      expect(await replica.find(linux)).toBeUndefined();
      expect(await replica.list(linux.provider)).toEqual([]);
      expect(await replica.adopt(linux)).toBeUndefined();
      const stored = await put(replica, linux, bytes);
      expect(await replica.find(linux)).toEqual(stored);
      expect(bytes.equals(await buffer(await replica.read(stored)))).toBe(true);
    });

    test('an archive that was altered gets no package hash', async ({ skip }) => {
      if (!fixture.alter) return skip();
      const stored = await put(store, linux, handMadeZip([{ name: 'terraform-provider-widget', content: 'binary' }]));
      await fixture.alter(linux);
      await expect((await fixture.another()).computePackageHash(stored)).rejects.toMatchObject({
        code: 'STORAGE_FAILED',
      });
    });

    test('an archive that was written to and is what it was stays, with all that is known of it', async ({ skip }) => {
      if (!fixture.rewrite) return skip();
      const first = await put(store, linux, bytes);
      const h1 = parseHash(expectedPackageHash([]));
      await store.putPackageHash(first, h1);
      await fixture.rewrite(linux);
      const replica = await fixture.another();
      const all = await Promise.all(Array.from({ length: 4 }, () => replica.find(linux)));
      for (const stored of all) expect(stored).toMatchObject({ sha256: sha256Hex(bytes), h1 });
      expect(bytes.equals(await buffer(await replica.read(first)))).toBe(true);
      expect(await replica.list(linux.provider)).toEqual([all[0]]);
    });

    test('what only looks is told of what would be compared', async ({ skip }) => {
      if (!fixture.alter) return skip();
      const stored = await put(store, linux, bytes);
      await fixture.alter(linux);
      const seen = await (await fixture.another()).peek(linux);
      expect(seen).toMatchObject({ size: bytes.length, sha256: stored.sha256 });
      expect(await store.verify(stored)).toBe(false);
    });

    test('verify notices one changed byte, a lost byte and a lost file', async () => {
      const stored = await put(store, linux, bytes);
      expect(await store.verify(stored)).toBe(true);
      await fixture.corrupt(linux);
      expect(await store.verify(stored)).toBe(false);
      await fixture.truncate(linux);
      expect(await store.verify(stored)).toBe(false);
      await store.discard(linux);
      expect(await store.verify(stored)).toBe(false);
    });
  });

  describe('adopting', () => {
    test('a file with the expected digest becomes a stored archive', async () => {
      await fixture.place(linux, bytes);
      expect(await store.find(linux)).toBeUndefined();
      const stored = await store.adopt(linux, { sha256: sha256Hex(bytes) });
      expect(stored).toMatchObject({ size: bytes.length, sha256: sha256Hex(bytes) });
      expect(await store.find(linux)).toEqual(stored);
      expect(await store.adopt(linux)).toEqual(stored);
    });

    test('a file of which nothing is known is left alone', async () => {
      await fixture.place(linux, bytes);
      expect(await store.adopt(linux)).toBeUndefined();
      expect(await store.list(linux.provider)).toEqual([]);
      expect(await store.adopt(linux, { sha256: sha256Hex(bytes) })).toBeDefined();
    });

    test('a file with another digest is discarded', async () => {
      await fixture.place(linux, bytes);
      expect(await store.adopt(linux, { sha256: sha256Hex(Buffer.from('other')) })).toBeUndefined();
      expect(await store.adopt(linux, { sha256: sha256Hex(bytes) })).toBeUndefined();
    });
  });

  describe('what is kept beside', () => {
    const version = Version.parse('1.0.0');
    const shasums = Buffer.from(`${sha256Hex(bytes)}  ${linux.filename}\n`);

    test('SHA256SUMS, signature and statement, byte for byte, also before the first archive', async () => {
      const signature = randomBytes(566);
      await store.putRelease(linux.provider, version, { shasums, signature });
      await store.putRelease(linux.provider, version, { shasums, signature });
      expect(await store.getRelease(linux.provider, version)).toEqual({ shasums, signature });
      const statement = randomBytes(20);
      await store.putRelease(linux.provider, version, { shasums, signature, statement });
      expect(await store.getRelease(linux.provider, version)).toEqual({ shasums, signature, statement });
      expect(await store.getRelease(linux.provider, newer.version)).toBeUndefined();
      expect(await store.list(linux.provider)).toEqual([]);
    });

    test('versions of which there are checksums are told, and their provider is there', async () => {
      expect(await store.releases(linux.provider)).toEqual([]);
      for (const { version } of [linux, newer]) {
        await store.putRelease(linux.provider, version, { shasums, signature: randomBytes(10) });
      }
      for (const one of [store, await fixture.another()]) {
        expect((await one.releases(linux.provider)).map(String).sort()).toEqual(['1.0.0', newer.version.toString()]);
        expect((await collect(one.providers())).map(String)).toEqual([linux.provider.toString()]);
      }
    });

    test('checksums can be discarded, archives and other versions stay', async () => {
      await put(store, linux, bytes);
      for (const { version } of [linux, newer]) {
        const [signature, statement] = [randomBytes(10), randomBytes(10)];
        await store.putRelease(linux.provider, version, { shasums, signature, statement });
      }
      await store.discardRelease(linux.provider, linux.version);
      await store.discardRelease(linux.provider, linux.version);
      expect(await store.getRelease(linux.provider, linux.version)).toBeUndefined();
      expect((await store.releases(linux.provider)).map(String)).toEqual([newer.version.toString()]);
      expect(await names()).toEqual([linux.filename]);
      await store.putRelease(linux.provider, linux.version, { shasums, signature: undefined });
      expect(await store.getRelease(linux.provider, linux.version)).toEqual({ shasums, signature: undefined });
    });

    test('SHA256SUMS without a signature', async () => {
      await store.putRelease(linux.provider, version, { shasums, signature: undefined });
      expect(await store.getRelease(linux.provider, version)).toEqual({ shasums, signature: undefined });
    });

    test('SHA256SUMS that has lost its signature does not get that of its predecessor', async () => {
      await store.putRelease(linux.provider, version, { shasums, signature: Buffer.from('signature') });
      const longer = Buffer.concat([shasums, Buffer.from('more\n')]);
      await store.putRelease(linux.provider, version, { shasums: longer, signature: undefined });
      expect(await store.getRelease(linux.provider, version)).toEqual({ shasums: longer, signature: undefined });
    });

    test('R17: the package hash, computed and remembered', async () => {
      const zip = handMadeZip([
        { name: 'docs/' },
        { name: 'terraform-provider-widget_v1.0.0', content: 'binary', deflate: true },
      ]);
      const stored = await put(store, linux, zip);
      await put(store, darwin, bytes);
      const file = ['terraform-provider-widget_v1.0.0', 'binary'] as const;
      const computed = await store.computePackageHash(stored);
      expect(computed).toEqual({
        zip: expectedPackageHash([['docs/', ''], file]),
        unpacked: expectedPackageHash([file]),
      });
      const h1 = computed?.zip;
      if (!h1) return;
      await store.putPackageHash(stored, h1);
      expect(await store.find(linux)).toEqual({ ...stored, h1 });
      expect(await (await fixture.another()).find(linux)).toEqual({ ...stored, h1 });
      expect(await store.find(darwin)).toMatchObject({ h1: undefined });
    });

    test('R02: a package hash that was computed of other bytes is not remembered', async () => {
      const before = await put(store, linux, Buffer.concat([bytes, bytes]));
      await store.discard(linux);
      const stored = await put(store, linux, bytes);
      await store.putPackageHash(before, parseHash(expectedPackageHash([])));
      expect(await store.find(linux)).toEqual(stored);
    });

    test('R02: what is no zip has no package hash', async () => {
      expect(await store.computePackageHash(await put(store, linux, bytes))).toBeUndefined();
    });
  });

  describe('keeping house', () => {
    test('it is known when an archive was last used; looking at it is no use, nor is carrying it away', async () => {
      const stored = await put(store, linux, bytes);
      expect(await store.lastUse(stored)).toEqual(stored.storedAt);
      await store.find(linux);
      await store.list(linux.provider);
      await store.verify(stored);
      await store.computePackageHash(stored);
      await buffer(await store.read(stored, undefined, 'look'));
      expect(await store.lastUse(stored)).toEqual(stored.storedAt);
      const before = Date.now();
      await buffer(await store.read(stored, { start: 0, end: 9 }));
      expect((await store.lastUse(stored)).getTime()).toBeGreaterThanOrEqual(before);
      expect(await store.find(linux)).toEqual(stored);
    });

    test('what is put into quarantine is not there any more, and can come anew', async () => {
      const stored = await put(store, linux, bytes);
      await put(store, darwin, bytes);
      await fixture.corrupt(linux);
      expect(await store.quarantine(stored, 'damaged')).toMatch(/^\d{8}T\d{6}Z-[0-9a-f]{8}$/);
      expect(await store.find(linux)).toBeUndefined();
      expect(await names()).toEqual([darwin.filename]);
      expect(await store.adopt(linux, { sha256: sha256Hex(bytes) })).toBeUndefined();
      expect(await store.quarantine(stored, 'damaged')).toBeUndefined();
      const again = await put(store, linux, bytes);
      expect(await store.verify(again)).toBe(true);
    });
  });
}
