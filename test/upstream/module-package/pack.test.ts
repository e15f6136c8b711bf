import { createHash } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { addText, bodyOf, contentsOf, emptyTree, HOST, pack, packageContents, unpack } from './packing.ts';

async function packed(fill: Readonly<Record<string, string>>, subdir = '') {
  const tree = await emptyTree();
  for (const [path, text] of Object.entries(fill)) await addText(tree, path, text);
  const result = await pack(tree, subdir);
  return { ...result, contents: await packageContents(tree, result) };
}

test('the package is a flat tar.gz, sorted by bytes, links resolved, in the work directory', async () => {
  const tree = await emptyTree();
  await addText(tree, 'run.sh', 'run', { executable: true });
  await addText(tree, 'modules/x/main.tf', 'x');
  await addText(tree, 'README.md', 'read');
  tree.addLink('link', 'modules');
  tree.addLink('gone', 'nowhere');
  tree.addDirectory('empty');
  await addText(tree, '\u{1f600}', 'astral');
  await addText(tree, '\u{ff5e}', 'not');
  const result = await pack(tree);
  const contents = await packageContents(tree, result);
  expect(Object.entries(contents)).toEqual([
    ['README.md', 'read'],
    ['empty/', '/'],
    ['link/x/main.tf', 'x'],
    ['modules/x/main.tf', 'x'],
    ['run.sh', 'run*'],
    ['\u{ff5e}', 'not'],
    ['\u{1f600}', 'astral'],
  ]);
  const file = await readFile(join(tree.directory, result.file));
  expect(result).toMatchObject({ size: file.length, subdir: '', danglingLinks: ['gone'] });
  expect(result.sha256).toBe(createHash('sha256').update(file).digest('hex'));
});

describe('the same bytes whenever, wherever and by whatever Node it is made', () => {
  // Made with Node 20. When it changes, so do the digests of all packages that are made anew: nobody may do that lightly.
  const DIGEST = 'be8946ef01739b59efc6ad3b47f3401ee5a89e75240bb2c1a332564b014c93b9';

  async function goldenTree() {
    const tree = await emptyTree();
    const digits = Array.from({ length: 40_000 }, (_, n) => `${(n * 7919) % 10_007}`).join('\n');
    await addText(tree, 'digits.txt', digits);
    await addText(tree, `${'deep/'.repeat(40)}main.tf`, 'variable "a" {}\n');
    await addText(tree, `${'deep/'.repeat(25)}é.tf`, '');
    await addText(tree, 'run.sh', '#!/bin/sh\n', { executable: true });
    tree.addDirectory('empty');
    tree.addLink('copy', 'deep');
    return tree;
  }

  test('as it always was', async () => {
    expect((await pack(await goldenTree())).sha256).toBe(DIGEST);
  });

  test('no time, no owner, nothing of this machine is in it', async () => {
    const tree = await goldenTree();
    const file = await readFile(join(tree.directory, (await pack(tree)).file));
    expect(file.subarray(0, 10)).toEqual(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]));
    const header = gunzipSync(file).subarray(0, 512);
    expect(header.toString('latin1', 108, 124)).toBe('0000000\x000000000\x00');
    expect(header.toString('latin1', 265, 329)).toBe('\0'.repeat(64));
  });

  test('in whatever order and chunks the files came', async () => {
    const one = await emptyTree();
    const other = await emptyTree();
    const text = 'abc'.repeat(100_000);
    await addText(one, 'a', text);
    await addText(one, 'b', 'x');
    await addText(other, 'b', 'x');
    await other.addFile('a', { executable: false }, bodyOf(Buffer.from(text), 999));
    expect((await pack(one)).sha256).toBe((await pack(other)).sha256);
  });
});

