import { readdir } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { FileTree } from '../../../src/upstream/module-package/file-tree.ts';
import { addText, bytes, contentsOf, emptyTree, filesOf, HOST } from './packing.ts';

const REFUSED = { code: 'UPSTREAM_INVALID', host: HOST };

describe('paths are read as archives write them', () => {
  test.each([
    ['./main.tf', 'main.tf'],
    ['modules//x/./main.tf', 'modules/x/main.tf'],
    ['a b/ö 😀.tf', 'a b/ö 😀.tf'],
    ['back\\slash', 'back\\slash'],
    ['...', '...'],
  ])('%j is %j', async (given, path) => {
    const tree = await emptyTree();
    await addText(tree, given, 'x');
    expect((await contentsOf(tree))[path]).toBe('x');
  });

  test('the root and a slash at the end of a directory are nothing special', async () => {
    const tree = await emptyTree();
    tree.addDirectory('./');
    tree.addDirectory('modules/');
    expect(await contentsOf(tree)).toEqual({ modules: '/' });
  });

  test.each([
    '/etc/passwd',
    'C:\\Windows\\x',
    'c:/x',
    '\\\\server\\share',
    '../x',
    'a/../../x',
    'a/..',
    '..\\x',
    'a\0b',
    'a\nb',
    'a\x7fb',
    `${'d/'.repeat(2048)}x`,
    'n'.repeat(256),
  ])('%j is refused, whatever it is the path of', async (path) => {
    const tree = await emptyTree();
    const shown = JSON.stringify(path).slice(1, 20);
    await expect(addText(tree, path, 'x')).rejects.toMatchObject(REFUSED);
    await expect(addText(tree, path, 'x')).rejects.toThrow(shown);
    expect(() => tree.addLink(path, 'x')).toThrow(shown);
    expect(() => tree.addHardLink(path, 'x')).toThrow(shown);
    expect(() => tree.addDirectory(path)).toThrow(shown);
    expect(await filesOf(tree)).toEqual([]);
  });

  test('link targets with control characters, empty or far too long ones are refused', async () => {
    const tree = await emptyTree();
    for (const target of ['', 'a\0', 'a\nb', 'x'.repeat(5_000)]) expect(() => tree.addLink('a', target)).toThrow(HOST);
    for (const target of ['../x', '/etc/passwd']) expect(() => tree.addHardLink('a', target)).toThrow(HOST);
  });
});

test('only names of ours are on disk, whatever the paths are', async () => {
  const tree = await emptyTree();
  await addText(tree, 'Makefile', 'a');
  await addText(tree, 'makefile', 'b');
  await addText(tree, 'deep/er/x', 'c');
  tree.addLink('link', 'deep');
  await addText(tree, 'large', 'x'.repeat(300_000));
  await tree.flush();
  expect((await readdir(tree.directory)).sort()).toEqual(['0', '1']);
  expect(await contentsOf(tree)).toMatchObject({
    Makefile: 'a',
    makefile: 'b',
    deep: '/',
    'deep/er': '/',
    'deep/er/x': 'c',
    link: '-> deep',
  });
});

test('.git is left out with all below it, as a file too; names that only resemble it stay', async () => {
  const tree = await emptyTree();
  await addText(tree, '.git/config', 'x');
  await addText(tree, 'submodule/.git', 'gitdir: ../.git/modules/submodule');
  tree.addLink('.git/link', '/etc');
  tree.addDirectory('.git');
  await addText(tree, '.gitignore', 'y');
  expect(await contentsOf(tree)).toEqual({ '.gitignore': 'y' });
});

test('a later entry takes the place of an earlier one', async () => {
  const tree = await emptyTree();
  await addText(tree, 'a', 'first');
  await addText(tree, './a', 'second', { executable: true });
  tree.addLink('b', 'a');
  await addText(tree, 'b', 'file');
  tree.addDirectory('c');
  tree.addDirectory('c');
  expect(await contentsOf(tree)).toEqual({ a: 'second*', b: 'file', c: '/' });
});

