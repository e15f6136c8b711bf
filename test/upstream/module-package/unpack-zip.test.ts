import { createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { describe, expect, test } from 'vitest';
import { ZipFile } from 'yazl';
import { type HandMadeEntry, handMadeZip } from '../../store/hand-made-zip.ts';
import { contentsOf, emptyDirectory, HOST, unpack } from './packing.ts';

const FILE: HandMadeEntry = { name: 'main.tf', content: 'x', deflate: true };

async function contentsOfZip(...entries: HandMadeEntry[]) {
  return contentsOf(await unpack(handMadeZip(entries), 'zip'));
}

const refused = (message: string) => ({
  code: 'UPSTREAM_INVALID',
  host: HOST,
  message: expect.stringContaining(message),
});

async function yazlZip(fill: (zip: ZipFile) => void, forceZip64Format: boolean): Promise<Buffer> {
  const zip = new ZipFile();
  fill(zip);
  zip.end({ forceZip64Format, comment: '' });
  const file = join(await emptyDirectory(), 'made.zip');
  await pipeline(zip.outputStream, createWriteStream(file));
  return readFile(file);
}

test.each([
  ['zip', false],
  ['R80: zip64', true],
])('%s of another program', async (_, zip64) => {
  const archive = await yazlZip((zip) => {
    zip.addEmptyDirectory('modules/');
    zip.addBuffer(Buffer.from('a'), 'modules/main.tf', { mode: 0o100644 });
    zip.addBuffer(Buffer.from('b'), 'run.sh', { mode: 0o100755, compress: false });
    zip.addBuffer(Buffer.from('modules/main.tf'), 'link', { mode: 0o120777 });
  }, zip64);
  expect(await contentsOf(await unpack(archive, 'zip', { chunk: 13 }))).toEqual({
    modules: '/',
    'modules/main.tf': 'a',
    'run.sh': 'b*',
    link: '-> modules/main.tf',
  });
});

test('stored, deflated, with a descriptor, empty, and a directory by its mode', async () => {
  expect(
    await contentsOfZip(
      { name: 'a', content: '1' },
      { name: 'b', content: '2', deflate: true },
      { name: 'c', content: '3', deflate: true, descriptor: true },
      { name: 'd' },
      { name: 'e', mode: 0o040755 },
    ),
  ).toEqual({ a: '1', b: '2', c: '3', d: '', e: '/' });
});

test('R80: names are raw bytes: UTF-8 without its flag, backslashes, and what is not UTF-8', async () => {
  const names = ['é', 'a\\b', Buffer.from([0x66, 0xe9])];
  expect(Object.keys(await contentsOfZip(...names.map((name) => ({ name, content: 'x' }))))).toEqual([
    'é',
    'a\\b',
    'fé',
  ]);
});

test('of equal names the last counts', async () => {
  expect(await contentsOfZip({ name: 'a', content: '1' }, { name: './a', content: '2' })).toEqual({ a: '2' });
});

describe('what is hostile or damaged is refused', () => {
  test.each<[string, HandMadeEntry, string]>([
    ['a parent', { name: '../evil', content: 'x' }, '"../evil"'],
    ['an absolute path', { name: '/evil', content: 'x' }, '"/evil"'],
    ['a line feed', { name: 'a\nb', content: 'x' }, '"a\\nb"'],
    ['encryption', { ...FILE, flags: 1 }, 'is encrypted'],
    ['an unknown compression', { ...FILE, method: 99 }, 'unsupported method 99'],
    ['a wrong checksum', { ...FILE, crc: 1 }, 'checksum'],
    ['a wrong size', { name: 'a', content: 'xyz', deflate: true, size: 2 }, 'damaged'],
    ['a device', { name: 'a', mode: 0o020644 }, 'neither file, link nor directory'],
    ['an endless link', { name: 'a', content: 'x'.repeat(5_000), mode: 0o120777 }, 'longer than 4096'],
    ['a declared size of 2 GB', { ...FILE, size: 2 * 1024 ** 3 }, 'more than 10000000 bytes'],
  ])('%s', async (_, entry, message) => {
    await expect(contentsOfZip(FILE, { ...entry })).rejects.toMatchObject(refused(message));
  });

  test('a zip cut anywhere', async () => {
    const archive = handMadeZip([FILE, { name: 'b', content: 'y'.repeat(500) }]);
    for (let length = 4; length < archive.length; length += 37) {
      await expect(unpack(archive.subarray(0, length), 'zip')).rejects.toMatchObject(refused('damaged'));
    }
  });

  test('no entries', async () => {
    await expect(contentsOfZip()).rejects.toMatchObject(refused('without any files'));
  });

  test('R81: 100,000 entries', async () => {
    const entries = Array.from({ length: 100_000 }, (_, n) => ({ name: `${n}` }));
    const archive = handMadeZip(entries);
    await expect(unpack(archive, 'zip', { limits: { download: 50_000_000 } })).rejects.toMatchObject(
      refused('more than 1000 files'),
    );
  });

  test('R81: a bomb that declares itself, and one that does not', async () => {
    const content = Buffer.alloc(100_000_000);
    await expect(contentsOfZip({ name: 'bomb', content, deflate: true })).rejects.toMatchObject(
      refused('more than 10000000 bytes'),
    );
    const before = process.memoryUsage.rss();
    await expect(contentsOfZip({ name: 'bomb', content, deflate: true, size: 1_000 })).rejects.toMatchObject(
      refused('damaged'),
    );
    expect(process.memoryUsage.rss() - before).toBeLessThan(100_000_000);
  });
});
