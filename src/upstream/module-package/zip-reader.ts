import { once } from 'node:events';
import { crc32 } from 'node:zlib';
import { type Entry, openPromise, type ZipFile } from 'yauzl';
import { LarderError, StorageFailed } from '../../errors.ts';
import type { FileTree } from './file-tree.ts';
import { textOf } from './tar-format.ts';
import { quoted } from './tree-path.ts';

/** Unix systems say in the upper half of the attributes what an entry is. Others have no modes. */
const UNIX_SYSTEMS: ReadonlySet<number> = new Set([3, 19]);
const TYPE_MASK = 0o170000;
const REGULAR = 0o100000;
const DIRECTORY = 0o040000;
const LINK = 0o120000;
const OWNER_EXECUTES = 0o100;

const STORED = 0;
const DEFLATED = 8;
const DATA_DESCRIPTOR_FLAG = 0x8;
/** As systems have it for paths. */
const MAX_TARGET_BYTES = 4096;

/**
 * Reads a zip file into a tree: zip64 too, sizes and checksums compared.
 *
 * @throws UpstreamInvalid for what is damaged, encrypted or compressed in another way, and whatever the tree throws
 */
export async function readZip(file: string, tree: FileTree, signal: AbortSignal): Promise<void> {
  let zip: ZipFile | undefined;
  try {
    zip = await openPromise(file, { autoClose: false, decodeStrings: false, validateEntrySizes: true });
    if (zip.entryCount > tree.limits.files) throw tree.tooMany();
    for await (const entry of zip.eachEntry()) {
      signal.throwIfAborted();
      await addEntry(zip, entry, tree, signal);
    }
  } catch (error) {
    if (error instanceof LarderError || signal.aborted) throw error;
    if ((error as { syscall?: unknown }).syscall) throw new StorageFailed('unpacking a module', error);
    throw tree.refuse(`has an archive that is damaged: ${(error as Error).message}`, { cause: error });
  } finally {
    await closed(zip);
  }
}

async function addEntry(zip: ZipFile, entry: Entry, tree: FileTree, signal: AbortSignal): Promise<void> {
  const path = textOf(entry.fileNameRaw);
  const unixMode = UNIX_SYSTEMS.has(entry.versionMadeBy >>> 8) ? entry.externalFileAttributes >>> 16 : 0;
  const type = unixMode & TYPE_MASK;
  if (path.endsWith('/') || type === DIRECTORY) {
    tree.addDirectory(path);
    return;
  }
  if (entry.isEncrypted()) throw tree.refuse(`has an entry ${quoted(path)} in a package that is encrypted`);
  if (entry.compressionMethod !== STORED && entry.compressionMethod !== DEFLATED) {
    throw tree.refuse(
      `has an entry ${quoted(path)} in a package that is compressed with the unsupported method ${entry.compressionMethod}`,
    );
  }
  const content = contentOf(zip, entry, signal);
  if (type === LINK) {
    tree.addLink(path, await targetIn(content, entry, tree, path));
  } else if (type === 0 || type === REGULAR) {
    const executable = (unixMode & OWNER_EXECUTES) !== 0;
    await tree.addFile(path, { executable, size: entry.uncompressedSize }, content);
  } else {
    throw tree.refuse(`has an entry ${quoted(path)} in a package that is neither file, link nor directory`);
  }
}

async function targetIn(content: AsyncIterable<Buffer>, entry: Entry, tree: FileTree, path: string): Promise<string> {
  if (entry.uncompressedSize > MAX_TARGET_BYTES) {
    throw tree.refuse(`has a link ${quoted(path)} in a package whose target is longer than ${MAX_TARGET_BYTES} bytes`);
  }
  const chunks: Buffer[] = [];
  for await (const chunk of content) chunks.push(chunk);
  return textOf(Buffer.concat(chunks));
}

/** Ends when `signal` does; the sizes are compared by the package. */
async function* contentOf(zip: ZipFile, entry: Entry, signal: AbortSignal): AsyncGenerator<Buffer> {
  let checksum = 0;
  const stream = await zip.openReadStreamPromise(entry);
  try {
    for await (const chunk of stream) {
      signal.throwIfAborted();
      checksum = crc32(chunk, checksum);
      yield chunk;
    }
  } finally {
    stream.destroy();
  }
  // As the clients read it: without a data descriptor, zero means that none was recorded.
  const recorded = entry.crc32 !== 0 || (entry.generalPurposeBitFlag & DATA_DESCRIPTOR_FLAG) !== 0;
  if (recorded && checksum !== entry.crc32) throw new Error('the checksum of an entry does not match');
}

async function closed(zip: ZipFile | undefined): Promise<void> {
  if (!zip?.isOpen) return;
  const end = once(zip, 'close').catch(() => {});
  zip.close();
  await end;
}
