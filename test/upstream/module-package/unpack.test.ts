import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { create, Pax } from 'tar';
import { describe, expect, test } from 'vitest';
import { UpstreamUnreachable } from '../../../src/errors.ts';
import type { ArchiveFormat } from '../../../src/upstream/module-package/module-location.ts';
import { COMPRESSED, ZEROS } from './compressed.ts';
import {
  bodyOf,
  contentsOf,
  emptyDirectory,
  HOST,
  paxRecords,
  TAR_END,
  type TarEntry,
  tarBlocks,
  tarOf,
  unpack,
  withChecksum,
} from './packing.ts';

const gz = (...entries: TarEntry[]) => gzipSync(tarOf(...entries));
const FILE: TarEntry = { path: 'main.tf', content: 'x' };

async function contentsOfTar(...entries: TarEntry[]) {
  return contentsOf(await unpack(gz(...entries), 'tar.gz'));
}

const refused = (message: string | RegExp) => ({
  code: 'UPSTREAM_INVALID',
  host: HOST,
  message: typeof message === 'string' ? expect.stringContaining(message) : expect.stringMatching(message),
});

describe('tar archives', () => {
  test('what the tar of another program holds', async () => {
    const directory = await emptyDirectory();
    await writeFile(join(directory, 'main.tf'), 'a');
    await writeFile(join(directory, 'run.sh'), 'b', { mode: 0o755 });
    const stream = create({ cwd: directory, gzip: true }, ['.']);
    expect(await contentsOf(await unpack(Readable.from(stream), 'tar.gz'))).toEqual({ 'main.tf': 'a', 'run.sh': 'b*' });
  });

  test.each(['tar.xz', 'tar.bz2'] as const)('%s, in chunks of any size', async (format) => {
    for (const chunk of [1, 100, 100_000]) {
      expect(await contentsOf(await unpack(COMPRESSED[format], format, { chunk }))).toEqual({
        'main.tf': 'resource "null" "a" {}\n',
        modules: '/',
        'modules/x': '/',
        'modules/x/run.sh': '#!/bin/sh\necho é\n*',
      });
    }
  });

  test('gzip of several members, with zeros after them', async () => {
    const tar = tarOf(FILE);
    const members = [gzipSync(tar.subarray(0, 700)), gzipSync(tar.subarray(700)), Buffer.alloc(20_000)];
    for (const chunk of [7, 100_000]) {
      expect(await contentsOf(await unpack(Buffer.concat(members), 'tar.gz', { chunk }))).toEqual({ 'main.tf': 'x' });
    }
  });

  test.each(['tar.gz', 'tar.xz', 'tar.bz2'] as const)('anything else after the end is refused: %s', async (format) => {
    const archive = format === 'tar.gz' ? gz(FILE) : COMPRESSED[format];
    for (const chunk of [7, archive.length, 100_000]) {
      const garbage = Buffer.concat([archive, Buffer.from('garbage')]);
      await expect(unpack(garbage, format, { chunk })).rejects.toMatchObject(refused('cannot be unpacked'));
    }
  });

  test('pax: long names, line feeds and letters of several bytes in them whatever the chunks, sizes', async () => {
    const path = `${'déjà/'.repeat(40)}main.tf`;
    const archive = gz(
      { path: 'global', type: 'g', content: paxRecords({ comment: 'a'.repeat(40), path: 'never' }) },
      { path: 'pax', type: 'x', content: paxRecords({ path, mtime: '1.5', size: '3' }) },
      { path: 'short', content: 'abc', size: 0 },
      { path: 'pax', type: 'x', content: paxRecords({ linkpath: path }) },
      { path: 'link', type: '2', target: 'short' },
      FILE,
    );
    for (const chunk of [1, 511, 100_000]) {
      const contents = await contentsOf(await unpack(archive, 'tar.gz', { chunk }));
      expect(contents).toMatchObject({ [path]: 'abc', link: `-> ${path}`, 'main.tf': 'x' });
    }
    const withLineFeed = gz(
      { path: 'pax', type: 'x', content: paxRecords({ path: 'a\nb' }) },
      { path: 'short', content: 'x' },
    );
    await expect(unpack(withLineFeed, 'tar.gz')).rejects.toMatchObject(refused('"a\\nb"'));
  });

  test('a pax header written by another program', async () => {
    const path = 'ä'.repeat(120);
    const header = new Pax({ path }).encode();
    const archive = gzipSync(Buffer.concat([header, tarBlocks({ path: 'x', content: '1' }), TAR_END]));
    expect(await contentsOf(await unpack(archive, 'tar.gz'))).toEqual({ [path]: '1' });
  });

  test('GNU: long names and targets', async () => {
    const long = `${'d'.repeat(99)}/${'f'.repeat(99)}`;
    expect(
      await contentsOfTar(
        { path: '././@LongLink', type: 'L', content: `${long}\0` },
        { path: 'short', content: 'x' },
        { path: '././@LongLink', type: 'K', content: `${long}\0` },
        { path: 'link', type: '2', target: 'short' },
      ),
    ).toMatchObject({ [long]: 'x', link: `-> ${long}` });
  });

  test('links, hard links, directories old and new; only the owner decides what is executable', async () => {
    expect(
      await contentsOfTar(
        { path: 'a', content: '1', mode: 0o100 },
        { path: 'b', content: '2', mode: 0o677 },
        { path: 'hard', type: '1', target: './a' },
        { path: 'soft', type: '2', target: 'a' },
        { path: 'new/', type: '5' },
        { path: 'old/', type: '\0' },
        { path: 'c', type: '7', content: '3' },
      ),
    ).toEqual({ a: '1*', b: '2', hard: '1*', soft: '-> a', new: '/', old: '/', c: '3' });
  });

  test('names that are not UTF-8 stay apart', async () => {
    const contents = await contentsOfTar(
      { path: Buffer.from([0x66, 0xe9]), content: '1' },
      { path: Buffer.from([0x66, 0xe8]), content: '2' },
    );
    expect(contents).toEqual({ fé: '1', fè: '2' });
  });

  test('names that differ in case only both stay, and of equal ones the last', async () => {
    expect(
      await contentsOfTar({ path: 'A', content: '1' }, { path: 'a', content: '2' }, { path: './A', content: '3' }),
    ).toEqual({ A: '3', a: '2' });
  });

  test.each([
    ['3', 'a character device'],
    ['4', 'a block device'],
    ['6', 'a named pipe'],
    ['S', 'a sparse file'],
    ['V', 'unknown type'],
  ])('type %s, %s, is refused', async (type, message) => {
    await expect(contentsOfTar({ path: 'odd', type }, FILE)).rejects.toMatchObject(refused(message));
  });

  test('a sparse file in the way of pax is refused', async () => {
    const records = paxRecords({ 'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.name': 'x' });
    await expect(contentsOfTar({ path: 'p', type: 'x', content: records }, FILE)).rejects.toMatchObject(
      refused('a sparse file'),
    );
  });

  test.each([
    ['a parent', '../evil'],
    ['a parent inside', 'a/../../evil'],
    ['an absolute path', '/etc/evil'],
    ['a path of Windows', 'C:\\evil'],
  ])('R81: %s is refused', async (_, path) => {
    await expect(contentsOfTar(FILE, { path, content: 'x' })).rejects.toMatchObject(refused(JSON.stringify(path)));
    await expect(contentsOfTar(FILE, { path: 'l', type: '1', target: path })).rejects.toMatchObject(refused('"l"'));
  });
});

