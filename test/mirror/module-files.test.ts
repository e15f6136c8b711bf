import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readModuleFiles } from '../../src/mirror/module-files.ts';
import { releaseOf } from '../contract/module-store.ts';
import { type ModuleFiles, moduleTarGz } from '../support/module-archive.ts';

const ADDRESS = 'registry.example.com/acme/net/aws';
const release = releaseOf('1.0.0', ADDRESS);

const read = (files: ModuleFiles, { subdir = '', calledSubdir }: { subdir?: string; calledSubdir?: string } = {}) =>
  readModuleFiles({ release, subdir, calledSubdir }, Readable.from([moduleTarGz(files)]));

describe('the configuration of a package', () => {
  it('is every file of it that is configuration, with the module before its path', async () => {
    const { files, directory } = await read({
      'main.tf': 'main',
      'README.md': '# net',
      'modules/a/versions.tofu.json': '{}',
      'x.tfvars.json': '{}',
      'bin/tool': Buffer.alloc(300_000, 1),
      'a.tf': 'Größe',
    });
    expect(files.map(({ path }) => path).sort()).toEqual([
      `${ADDRESS}@1.0.0/a.tf`,
      `${ADDRESS}@1.0.0/main.tf`,
      `${ADDRESS}@1.0.0/modules/a/versions.tofu.json`,
    ]);
    expect(files.find(({ path }) => path.endsWith('/a.tf'))?.text).toBe('Größe');
    expect(directory).toBe(`${ADDRESS}@1.0.0`);
  });

  it.each([
    ['', undefined, ''],
    ['modules/vpc', undefined, '/modules/vpc'],
    ['', 'modules/edge', '/modules/edge'],
    ['src', 'modules/edge', '/src/modules/edge'],
  ])('of %j, called as %j, is in %j', async (subdir, calledSubdir, expected) => {
    const { directory } = await read({ 'main.tf': '' }, { subdir, ...(calledSubdir && { calledSubdir }) });
    expect(directory).toBe(`${ADDRESS}@1.0.0${expected}`);
  });

  it('is read however small its pieces come', async () => {
    const bytes = moduleTarGz({ 'main.tf': 'x'.repeat(5_000), 'other.tf': 'y' });
    const pieces = Array.from({ length: bytes.length }, (_, at) => bytes.subarray(at, at + 1));
    const { files } = await readModuleFiles({ release, subdir: '', calledSubdir: undefined }, Readable.from(pieces));
    expect(files.map(({ text }) => text.length)).toEqual([5_000, 1]);
  });

  it('is refused beyond 16 MiB, whatever it is packed to', async () => {
    const bomb = read({ 'main.tf': Buffer.alloc(16 * 1024 * 1024 + 1) });
    await expect(bomb).rejects.toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringMatching(/16777216 bytes/),
    });
  });

  it.each([
    ['no archive', Buffer.from('<html>')],
    ['cut short', moduleTarGz({ 'main.tf': 'x'.repeat(9_000) }).subarray(0, 60)],
    ['no tar', gzipSync(Buffer.alloc(1024, 'x'))],
  ])('of a package that is %s is told to be damaged, and its stream is closed', async (_what, bytes) => {
    const stream = Readable.from([bytes]);
    const reading = readModuleFiles({ release, subdir: '', calledSubdir: undefined }, stream);
    await expect(reading).rejects.toMatchObject({ code: 'UPSTREAM_INVALID' });
    await expect(reading).rejects.toThrow(/acme\/net\/aws 1\.0\.0/);
    expect(stream.destroyed).toBe(true);
  });

  it('that breaks off is told as trouble of the disk', async () => {
    const trouble = Object.assign(new Error('EIO: read'), { code: 'EIO', syscall: 'read' });
    const stream = new Readable({ read: () => stream.destroy(trouble) });
    const reading = readModuleFiles({ release, subdir: '', calledSubdir: undefined }, stream);
    await expect(reading).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  });
});
