import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { silentLogger } from '../../src/logger.ts';
import { Export, type Exported, type ExportOptions } from '../../src/mirror/export.ts';
import { StoredSource } from '../../src/mirror/stored-source.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { ExportDirectory } from '../../src/store/export-directory.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { sha256Hex } from '../contract/archive-store.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
import { canMount, onSmallDisk } from '../store/small-disk.ts';
import { afterTest } from '../support/after-test.ts';
import { smallProviderZip } from '../support/provider-zip.ts';

async function directory(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'larder-export-'));
  afterTest(() => rm(made, { recursive: true, force: true }));
  return made;
}

const HOST = 'registry.example.com';
const LONG_AGO = new Date('2024-01-01T00:00:00Z');

async function begin() {
  const data = await directory();
  const hasher = new PackageHasher();
  afterTest(() => hasher.close());
  const store = await DirectoryArchiveStore.open({ directory: data, hasher, logger: silentLogger });
  const modules = await DirectoryModuleStore.open({ directory: data, logger: silentLogger });
  const source = new StoredSource({ store, modules, directory: data });
  const put = async (
    version: string,
    { host = HOST, platform = 'linux_amd64', sizeBytes = undefined as number | undefined } = {},
  ) => {
    const provider = ProviderAddress.parse(`${host}/acme/widget`);
    const archive = new ProviderArchive(provider, Version.parse(version), Platform.parse(platform));
    const { bytes } = await smallProviderZip({ type: 'widget', version, platform });
    const content = Buffer.concat([...bytes.read(0, bytes.size), Buffer.alloc(sizeBytes ?? 0)]);
    const incoming = await store.receive(archive);
    await incoming.write(content);
    return incoming.commit(sha256Hex(content));
  };
  const run = async (target: string, options: Partial<ExportOptions> = {}, from = source): Promise<Exported[]> => {
    const { dryRun = false } = options;
    const exported = await ExportDirectory.open({ directory: target, dryRun, logger: silentLogger });
    const all: Exported[] = [];
    try {
      const settings = { dryRun, link: false, ...options };
      for await (const one of new Export({ source: from, directory: exported, options: settings }).run()) all.push(one);
    } finally {
      await exported.close();
    }
    return all;
  };
  return { data, store, modules, source, put, run };
}

const outcomes = (all: readonly Exported[]) => all.map(({ outcome }) => outcome);
const json = async (...path: string[]) => JSON.parse(await readFile(join(...path), 'utf8'));