describe('the module is found', () => {
  const REPOSITORY = { 'main.tf': '1', 'modules/vpc/main.tf': '2', 'modules/eks/main.tf': '3' };

  test('a plain subdir stays below the root, so that ../ within works', async () => {
    const result = await packed(REPOSITORY, 'modules/vpc');
    expect(result.subdir).toBe('modules/vpc');
    expect(Object.keys(result.contents)).toEqual(['main.tf', 'modules/eks/main.tf', 'modules/vpc/main.tf']);
  });

  test('a pattern at the beginning is the directory that everything is wrapped in', async () => {
    const wrapped = Object.fromEntries(
      Object.entries(REPOSITORY).map(([path, text]) => [`acme-net-1a2b3c/${path}`, text]),
    );
    const all = { ...wrapped, pax_global_header: 'x', 'other/y': 'y' };
    for (const pattern of ['acme-net-??????', '[a-b]*-[^x]*']) {
      const result = await packed(all, `${pattern}/modules/v*`);
      expect(result.subdir).toBe('modules/vpc');
      expect(result.contents).toEqual({ 'main.tf': '1', 'modules/eks/main.tf': '3', 'modules/vpc/main.tf': '2' });
    }
    expect((await packed(wrapped, '*')).subdir).toBe('');
  });

  test('a later pattern changes nothing but the subdir', async () => {
    const result = await packed(REPOSITORY, 'modules/*c');
    expect(result.subdir).toBe('modules/vpc');
    expect(Object.keys(result.contents)).toHaveLength(3);
  });

  test.each([
    ['modules/*', 'has several directories "modules/*" in its package: "eks", "vpc"'],
    ['*/x', 'has no directory "modules/x" in its package; there are "eks", "vpc"'],
    ['terraform-*', 'has no directory "terraform-*" in its package; there are "modules"'],
    ['missing', 'has no directory "missing" in its package; there are "modules"'],
    ['main.tf', 'has no directory "main.tf" in its package; there are "modules"'],
    ['modules/vpc/deeper', 'has no directory "modules/vpc/deeper" in its package, and no directory in its place'],
    ['../x', 'is asked for the directory "../x", which leads out of the package'],
  ])('%s is refused, and what is there is told', async (subdir, message) => {
    await expect(packed(REPOSITORY, subdir)).rejects.toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: `${HOST} ${message}`,
    });
  });

  test('of many directories ten are told', async () => {
    const many = Object.fromEntries(Array.from({ length: 14 }, (_, n) => [`d${n + 10}/x`, '']));
    await expect(packed(many, '*')).rejects.toThrow(/"d10", .*"d19" and 4 more$/);
  });

  test('a pattern that is hard to match costs no time', async () => {
    const startedAt = performance.now();
    await expect(packed({ [`${'a'.repeat(250)}/x`]: '' }, `${'*a'.repeat(100)}b`)).rejects.toThrow('has no directory');
    expect(performance.now() - startedAt).toBeLessThan(1_000);
  });
});

test('every name that a tree can hold comes out again, at every length where the format changes', async () => {
  const tree = await emptyTree();
  for (const length of [99, 100, 101, 154, 155, 156, 255, 256, 257, 300]) {
    await addText(
      tree,
      `${'p'.repeat(length > 255 ? 200 : 40)}/${'n'.repeat(length > 255 ? length - 201 : length - 41)}`,
      'x',
    );
    tree.addDirectory(`dir${length}/${'e'.repeat(Math.min(length - 8, 255))}`);
  }
  await addText(tree, `${'a/'.repeat(120)}b`, 'x');
  const contents = await packageContents(tree, await pack(tree));
  const directories = Object.keys(contents).filter((path) => path.endsWith('/'));
  expect(Object.keys(contents)).toHaveLength(21);
  expect(directories).toHaveLength(10);
  for (const path of Object.keys(contents)) expect(tree.entries.has(path.replace(/\/$/, '')), path).toBe(true);
});

test('unpacking a package gives back the tree with its links resolved', async () => {
  const name = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
    .filter((text) => !/[\p{Cc}\p{Cs}/\\]|^\.{1,2}$|^\.git$|^[A-Za-z]:/u.test(text));
  const path = fc.array(name, { minLength: 1, maxLength: 12 }).map((names) => names.join('/'));
  const file = fc.record({
    path,
    text: fc.string({ maxLength: 2_000 }),
    executable: fc.boolean(),
    linked: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(file, { minLength: 1, maxLength: 30 }), async (files) => {
      const tree = await emptyTree();
      const expected: Record<string, string> = {};
      let links = 0;
      for (const { path, text, executable, linked } of files) {
        if (tree.entries.has(`files/${path}`)) continue;
        try {
          await addText(tree, `files/${path}`, `text ${text}`, { executable });
        } catch {
          continue;
        }
        const value = `text ${text}${executable ? '*' : ''}`;
        expected[`files/${path}`] = value;
        if (!linked) continue;
        tree.addLink(`links/${++links}`, `../files/${path}`);
        expected[`links/${links}`] = value;
      }
      const result = await pack(tree);
      const again = await unpack(await readFile(join(tree.directory, result.file)), 'tar.gz');
      const contents = Object.entries(await contentsOf(again)).filter(([, value]) => value !== '/');
      expect(Object.fromEntries(contents)).toEqual(expected);
    }),
    { numRuns: 5, endOnFailure: true },
  );
});

test('it ends when it is told to, and says so when the disk fails', async () => {
  const tree = await emptyTree();
  await addText(tree, 'a', 'x');
  await expect(pack(tree, '', AbortSignal.abort())).rejects.toMatchObject({ reason: 'timeout' });
  const abort = new AbortController();
  const packing = pack(tree, '', abort.signal);
  // What is in memory is on disk by now, and the thread is starting.
  setTimeout(() => abort.abort(), 5);
  await expect(packing).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'timeout' });
  await rm(join(tree.directory, '0'));
  await rm(join(tree.directory, 'package.tar.gz'), { force: true });
  await expect(pack(tree)).rejects.toMatchObject({
    code: 'STORAGE_FAILED',
    message: 'making a module package failed (ENOENT)',
  });
});
