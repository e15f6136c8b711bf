import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, createWriteStream, openSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ZipFile } from 'yazl';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { expectedPackageHash, type HandMadeEntry, handMadeZip } from './hand-made-zip.ts';

let directory: string;
let hasher: PackageHasher;
let count = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-package-hash-'));
  hasher = new PackageHasher();
});

afterAll(async () => {
  await hasher.close();
  await rm(directory, { recursive: true, force: true });
});

async function hashOf(zip: Buffer) {
  const path = join(directory, `${++count}.zip`);
  await writeFile(path, zip);
  return hasher.hash(path);
}

const hashOfEntries = (...entries: HandMadeEntry[]) => hashOf(handMadeZip(entries));

async function yazlZip(fill: (zip: ZipFile) => void, { forceZip64Format = false } = {}): Promise<string> {
  const zip = new ZipFile();
  fill(zip);
  zip.end({ forceZip64Format, comment: '' });
  const path = join(directory, `${++count}.zip`);
  await pipeline(zip.outputStream, createWriteStream(path));
  return path;
}

describe('the package hash is what the clients compute', () => {
  test('R02: directory entries count, and lines are sorted by bytes', async () => {
    const path = await yazlZip((zip) => {
      zip.addEmptyDirectory('docs/');
      zip.addBuffer(Buffer.from('# a\n'), 'docs/a.md');
      zip.addBuffer(Buffer.from('licence\n'), 'LICENSE');
      zip.addBuffer(Buffer.from('binary\n'), 'terraform-provider-widget_v1.0.0');
    });
    const files = [
      ['docs/a.md', '# a\n'],
      ['LICENSE', 'licence\n'],
      ['terraform-provider-widget_v1.0.0', 'binary\n'],
    ] as const;
    // Lock files hold the other one: unpacked, there are only files.
    expect(await hasher.hash(path)).toEqual({
      hash: expectedPackageHash([['docs/', ''], ...files]),
      unpacked: expectedPackageHash(files),
    });
  });

  test('R02: unpacked, paths are cleaned, and of a repeated one the last content is there', async () => {
    const outcome = await hashOfEntries(
      { name: './a', content: 'first' },
      { name: 'b//c', content: 'c', deflate: true },
      { name: 'empty/' },
      { name: 'a', content: 'last' },
    );
    expect(outcome).toMatchObject({
      unpacked: expectedPackageHash([
        ['a', 'last'],
        ['b/c', 'c'],
      ]),
    });
  });

  test('a fixed value, so that both sides of the other tests cannot err together', async () => {
    // printf '%s  a\n' "$(printf x | sha256sum | cut -c1-64)" | openssl dgst -sha256 -binary | base64
    expect(await hashOfEntries({ name: 'a', content: 'x' })).toEqual({
      hash: 'h1:SkuHSh6XdqUuOP2CoFOCXzCfRhh6gDoPwMZnDGZw52g=',
    });
  });

  test.each([
    ['upper before lower case', ['b', 'A', 'a', 'B']],
    ['non-ASCII names by their UTF-8 bytes', ['é', 'z', '\u{ff5e}', '\u{1f600}']],
    ['R80: backslashes stay', ['a\\b', 'a/b', '..\\c']],
    ['paths that lead outside are only names', ['../x', '/etc/passwd']],
    ['bytes that are no UTF-8', [Buffer.from([0xff, 0xfe]), Buffer.from([0xef, 0xbf, 0xbd]), 'a']],
    ['an empty name', ['', 'a']],
  ])('names are raw bytes: %s', async (_, names) => {
    const entries = names.map((name, index) => ({ name, content: `content ${index}`, deflate: index % 2 === 0 }));
    expect(await hashOfEntries(...entries)).toMatchObject({
      hash: expectedPackageHash(entries.map(({ name, content }) => [name, content])),
    });
  });

  test('of a repeated name the last content counts, each time', async () => {
    const outcome = await hashOfEntries(
      { name: 'a', content: 'first' },
      { name: 'b', content: 'b' },
      { name: 'a', content: 'last', deflate: true },
    );
    expect(outcome).toMatchObject({
      hash: expectedPackageHash([
        ['a', 'last'],
        ['a', 'last'],
        ['b', 'b'],
      ]),
    });
  });

  test('a symbolic link is its target, whatever that is', async () => {
    const outcome = await hashOfEntries({ name: 'link', content: '/etc/passwd', mode: 0o120777 });
    expect(outcome).toEqual({ hash: expectedPackageHash([['link', '/etc/passwd']]) });
  });

  test('stored, deflated, described afterwards, empty, with a comment: the same contents, the same hash', async () => {
    const expected = {
      hash: expectedPackageHash([
        ['a', 'content'],
        ['b', ''],
      ]),
    };
    for (const options of [{}, { deflate: true }, { descriptor: true }, { deflate: true, descriptor: true }]) {
      const entries = [
        { name: 'a', content: 'content', ...options },
        { name: 'b', content: '', ...options },
      ];
      expect(await hashOfEntries(...entries)).toEqual(expected);
      expect(await hashOf(handMadeZip(entries, { comment: 'made by hand' }))).toEqual(expected);
    }
    expect(await hashOfEntries()).toEqual({ hash: expectedPackageHash([]) });
  });

  test('contents larger than any buffer are streamed', async () => {
    const compressible = Buffer.alloc(5 * 1024 ** 2, 'larder ');
    const random = randomBytes(3 * 1024 ** 2);
    const entries = [
      { name: 'compressible', content: compressible, deflate: true },
      { name: 'random', content: random, deflate: true },
      { name: 'stored', content: random },
    ];
    expect(await hashOfEntries(...entries)).toEqual({
      hash: expectedPackageHash(entries.map(({ name, content }) => [name, content])),
    });
  });

  test('R80: zip64 and more entries than 16 bits can count', async () => {
    const names = Array.from({ length: 70_000 }, (_, index) => `file-${index}`);
    const outcome = await hashOfEntries(...names.map((name) => ({ name, content: name })));
    expect(outcome).toEqual({ hash: expectedPackageHash(names.map((name) => [name, name])) });

    const forced = await yazlZip((zip) => zip.addBuffer(Buffer.from('x'), 'a', { forceZip64Format: true }), {
      forceZip64Format: true,
    });
    expect(await hasher.hash(forced)).toEqual({ hash: expectedPackageHash([['a', 'x']]) });
  });
});

