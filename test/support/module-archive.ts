import { buffer } from 'node:stream/consumers';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Header, Parser } from 'tar';
import { ZipFile } from 'yazl';

/** What lies in a module's archive: text, or more than that. */
export type ModuleFile =
  | string
  | Buffer
  | { readonly content: string | Buffer; readonly executable: true }
  /** A symbolic link, to this target as it stands in the link. */
  | { readonly link: string }
  /** A hard link, to this path of the same archive. Tar only. */
  | { readonly hardLink: string }
  /** An empty directory. */
  | { readonly directory: true };

/** Paths in the archive, and what is there. Paths are written as they are: `../x` escapes, as it does in the wild. */
export type ModuleFiles = Readonly<Record<string, ModuleFile>>;

export interface ModuleArchiveOptions {
  /** A directory around everything, as code hosts put it: `acme-net-1a2b3c`. */
  readonly top?: string;
  /** A global pax header with a commit in front, as `git archive` writes it. Tar only. */
  readonly globalHeader?: boolean;
}

const FILE_MODE = 0o644;
const EXECUTABLE_MODE = 0o755;
const LINK_MODE = 0o777;
const ZIP_LINK = 0o120000;
const ZIP_FILE = 0o100000;
const ZIP_DATE = new Date(2024, 0, 1, 12);
const TAR_BLOCK_BYTES = 512;

/** A zip, in memory. The same arguments give the same bytes. */
export async function moduleZip(files: ModuleFiles, { top }: ModuleArchiveOptions = {}): Promise<Buffer> {
  const zip = new ZipFile();
  const options = { mtime: ZIP_DATE, forceDosTimestamp: true } as const;
  if (top !== undefined) zip.addEmptyDirectory(`${top}/`, options);
  for (const [name, file] of entriesOf(files, top)) {
    if (typeof file === 'string' || Buffer.isBuffer(file)) {
      zip.addBuffer(Buffer.from(file), name, { ...options, mode: ZIP_FILE | FILE_MODE });
    } else if ('content' in file) {
      zip.addBuffer(Buffer.from(file.content), name, { ...options, mode: ZIP_FILE | EXECUTABLE_MODE });
    } else if ('link' in file) {
      zip.addBuffer(Buffer.from(file.link), name, { ...options, mode: ZIP_LINK | LINK_MODE });
    } else if ('directory' in file) {
      zip.addEmptyDirectory(`${name}/`, options);
    } else {
      throw new Error('a zip has no hard links');
    }
  }
  zip.end();
  return buffer(zip.outputStream);
}

/** A tar, gzipped, in memory. The same arguments give the same bytes. */
export function moduleTarGz(files: ModuleFiles, options: ModuleArchiveOptions = {}): Buffer {
  return gzipSync(moduleTar(files, options));
}

/** A tar, in memory. */
export function moduleTar(files: ModuleFiles, { top, globalHeader = false }: ModuleArchiveOptions = {}): Buffer {
  const blocks: Buffer[] = [];
  if (globalHeader) blocks.push(...tarFile('pax_global_header', commitRecord(), FILE_MODE, 'GlobalExtendedHeader'));
  if (top !== undefined) blocks.push(tarEntry({ path: `${top}/`, type: 'Directory', mode: EXECUTABLE_MODE }));
  for (const [path, file] of entriesOf(files, top)) {
    if (typeof file === 'string' || Buffer.isBuffer(file)) {
      blocks.push(...tarFile(path, Buffer.from(file), FILE_MODE));
    } else if ('content' in file) {
      blocks.push(...tarFile(path, Buffer.from(file.content), EXECUTABLE_MODE));
    } else if ('link' in file) {
      blocks.push(tarEntry({ path, type: 'SymbolicLink', linkpath: file.link, mode: LINK_MODE }));
    } else if ('hardLink' in file) {
      blocks.push(tarEntry({ path, type: 'Link', linkpath: inside(file.hardLink, top), mode: FILE_MODE }));
    } else {
      blocks.push(tarEntry({ path: `${path}/`, type: 'Directory', mode: EXECUTABLE_MODE }));
    }
  }
  return Buffer.concat([...blocks, Buffer.alloc(2 * TAR_BLOCK_BYTES)]);
}

function entriesOf(files: ModuleFiles, top: string | undefined): (readonly [string, ModuleFile])[] {
  return Object.entries(files).map(([path, file]) => [inside(path, top), file]);
}

function inside(path: string, top: string | undefined): string {
  return top === undefined ? path : `${top}/${path}`;
}

type HeaderFields = NonNullable<Exclude<ConstructorParameters<typeof Header>[0], Buffer>>;

function tarEntry(fields: HeaderFields): Buffer {
  const block = Buffer.alloc(TAR_BLOCK_BYTES);
  const header = new Header({ size: 0, mtime: ZIP_DATE, uid: 0, gid: 0, ...fields });
  if (header.encode(block)) throw new Error(`${fields.path} is too long for a plain tar header`);
  return block;
}

function tarFile(
  path: string,
  content: Buffer,
  mode: number,
  type: 'File' | 'GlobalExtendedHeader' = 'File',
): Buffer[] {
  const padding = (TAR_BLOCK_BYTES - (content.length % TAR_BLOCK_BYTES)) % TAR_BLOCK_BYTES;
  return [tarEntry({ path, type, mode, size: content.length }), content, Buffer.alloc(padding)];
}

/** `git archive` names the commit like this. */
function commitRecord(): Buffer {
  const record = ` comment=${'c0ffee'.padEnd(40, '0')}\n`;
  return Buffer.from(`${record.length + 2}${record}`);
}

/** One entry of a tar as it was read. */
export interface ReadEntry {
  /** `File`, `Directory`, `SymbolicLink` …, as the tar names it. */
  readonly type: string;
  readonly mode: number;
  readonly content: string;
}

/** The entries of a gzipped tar, in its order. @throws if it is damaged or cut */
export async function readTarGz(bytes: Buffer): Promise<ReadonlyMap<string, ReadEntry>> {
  const entries = new Map<string, ReadEntry>();
  const parser = new Parser({ strict: true });
  const finished = new Promise<void>((resolve, reject) => parser.once('end', resolve).once('error', reject));
  parser.on('entry', (entry) => {
    const chunks: Buffer[] = [];
    entry.on('data', (chunk: Buffer) => chunks.push(chunk));
    entry.on('end', () => {
      const content = Buffer.concat(chunks).toString();
      entries.set(entry.path, { type: entry.type, mode: entry.mode ?? 0, content });
    });
  });
  parser.end(gunzipSync(bytes));
  await finished;
  return entries;
}