test('a file in the place of a directory is refused, and the reverse, and anything below a link', async () => {
  const tree = await emptyTree();
  await addText(tree, 'a/b', 'x');
  tree.addLink('link', 'a');
  await expect(addText(tree, 'a', 'x')).rejects.toMatchObject(REFUSED);
  await expect(addText(tree, 'a/b/c', 'x')).rejects.toThrow('"a/b"');
  await expect(addText(tree, 'link/c', 'x')).rejects.toThrow('"link"');
  expect(() => tree.addDirectory('a/b')).toThrow('"a/b"');
  expect(() => tree.addDirectory('link')).toThrow('"link"');
  expect(() => tree.addLink('a', 'x')).toThrow('"a"');
});

test('small contents arrive whole, however many there are', async () => {
  const tree = await emptyTree();
  const expected = Object.fromEntries(
    Array.from({ length: 300 }, (_, n) => [`f${n}`, `${n} `.repeat((n * 7919) % 5_000)]),
  );
  for (const [path, text] of Object.entries(expected)) await addText(tree, path, text);
  expect(await contentsOf(tree)).toEqual(expected);
  // Two to three megabytes, put away a megabyte at a time.
  expect((await filesOf(tree)).length).toBeLessThan(6);
});

test('large contents arrive whole', async () => {
  const tree = await emptyTree();
  const chunk = Buffer.alloc(100_000, 'abc');
  await tree.addFile('large', { executable: false }, bytes(chunk, chunk, chunk, chunk, chunk));
  expect(tree.entries.get('large')).toMatchObject({ size: 500_000 });
  expect((await contentsOf(tree))['large']).toBe(chunk.toString().repeat(5));
});

describe('limits', () => {
  test('files, links, directories and their parents are counted together', async () => {
    const tree = await emptyTree({ files: 4 });
    await addText(tree, 'a/b/c', 'x');
    tree.addLink('d', 'a');
    const refusal = {
      ...REFUSED,
      message: `${HOST} has a package of more than 4 files, links and directories`,
      hint: expect.stringContaining('modules.limits.files'),
    };
    await expect(addText(tree, 'e', 'x')).rejects.toMatchObject(refusal);
  });

  test('the same path again and again is refused in the end', async () => {
    const tree = await emptyTree({ files: 4 });
    for (let time = 0; time < 8; time++) tree.addDirectory('a');
    expect(() => tree.addDirectory('a')).toThrow('more than 4');
  });

  test('bytes are counted as they come, left out or not, and a declared size beforehand', async () => {
    const tree = await emptyTree({ unpacked: 10 });
    const refusal = {
      ...REFUSED,
      message: `${HOST} has a package that unpacks to more than 10 bytes`,
      hint: expect.stringContaining('modules.limits.unpacked'),
    };
    await addText(tree, '.git/x', '12345');
    let pulled = 0;
    const endless = (async function* () {
      for (;;) yield Buffer.alloc(++pulled);
    })();
    await expect(tree.addFile('a', { executable: false }, endless)).rejects.toMatchObject(refusal);
    expect(pulled).toBeLessThan(5);
    const untouched = bytes('x');
    await expect(tree.addFile('b', { executable: false, size: 11 }, untouched)).rejects.toMatchObject(refusal);
    expect(await untouched.next()).toMatchObject({ done: false });
  });
});

test('paths of megabytes are refused before they are megabytes of memory, several times over', () => {
  const tree = new FileTree({
    directory: '/nowhere',
    limits: { download: 1e9, unpacked: 1e9, files: 50_000, time: 1_000 },
    host: 'h.example',
  });
  const longest = 'd/'.repeat(1_000);
  expect(() => {
    for (let index = 0; index < 20_000; index += 1) tree.addDirectory(`${longest}${index}`);
  }).toThrow(/bytes of paths/);
});
