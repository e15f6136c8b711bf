import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { LarderError } from '../../src/errors.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { FileTree } from '../../src/upstream/module-package/file-tree.ts';
import type { ArchiveFormat } from '../../src/upstream/module-package/module-location.ts';
import { readTar } from '../../src/upstream/module-package/tar-reader.ts';
import { unpackArchive } from '../../src/upstream/module-package/unpack.ts';
import { handMadeZip } from '../store/hand-made-zip.ts';
import { COMPRESSED } from '../upstream/module-package/compressed.ts';
import { bodyOf, HOST, paxRecords, tarBlocks, tarOf, withChecksum } from '../upstream/module-package/packing.ts';
import { mutatedBytes } from './mutations.ts';
import { type FuzzTarget, target } from './target.ts';

/** Small, so that what does not keep to them is seen at once. */
const LIMITS = { download: 1_000_000, unpacked: 200_000, files: 40, time: 10_000 };
/** No input is larger than some kilobytes: what grows by more than this is not bounded by the limits. Bytes. */
const MEMORY_LIMIT = 512 * 1024 * 1024;

const TARS = [
  tarOf(
    { path: 'main.tf', content: 'x'.repeat(700) },
    { path: 'modules/', type: '5' },
    { path: 'modules/a.tf', content: 'a' },
  ),
  tarOf({ path: 'a', content: 'a' }, { path: 'b', type: '2', target: 'a' }, { path: 'c', type: '1', target: 'a' }),
  Buffer.concat([
    tarBlocks({ path: 'pax_global_header', type: 'g', content: paxRecords({ comment: '0a'.repeat(20) }) }),
    tarBlocks({ path: 'x', type: 'x', content: paxRecords({ path: `long/${'n'.repeat(120)}`, size: '3' }) }),
    tarBlocks({ path: 'y', content: 'abc' }, { path: 'z', type: 'L', content: `${'l'.repeat(130)}\0` }),
    tarOf({ path: 'short', content: 'zz' }),
  ]),
];
const ZIPS = [
  handMadeZip([
    { name: 'main.tf', content: 'x'.repeat(2_000), deflate: true },
    { name: 'modules/' },
    { name: 'modules/a.tf', content: 'a' },
  ]),
  handMadeZip(
    [
      {
        name: 'terraform-provider-widget_v1.0.0',
        content: 'y'.repeat(500),
        deflate: true,
        descriptor: true,
        mode: 0o100755,
      },
      { name: 'link', content: 'main.tf', mode: 0o120777 },
      { name: 'bücher', content: '' },
    ],
    { comment: 'c' },
  ),
];

/** Mends the checksums of all blocks that look like headers: else nothing behind them is ever read. */
function mended(tar: Buffer): Buffer {
  const copy = Buffer.from(tar);
  for (let at = 0; at + 512 <= copy.length; at += 512) {
    const block = copy.subarray(at, at + 512);
    if (block.toString('latin1', 257, 262) === 'ustar') withChecksum(block);
  }
  return copy;
}

async function workDirectory() {
  const directory = await mkdtemp(join(tmpdir(), 'larder-fuzz-'));
  return { directory, remove: () => rm(directory, { recursive: true, force: true }) };
}

/** In a work directory of its own, in the place of that of the input before. */
async function emptyTree(root: string): Promise<FileTree> {
  const directory = join(root, 'tree');
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory);
  return new FileTree({ directory, limits: LIMITS, host: HOST });
}

/** @throws for every error but those of the domain, and for what took more than it may */
async function onlyDomainErrors(run: () => Promise<void>): Promise<void> {
  const before = process.memoryUsage.rss();
  try {
    await run();
  } catch (error) {
    if (!(error instanceof LarderError)) throw error;
    if (error.code !== 'UPSTREAM_INVALID')
      throw new Error(`${error.code} for what is wrong with an archive`, { cause: error });
  }
  const grown = process.memoryUsage.rss() - before;
  if (grown > MEMORY_LIMIT) throw new Error(`it took ${grown} bytes of memory`);
}

function unpacking(
  name: string,
  format: ArchiveFormat,
  valid: readonly Buffer[],
  { short = 60, weight = 1.5 } = {},
): FuzzTarget {
  return target({ name, short, weight }, async () => {
    const { directory: root, remove } = await workDirectory();
    return {
      inputs: mutatedBytes(...valid),
      check: (bytes) =>
        onlyDomainErrors(async () => {
          const tree = await emptyTree(root);
          const { signal } = new AbortController();
          const options = { directory: tree.directory, limits: LIMITS, host: HOST, signal };
          await unpackArchive(bodyOf(bytes, 700), format, tree, options);
          bounded(tree);
        }),
      close: remove,
    };
  });
}

function bounded(tree: FileTree): void {
  if (tree.entries.size > LIMITS.files * 2) throw new Error(`${tree.entries.size} entries`);
  let bytes = 0;
  for (const [path, entry] of tree.entries) {
    if (/^\/|(?:^|\/)\.\.(?:\/|$)|\0/.test(path)) throw new Error(`leads out of the package: ${path}`);
    if (entry.kind === 'file') bytes += entry.size;
  }
  if (bytes > LIMITS.unpacked) throw new Error(`${bytes} bytes unpacked`);
}

/** Without a compression around it, whose checksums would keep nearly all changes from ever being read. */
const tars = target({ name: 'tar', short: 500, weight: 6 }, async () => {
  const { directory: root, remove } = await workDirectory();
  return {
    inputs: mutatedBytes(...TARS).map(mended),
    check: (bytes) =>
      onlyDomainErrors(async () => {
        const tree = await emptyTree(root);
        await readTar(bodyOf(bytes, 700), tree);
        bounded(tree);
      }),
    close: remove,
  };
});

const hashes = target({ name: 'package hashes of zips', short: 100, weight: 1.5 }, async () => {
  const { directory, remove } = await workDirectory();
  const hasher = new PackageHasher();
  const file = join(directory, 'package.zip');
  await writeFile(file, ZIPS[0] as Buffer);
  const good = JSON.stringify(await hasher.hash(file));
  let asked = 0;
  return {
    inputs: mutatedBytes(...ZIPS),
    check: async (bytes) => {
      await writeFile(file, bytes);
      const outcome = await hasher.hash(file);
      if ('reason' in outcome && /TypeError|undefined|not a function/.test(outcome.reason))
        throw new Error(outcome.reason);
      asked += 1;
      if (asked % 25 !== 0) return;
      await writeFile(file, ZIPS[0] as Buffer);
      const again = JSON.stringify(await hasher.hash(file));
      if (again !== good) throw new Error(`it did not survive: ${again}`);
    },
    close: async () => {
      await hasher.close();
      const left = (await readdir(directory)).filter((name) => name !== 'package.zip');
      await remove();
      if (left.length > 0) throw new Error(`left behind: ${left}`);
    },
  };
});

export const ARCHIVE_TARGETS: readonly FuzzTarget[] = [
  tars,
  unpacking('zip', 'zip', ZIPS, { short: 80, weight: 3 }),
  unpacking(
    'tar.gz',
    'tar.gz',
    TARS.map((tar) => gzipSync(tar)),
  ),
  unpacking('tar.bz2', 'tar.bz2', [COMPRESSED['tar.bz2']]),
  unpacking('tar.xz', 'tar.xz', [COMPRESSED['tar.xz']], { short: 40, weight: 1 }),
  hashes,
];