describe('a damaged archive is an error, never a shorter package', () => {
  const tar = tarOf(FILE, { path: 'second.tf', content: 'y'.repeat(600) });

  test('the tar cut anywhere, the compression whole', async () => {
    for (const length of [0, 1, 511, 512, 600, 1024, 1300, 1536, 2000, tar.length - TAR_END.length]) {
      await expect(unpack(gzipSync(tar.subarray(0, length)), 'tar.gz'), `${length} bytes`).rejects.toMatchObject(
        refused('cut short'),
      );
    }
  });

  test.each(['tar.gz', 'tar.xz', 'tar.bz2'] as const)('the compression cut anywhere: %s', async (format) => {
    const archive = format === 'tar.gz' ? gzipSync(tar) : COMPRESSED[format];
    for (const length of [20, 40, archive.length >> 1, archive.length - 9, archive.length - 1]) {
      await expect(unpack(archive.subarray(0, length), format)).rejects.toMatchObject(
        refused(/cannot be unpacked|cut short|where a/),
      );
    }
  });

  test.each(['tar.gz', 'tar.xz', 'tar.bz2'] as const)('one bit that changed: %s', async (format) => {
    const archive = format === 'tar.gz' ? gzipSync(tar) : COMPRESSED[format];
    for (let at = 24; at < archive.length - 12; at += 31) {
      const damaged = Buffer.from(archive);
      damaged[at] = (damaged[at] as number) ^ 4;
      await expect(unpack(damaged, format), `byte ${at}`).rejects.toMatchObject({ code: 'UPSTREAM_INVALID' });
    }
  });

  test('headers that cannot be', async () => {
    const change = (offset: number, text: string) => {
      const blocks = Buffer.from(tar);
      blocks.write(text, offset, 'latin1');
      withChecksum(blocks.subarray(0, 512));
      return gzipSync(blocks);
    };
    const wrong = Buffer.from(tar);
    wrong[0] = (wrong[0] as number) ^ 1;
    await expect(unpack(gzipSync(wrong), 'tar.gz')).rejects.toMatchObject(refused('wrong checksum'));
    await expect(unpack(change(124, '99999999999'), 'tar.gz')).rejects.toMatchObject(refused('impossible number'));
    await expect(unpack(change(124, '-0000000001'), 'tar.gz')).rejects.toMatchObject(refused('impossible number'));
    await expect(unpack(change(124, '\xff'.repeat(12)), 'tar.gz')).rejects.toMatchObject(refused('impossible number'));
    await expect(unpack(change(0, '\0'), 'tar.gz')).rejects.toMatchObject(refused('without a name'));
    await expect(contentsOfTar({ path: 'p', type: 'x', content: '9 path=a\n' }, FILE)).resolves.toEqual({ a: 'x' });
    for (const content of ['7 path=a\n', 'path=a\n', '99 path=a\n', '9 path a\n']) {
      await expect(contentsOfTar({ path: 'p', type: 'x', content }, FILE)).rejects.toMatchObject(
        refused('extended header that is damaged'),
      );
    }
  });

  test('a body that fails passes its own error on', async () => {
    const own = new UpstreamUnreachable(HOST, 'connection', 'cut the connection');
    const archive = gz(FILE, { path: 'large', content: randomBytes(50_000) });
    for (const format of ['tar.gz', 'tar.xz', 'tar.bz2', 'zip'] as const) {
      const head = { 'tar.gz': archive, ...COMPRESSED, zip: Buffer.from('PK\x03\x04') }[format].subarray(0, 900);
      const failing = (error: Error) =>
        Readable.from(
          (async function* () {
            yield head.subarray(0, head.length - 20);
            throw error;
          })(),
        );
      await expect(unpack(failing(own), format)).rejects.toBe(own);
      await expect(unpack(failing(new Error('reset')), format)).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
    }
  });
});

