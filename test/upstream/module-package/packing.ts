import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import { Header, Parser } from 'tar';
import { expect } from 'vitest';
import { FileTree } from '../../../src/upstream/module-package/file-tree.ts';
import type { ArchiveFormat } from '../../../src/upstream/module-package/module-location.ts';
import { type PackedTree, packTree } from '../../../src/upstream/module-package/pack.ts';
import type { PackageLimits } from '../../../src/upstream/module-package/package-limits.ts';
import { unpackArchive } from '../../../src/upstream/module-package/unpack.ts';
import { afterTest } from '../../support/after-test.ts';

export const HOST = 'archives.example.test';
export const LIMITS: PackageLimits = { download: 8_000_000, unpacked: 10_000_000, files: 1_000, time: 30_000 };

/** One entry of a tar archive as another program would write it. */
export interface TarEntry {
  readonly path: string | Buffer;
  readonly content?: string | Buffer;
  /** `0` unless told. */
  readonly type?: string;
  readonly target?: string;
  readonly mode?: number;
  /** Declared instead of the true one. */
  readonly size?: number;
}

export async function emptyDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-module-package-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

export async function emptyTree(limits: Partial<PackageLimits> = {}): Promise<FileTree> {
  return new FileTree({ directory: await emptyDirectory(), limits: { ...LIMITS, ...limits }, host: HOST });
}

export async function* bytes(...chunks: (string | Buffer)[]): AsyncGenerator<Buffer> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

/** Adds a file of that text. */
export function addText(tree: FileTree, path: string, text: string, { executable = false } = {}): Promise<void> {
  return tree.addFile(path, { executable }, bytes(text));
}

export function tarBlocks(...entries: TarEntry[]): Buffer {
  return Buffer.concat(
    entries.map(({ path, content = '', type = '0', target = '', mode = 0o644, size }) => {
      const body = Buffer.from(content);
      const block = Buffer.alloc(512);
      new Header({ path: 'name', mode, uid: 7, gid: 7, size: size ?? body.length, type: 'File' }).encode(block);
      block.fill(0, 0, 100);
      Buffer.from(path).copy(block, 0, 0, 100);
      block.write(type, 156, 'latin1');
      block.write(target, 157, 100, 'utf8');
      return Buffer.concat([withChecksum(block), body, Buffer.alloc((512 - (body.length % 512)) % 512)]);
    }),
  );
}

export function withChecksum(block: Buffer): Buffer {
  block.fill(' ', 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

export const TAR_END = Buffer.alloc(1024);

export function tarOf(...entries: TarEntry[]): Buffer {
  return Buffer.concat([tarBlocks(...entries), TAR_END]);
}

/** A pax header's body: the records of one entry. */
export function paxRecords(records: Readonly<Record<string, string>>): Buffer {
  return Buffer.concat(
    Object.entries(records).map(([key, value]) => {
      const rest = Buffer.byteLength(` ${key}=${value}\n`);
      const length = [1, 2, 3, 4, 5, 6].map((digits) => rest + digits).find((sum) => `${sum}`.length === sum - rest);
      return Buffer.from(`${length} ${key}=${value}\n`);
    }),
  );
}

/** Unpacks what arrives in chunks of some size into a new tree. */
export async function unpack(
  archive: Buffer | Readable,
  format: ArchiveFormat,
  {
    limits = {},
    signal = never(),
    chunk = 16 * 1024,
  }: { limits?: Partial<PackageLimits>; signal?: AbortSignal; chunk?: number } = {},
): Promise<FileTree> {
  const tree = await emptyTree(limits);
  const body = archive instanceof Readable ? archive : bodyOf(archive, chunk);
  const options = { directory: tree.directory, limits: tree.limits, host: HOST, signal };
  await unpackArchive(body, format, tree, options).finally(() => expect(body.destroyed).toBe(true));
  return tree;
}

export function bodyOf(archive: Buffer, chunk = 16 * 1024): Readable {
  return Readable.from(
    (function* () {
      for (let at = 0; at < archive.length; at += chunk) yield archive.subarray(at, at + chunk);
    })(),
    { objectMode: false },
  );
}

/** By path: the text of a file with `*` when it is executable, `-> TARGET`, or `/`. */
export async function contentsOf(tree: FileTree): Promise<Record<string, string>> {
  const contents: Record<string, string> = {};
  await tree.flush();
  for (const [path, entry] of tree.entries) {
    if (entry.kind === 'link') contents[path] = `-> ${entry.target}`;
    else if (entry.kind === 'directory') contents[path] = '/';
    else {
      const bytes = await readFile(join(tree.directory, entry.content));
      const text = bytes.toString('utf8', entry.offset, entry.offset + entry.size);
      contents[path] = text + (entry.executable ? '*' : '');
    }
  }
  return contents;
}

export function pack(tree: FileTree, subdir = '', signal: AbortSignal = never()): Promise<PackedTree> {
  return packTree(tree, { subdir, directory: tree.directory, signal });
}

/** What another program finds in a package, in the same words; in the order in which it finds it. */
export async function packageContents(tree: FileTree, packed: PackedTree): Promise<Record<string, string>> {
  const contents: Record<string, string> = {};
  const parser = new Parser({ strict: true });
  const ended = new Promise<void>((resolve, reject) => {
    parser.on('end', resolve);
    parser.on('error', reject);
  });
  parser.on('entry', (entry) => {
    const chunks: Buffer[] = [];
    entry.on('data', (chunk: Buffer) => chunks.push(chunk));
    entry.on('end', () => {
      const executable = entry.mode === 0o755 ? '*' : '';
      contents[entry.path] = entry.type === 'Directory' ? '/' : Buffer.concat(chunks).toString() + executable;
    });
  });
  parser.end(gunzipSync(await readFile(join(tree.directory, packed.file))));
  await ended;
  return contents;
}

/** What lies in the work directory of a tree. */
export function filesOf(tree: FileTree): Promise<string[]> {
  return readdir(tree.directory);
}

function never(): AbortSignal {
  return new AbortController().signal;
}
