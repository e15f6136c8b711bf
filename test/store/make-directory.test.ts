import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { StorageFailed } from '../../src/errors.ts';
import { makeDirectory, mayNotWrite } from '../../src/store/make-directory.ts';
import { afterTest } from '../support/after-test.ts';

async function temporary(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-make-'));
  afterTest(() => rm(directory, { recursive: true }));
  return directory;
}

it('makes what is missing on the way, and is content with what is there, whoever made it meanwhile', async () => {
  const deep = join(await temporary(), 'a/b/c');
  await Promise.all([makeDirectory(deep, { mode: 0o700 }), makeDirectory(deep), makeDirectory(`${deep}/d`)]);
  await makeDirectory(deep);
  expect((await stat(`${deep}/d`)).isDirectory()).toBe(true);
});

it('ends where no directories can be made', async () => {
  const file = join(await temporary(), 'file');
  await writeFile(file, '');
  await expect(makeDirectory(file)).rejects.toMatchObject({ code: 'EEXIST' });
  await expect(makeDirectory(join(file, 'below'))).rejects.toMatchObject({ code: 'ENOTDIR' });
});

it.runIf(process.platform === 'linux')('ends where the file system lies about why', async () => {
  for (const path of ['/proc/larder', '/proc/larder/deep/down', '/proc/self/larder']) {
    await expect(makeDirectory(path)).rejects.toMatchObject({ syscall: 'mkdir' });
  }
});

it('knows the word of a file system that nothing may be written, and takes nothing else for it', () => {
  const failed = (code: unknown) => new StorageFailed('writing', Object.assign(new Error(), { code }));
  for (const code of ['EROFS', 'EACCES', 'EPERM', 30, 13, 1]) expect(mayNotWrite(failed(code)), `${code}`).toBe(true);
  for (const code of ['ENOSPC', 'EIO', 'EMFILE', 28, undefined])
    expect(mayNotWrite(failed(code)), `${code}`).toBe(false);
  expect(mayNotWrite(undefined)).toBe(false);
});