describe('something else than promised is told', () => {
  const zip = Buffer.from('PK\x03\x04...');
  test.each<[string, Buffer, ArchiveFormat]>([
    ['zip', zip, 'tar.gz'],
    ['gzip', gz(FILE), 'zip'],
    ['gzip', gz(FILE), 'tar.bz2'],
    ['xz', COMPRESSED['tar.xz'], 'tar.gz'],
    ['bzip2', COMPRESSED['tar.bz2'], 'tar.xz'],
    ['tar without compression', tarOf(FILE), 'tar.gz'],
    ['an HTML page', Buffer.from('\n<!DOCTYPE html><html>'), 'zip'],
    ['XML', Buffer.from('<?xml version="1.0"?><Error/>'), 'tar.gz'],
    ['JSON', Buffer.from('{"message":"Not Found"}'), 'tar.gz'],
    ['text', Buffer.from('Not found'), 'tar.xz'],
    ['nothing', Buffer.alloc(0), 'tar.gz'],
    ['something unknown', Buffer.from([1, 2, 3]), 'zip'],
  ])('%s', async (what, archive, format) => {
    const message = `${HOST} has ${what} where a ${format} archive should be`;
    await expect(unpack(archive, format)).rejects.toMatchObject({ code: 'UPSTREAM_INVALID', message });
  });

  test.each([
    ['nothing at all', []],
    ['directories only', [{ path: 'a/', type: '5' }]],
    ['only what is left out', [{ path: '.git/config', content: 'x' }]],
  ])('an archive with %s is an error', async (_, entries) => {
    await expect(contentsOfTar(...entries)).rejects.toMatchObject(refused('without any files'));
  });
});