describe('an export', () => {
  it('holds what is stored, and what a web server has to say of it', async () => {
    const { put, modules, run } = await begin();
    await put('1.0.0');
    await put('1.1.0');
    await putPackage(modules, releaseOf('1.0.0'), Buffer.from('package'), { subdir: 'modules/a b' });
    const target = await directory();
    expect(outcomes(await run(target))).toEqual(['copied', 'copied', 'copied']);
    const home = join(target, 'providers', HOST, 'acme/widget');
    expect(await json(home, 'index.json')).toEqual({ versions: { '1.0.0': {}, '1.1.0': {} } });
    expect((await json(home, '1.0.0.json')).archives.linux_amd64).toEqual({
      hashes: [expect.stringMatching(/^h1:/), expect.stringMatching(/^zh:/)],
      size: expect.any(Number),
      url: 'terraform-provider-widget_1.0.0_linux_amd64.zip',
    });
    const base = join(target, 'registry', HOST, 'v1/modules/acme/net/aws');
    expect(await json(base, 'versions')).toEqual({ modules: [{ versions: [{ version: '1.0.0' }] }] });
    expect((await json(base, '1.0.0/download')).location).toBe(
      `../../../../../../../../modules/${HOST}/acme/net/aws/1.0.0.tar.gz//modules/a b?checksum=sha256:${sha256Hex(Buffer.from('package'))}`,
    );
    expect((await json(target, 'larder-export.json')).archives).toHaveLength(2);
    expect(await readdir(target)).not.toContain('partial');
  });

  it('writes nothing again that is there, and adds to what an earlier one put there', async () => {
    const { put, run } = await begin();
    await put('1.0.0');
    const target = await directory();
    await run(target);
    const file = join(target, 'providers', HOST, 'acme/widget/terraform-provider-widget_1.0.0_linux_amd64.zip');
    const before = await stat(file);
    const index = join(target, 'providers', HOST, 'acme/widget/index.json');
    const untouched = await stat(index);
    expect(outcomes(await run(target))).toEqual(['unchanged']);
    expect((await stat(file)).ino).toBe(before.ino);
    expect((await stat(index)).ino).toBe(untouched.ino);

    const other = await begin();
    await other.put('2.0.0');
    expect(outcomes(await other.run(target))).toEqual(['copied']);
    expect(Object.keys((await json(index)).versions)).toEqual(['1.0.0', '2.0.0']);
  });

  it('replaces what is not what it should be, and goes on after an interruption without copying again', async () => {
    const { put, run, source } = await begin();
    await put('1.0.0');
    await put('1.1.0');
    const target = await directory();
    const exported = await ExportDirectory.open({ directory: target, dryRun: false, logger: silentLogger });
    // Broken off after the first: no document speaks of it, and no manifest.
    for await (const _ of new Export({ source, directory: exported, options: { dryRun: false, link: false } }).run())
      break;
    expect(outcomes(await run(target)).sort()).toEqual(['copied', 'unchanged']);

    const file = join(target, 'providers', HOST, 'acme/widget/terraform-provider-widget_1.0.0_linux_amd64.zip');
    const bytes = await readFile(file);
    await writeFile(file, Buffer.alloc(bytes.length));
    await rm(join(target, 'larder-export.json'));
    expect(outcomes(await run(target)).sort()).toEqual(['copied', 'unchanged']);
    expect((await readFile(file)).equals(bytes)).toBe(true);
  });

  it('leaves no place for unfinished files behind, also when the process ends at once', async () => {
    const target = await mkdtemp(join(tmpdir(), 'larder-ended-'));
    afterTest(() => rm(target, { recursive: true, force: true }));
    const options = { directory: target, dryRun: false, logger: silentLogger };
    (await ExportDirectory.open(options)).closeAtOnce();
    expect(await readdir(target)).toEqual([]);
    // What another one is writing there stays.
    const ended = await ExportDirectory.open(options);
    await writeFile(join(target, 'partial', 'unfinished'), 'x');
    ended.closeAtOnce();
    expect(await readdir(join(target, 'partial'))).toEqual(['unfinished']);
  });

  it('makes links where it is told to, and writes nothing when it is only to tell', async () => {
    const { put, run, data } = await begin();
    await put('1.0.0');
    const target = await directory();
    expect(outcomes(await run(join(target, 'a'), { dryRun: true }))).toEqual(['would be copied']);
    expect(await readdir(target)).toEqual([]);
    expect(outcomes(await run(target, { link: true }))).toEqual(['linked']);
    const path = `providers/${HOST}/acme/widget/terraform-provider-widget_1.0.0_linux_amd64.zip`;
    expect((await stat(join(target, path))).ino).toBe((await stat(join(data, path))).ino);
  });

  it('tells what is damaged where it is stored, and carries the rest', async () => {
    const { put, run, data } = await begin();
    await put('1.0.0');
    await put('1.1.0');
    const name = 'terraform-provider-widget_1.0.0_linux_amd64.zip';
    const file = join(data, 'providers', HOST, 'acme/widget', name);
    const bytes = await readFile(file);
    const { mtime } = await stat(file);
    await writeFile(file, Buffer.alloc(bytes.length));
    await utimes(file, mtime, mtime);
    const target = await directory();
    for (const link of [false, true]) {
      const all = await run(target, { link });
      const failed = all.find(({ outcome }) => outcome === 'failed');
      expect(failed?.reason).toMatch(/damaged.*larder verify/);
    }
    expect(await readdir(join(target, 'providers', HOST, 'acme/widget'))).not.toContain(name);
    expect(Object.keys((await json(target, 'providers', HOST, 'acme/widget/index.json')).versions)).toEqual(['1.1.0']);
  });

  it('tells what was altered where it is stored, whose package hash is not known, and carries the rest', async () => {
    const { data, put, run } = await begin();
    await put('1.0.0');
    await put('1.1.0');
    const file = join(data, 'providers', HOST, 'acme/widget/terraform-provider-widget_1.0.0_linux_amd64.zip');
    const { size } = await stat(file);
    await writeFile(file, Buffer.alloc(size));
    await utimes(file, LONG_AGO, LONG_AGO);
    const all = await run(await directory());
    expect(outcomes(all)).toEqual(['failed', 'copied']);
    expect(all[0]?.reason).toMatch(/^it cannot be read: opening an archive failed/);
  });

  it('keeps the package hash of what it holds already when that is altered where it is stored', async () => {
    const { data, put, run } = await begin();
    await put('1.0.0');
    const target = await directory();
    await run(target);
    const home = join('providers', HOST, 'acme/widget');
    const document = await json(target, home, '1.0.0.json');
    const file = join(data, home, 'terraform-provider-widget_1.0.0_linux_amd64.zip');
    await writeFile(file, Buffer.alloc((await stat(file)).size));
    await utimes(file, LONG_AGO, LONG_AGO);
    expect(outcomes(await run(target))).toEqual(['unchanged']);
    expect(await json(target, home, '1.0.0.json')).toEqual(document);
    expect(document.archives.linux_amd64.hashes).toHaveLength(2);
  });

  it('reads what is stored as it was found, without looking for it anew', async () => {
    const { store, modules, put } = await begin();
    const stored = await put('1.0.0');
    const packed = await putPackage(modules, releaseOf('1.0.0'), Buffer.from('package'));
    const read: unknown[] = [];
    const seen = <T extends object>(of: T) =>
      new Proxy(of, {
        get: (target, name) => {
          const value = Reflect.get(target, name);
          if (typeof value !== 'function') return value;
          return (...given: unknown[]) => {
            if (name === 'read') read.push(given[0]);
            return value.apply(target, given);
          };
        },
      });
    const source = new StoredSource({ store: seen(store), modules: seen(modules), directory: undefined });
    for await (const carried of source.archives()) (await source.openArchive(carried)).destroy();
    for await (const carried of source.packages()) (await source.openPackage(carried)).destroy();
    expect(read).toMatchObject([{ storedAt: stored.storedAt }, { storedAt: packed.storedAt }]);
  });

  it('serves international names under the name that clients ask for, too, without a second copy', async () => {
    const { put, run } = await begin();
    await put('1.0.0', { host: 'bücher.example.com:8443' });
    const target = await directory();
    await run(target);
    expect((await readdir(join(target, 'providers'))).sort()).toEqual([
      'bücher.example.com:8443',
      'xn--bcher-kva.example.com:8443',
    ]);
    const ascii = join(target, 'providers/xn--bcher-kva.example.com:8443/acme/widget');
    expect((await readdir(ascii)).sort()).toEqual(['1.0.0.json', 'index.json']);
    const { url } = (await json(ascii, '1.0.0.json')).archives.linux_amd64;
    const found = new URL(url, 'https://mirror.test/providers/xn--bcher-kva.example.com:8443/acme/widget/1.0.0.json');
    const path = decodeURIComponent(found.pathname);
    expect((await stat(join(target, path))).size).toBeGreaterThan(0);
  });

  it.skipIf(!canMount())(
    'tells when the disk is full, leaves no half a file, and goes on when there is room',
    async () => {
      const { put, run } = await begin();
      await put('1.0.0', { sizeBytes: 5_000_000 });
      await put('1.1.0', { sizeBytes: 5_000_000 });
      await onSmallDisk(async (mount) => {
        const target = join(mount, 'export');
        await expect(run(target)).rejects.toMatchObject({ code: 'STORAGE_FAILED', full: true });
        const files = execFileSync('find', [target, '-name', '*.zip'], { encoding: 'utf8' }).trimEnd().split('\n');
        expect(files).toHaveLength(1);
        expect(execFileSync('find', [target, '-path', '*partial/*'], { encoding: 'utf8' })).toBe('');
        execFileSync('mount', ['-o', 'remount,size=32m', mount]);
        expect(outcomes(await run(target)).sort()).toEqual(['copied', 'unchanged']);
      });
    },
  );
});