describe('R02: a file that cannot be hashed has a reason instead of a hash', () => {
  const content = 'content '.repeat(100);
  test.each<[string, HandMadeEntry, RegExp]>([
    ['wrong checksum, stored', { name: 'a', content, crc: 1 }, /checksum/],
    ['wrong checksum, deflated', { name: 'a', content, crc: 1, deflate: true }, /checksum/],
    ['size declared too small', { name: 'a', content, size: 10, deflate: true }, /larger than|size/],
    ['size declared too large', { name: 'a', content, size: 10_000, deflate: true }, /size/],
    ['encrypted', { name: 'a', content, flags: 1 }, /encrypted|mismatch/],
    ['unknown method', { name: 'a', content, method: 93 }, /method 93/],
    ['line feed in a name', { name: 'a\nb', content }, /line feed/],
    ['directory with content', { name: 'a/', content }, /directory/],
    ['no deflate data at all', { name: 'a', content, method: 8 }, /invalid|size/],
  ])('%s', async (_, entry, reason) => {
    expect(await hashOfEntries(entry)).toEqual({ reason: expect.stringMatching(reason) });
  });

  test('a large entry with the wrong checksum, and one that inflates to more than it declares', async () => {
    const large = randomBytes(2 * 1024 ** 2);
    expect(await hashOfEntries({ name: 'a', content: large, crc: 1, deflate: true })).toEqual({
      reason: expect.stringMatching(/checksum/),
    });
    expect(await hashOfEntries({ name: 'a', content: Buffer.alloc(50 * 1024 ** 2), size: 10, deflate: true })).toEqual({
      reason: expect.stringMatching(/larger than|size/),
    });
  });

  test('truncated anywhere, empty, or no zip', async () => {
    const zip = handMadeZip([
      { name: 'a', content, deflate: true },
      { name: 'b', content: randomBytes(2 * 1024 ** 2), deflate: true },
    ]);
    for (const length of [0, 1, 100, zip.length >> 1, zip.length - 1]) {
      expect(await hashOf(zip.subarray(0, length))).toEqual({ reason: expect.any(String) });
    }
    expect(await hashOf(randomBytes(100_000))).toEqual({ reason: expect.any(String) });
    expect(await hashOf(Buffer.from('<html>Please log in</html>'))).toEqual({ reason: expect.any(String) });
  });

  test('gone', async () => {
    expect(await hasher.hash(join(directory, 'absent.zip'))).toEqual({ reason: expect.stringMatching(/ENOENT/) });
  });
});

describe('the threads', () => {
  test('a file that hangs is given up, and the next one is hashed', async () => {
    const pipe = join(directory, 'hanging.zip');
    execFileSync('mkfifo', [pipe]);
    const path = join(directory, 'after.zip');
    await writeFile(path, handMadeZip([{ name: 'a', content: 'x' }]));
    const impatient = new PackageHasher({ timeLimitMs: 5_000 });
    try {
      const [hanging, next] = await Promise.all([impatient.hash(pipe), impatient.hash(path)]);
      expect(hanging).toEqual({ reason: 'it took longer than 5 s' });
      expect(next).toEqual({ hash: expectedPackageHash([['a', 'x']]) });
    } finally {
      // Lets the thread go that waits for somebody to write.
      closeSync(openSync(pipe, 'r+'));
      await impatient.close();
    }
  });

  test('several files at once, in any order', async () => {
    const two = new PackageHasher({ concurrency: 2 });
    const paths = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const path = join(directory, `many-${index}.zip`);
        await writeFile(path, handMadeZip([{ name: 'a', content: `${index}` }]));
        return path;
      }),
    );
    const outcomes = await Promise.all(paths.map((path) => two.hash(path)));
    expect(outcomes).toEqual(paths.map((_, index) => ({ hash: expectedPackageHash([['a', `${index}`]]) })));
    await two.close();
  });

  test('closing answers those who wait', async () => {
    const closing = new PackageHasher();
    const path = join(directory, 'closing.zip');
    await writeFile(path, handMadeZip([{ name: 'a', content: Buffer.alloc(100 * 1024 ** 2), deflate: true }]));
    const [running, queued] = [closing.hash(path), closing.hash(path)];
    await closing.close();
    expect(await running).toEqual({ reason: expect.any(String) });
    expect(await queued).toEqual({ reason: expect.any(String) });
    expect(await closing.hash(path)).toEqual({ reason: expect.any(String) });
  });
});