describe('what is over a limit is refused', () => {
  test('the archive itself, while it arrives', async () => {
    let sent = 0;
    const endless = Readable.from(
      (async function* () {
        yield gzipSync(tarBlocks({ path: 'large', size: 9_000_000 })).subarray(0, 15);
        for (;;) yield randomBytes(++sent && 1_000);
      })(),
    );
    await expect(unpack(endless, 'zip')).rejects.toThrow('has gzip');
    const store = Readable.from(
      (async function* () {
        yield Buffer.from('PK\x03\x04');
        for (;;) yield randomBytes(++sent && 1_000);
      })(),
    );
    await expect(unpack(store, 'zip', { limits: { download: 100_000 } })).rejects.toMatchObject({
      ...refused('an archive of more than 100000 bytes'),
      hint: expect.stringContaining('modules.limits.download'),
    });
    expect(sent).toBeLessThan(200);
  });

  test('R81: a member that declares 2 GB, before any of it comes', async () => {
    const archive = gzipSync(tarBlocks({ path: 'large', size: 2 * 1024 ** 3 }));
    await expect(unpack(archive, 'tar.gz')).rejects.toMatchObject(refused('unpacks to more than 10000000 bytes'));
  });

  test('R81: 100,000 entries, 100,000 directories deep or wide, one name 100,000 times', async () => {
    const startedAt = performance.now();
    const block = (path: string, type: string) => tarBlocks({ path, type });
    const file = block('00000000', '0');
    const wide = Buffer.alloc(100_000 * 512);
    for (let n = 0; n < 100_000; n++) {
      file.write(`${n}`.padStart(8, '0'), 0);
      withChecksum(file).copy(wide, n * 512);
    }
    const same = Buffer.alloc(100_000 * 512, block('same', '5'));
    const left = Buffer.alloc(100_000 * 512, block('.git/x', '0'));
    for (const bomb of [wide, same, left]) {
      await expect(unpack(gzipSync(bomb, { level: 1 }), 'tar.gz')).rejects.toMatchObject(
        refused('more than 1000 files'),
      );
    }
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });

  test('extended headers without end', async () => {
    const pax = tarBlocks({ path: 'p', type: 'x', content: paxRecords({ comment: 'c'.repeat(100_000) }) });
    const bomb = gzipSync(Buffer.concat(Array.from({ length: 300 }, () => pax)), { level: 1 });
    await expect(unpack(bomb, 'tar.gz')).rejects.toMatchObject(refused('extended headers that are too large'));
    const large = gzipSync(tarBlocks({ path: 'p', type: 'L', size: 1024 ** 3 }));
    await expect(unpack(large, 'tar.gz')).rejects.toMatchObject(refused('extended headers that are too large'));
  });

  test.each(['tar.gz', 'tar.xz', 'tar.bz2'] as const)(
    'R81: a gigabyte of zeros as %s, with flat memory',
    async (format) => {
      const zeros = Buffer.alloc(16_000_000);
      const member = gzipSync(zeros);
      const bomb = format === 'tar.gz' ? Buffer.concat(Array.from({ length: 70 }, () => member)) : ZEROS[format];
      const before = process.memoryUsage.rss();
      const startedAt = performance.now();
      await expect(unpack(bomb, format)).rejects.toMatchObject(refused('too much after its end'));
      expect(performance.now() - startedAt).toBeLessThan(5_000);
      expect(process.memoryUsage.rss() - before).toBeLessThan(150_000_000);
    },
  );

  test('one after the other, and at once, after bombs and failures: xz unpacks one at a time', async () => {
    const good = () => unpack(COMPRESSED['tar.xz'], 'tar.xz');
    const bad = () => unpack(ZEROS['tar.xz'], 'tar.xz').catch(() => undefined);
    const cut = () => unpack(COMPRESSED['tar.xz'].subarray(0, 200), 'tar.xz').catch(() => undefined);
    const results = await Promise.all([bad(), good(), cut(), good(), bad(), good()]);
    expect(results.map((tree) => tree?.entries.size)).toEqual([undefined, 4, undefined, 4, undefined, 4]);
  });
});

describe('it ends when it is told to', () => {
  test.each(['tar.gz', 'tar.xz', 'tar.bz2', 'zip'] as const)('while nothing comes any more: %s', async (format) => {
    const head = { 'tar.gz': gz(FILE), ...COMPRESSED, zip: Buffer.from('PK\x03\x04') }[format];
    const abort = new AbortController();
    const body = new PassThrough();
    const unpacked = unpack(body, format, { signal: abort.signal });
    body.write(head.subarray(0, head.length - 5));
    for (let n = 0; n < 5; n++) await turn();
    abort.abort();
    await expect(unpacked).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'timeout' });
  });

  test('before it began', async () => {
    const body = bodyOf(gz(FILE));
    await expect(unpack(body, 'tar.gz', { signal: AbortSignal.abort() })).rejects.toMatchObject({ reason: 'timeout' });
  });

  test('while another holds up xz', async () => {
    const abort = new AbortController();
    const first = unpack(ZEROS['tar.xz'], 'tar.xz').catch(() => 'bomb');
    const second = unpack(COMPRESSED['tar.xz'], 'tar.xz', { signal: abort.signal });
    abort.abort();
    await expect(second).rejects.toMatchObject({ reason: 'timeout' });
    await first;
    expect((await unpack(COMPRESSED['tar.xz'], 'tar.xz')).entries.size).toBe(4);
  });
});

test('all of the body is read, also what follows the archive: checksums are of the whole', async () => {
  const archive = Buffer.concat([gz(FILE), Buffer.alloc(300_000)]);
  const directory = await emptyDirectory();
  await writeFile(join(directory, 'archive'), archive);
  const hash = createHash('sha256');
  const body = new PassThrough();
  const source = createReadStream(join(directory, 'archive'));
  source.on('data', (chunk) => hash.update(chunk)).pipe(body);
  await unpack(body, 'tar.gz');
  expect(hash.digest('hex')).toBe(createHash('sha256').update(archive).digest('hex'));
});

test('no more is read than can be put away', async () => {
  let pulled = 0;
  const chunk = randomBytes(64 * 1024);
  const archive = (function* () {
    for (;;) {
      pulled++;
      yield chunk;
    }
  })();
  const { FileTree } = await import('../../../src/upstream/module-package/file-tree.ts');
  const { readTar } = await import('../../../src/upstream/module-package/tar-reader.ts');
  const limits = { download: 1e9, unpacked: 1e9, files: 10, time: 1 };
  const tree = new FileTree({ directory: await emptyDirectory(), limits, host: HOST });
  tree.addFile = async (_path, _options, content) => {
    for await (const piece of content) {
      expect(piece.length).toBeGreaterThan(0);
      throw new Error('slow');
    }
  };
  const source = (async function* () {
    yield tarBlocks({ path: 'large', size: 1e8 });
    yield* archive;
  })();
  await expect(readTar(source, tree)).rejects.toThrow('slow');
  expect(pulled).toBe(1);
});
