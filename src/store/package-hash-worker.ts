import { createHash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { Readable } from 'node:stream';
import { parentPort } from 'node:worker_threads';
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib';
import { type Entry, fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from 'yauzl';

/**
 * Go's `dirhash.HashZip` with `Hash1`, as the clients compute it: one line `hex(sha256(content))  name` for every
 * entry, directory entries and repeated names included, sorted by the bytes of the names, and the base64 SHA-256 of
 * that. Names stay raw bytes; of a repeated name the last content counts each time; a link's content is its target.
 *
 * What Go would not hash is not hashed here: other methods than stored and deflated, wrong sizes and checksums, line
 * feeds in names.
 *
 * Lock files hold the hash of the files alone, as they lie unpacked: that comes out of the same reading.
 */

/** What the worker answers to a path. `unpacked` is there where it differs. */
export type HashOutcome =
  | { readonly hash: string; readonly unpacked?: string | undefined }
  | { readonly reason: string };

/** Real packages hold a handful of entries. Each costs memory until the end. */
const MAX_ENTRIES = 200_000;
/** Declared size of all contents. The largest providers unpack to about 1 GB. */
const MAX_UNPACKED_BYTES = 16 * 1024 ** 3;
/** More than twice the speed of the default of 16 KiB, and a fifth more than that of 256 KiB. */
const CHUNK_BYTES = 1024 * 1024;
/** Up to this size contents are inflated in one call: setting up a stream costs more than they do. */
const SMALL_BYTES = 1024 * 1024;

const STORED = 0;
const DEFLATED = 8;
const ENCRYPTED_FLAG = 0x1;
const DATA_DESCRIPTOR_FLAG = 0x8;
const LINE_FEED = 0x0a;
const SLASH = 0x2f;

/** Reads ahead: the central directory is read in small pieces, one after the other. */
class BufferedReader extends RandomAccessReader {
  readonly #fd: number;
  readonly #window = Buffer.allocUnsafe(CHUNK_BYTES);
  #start = 0;
  #length = 0;

  constructor(fd: number) {
    super();
    this.#fd = fd;
  }

  override read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null) => void,
  ): void {
    try {
      this.copy(buffer.subarray(offset, offset + length), position);
    } catch (error) {
      callback(error as Error);
      return;
    }
    callback(null);
  }

  /** Fills `target` from `position`. @throws when the file ends before. */
  copy(target: Buffer, position: number): void {
    let filled = 0;
    while (filled < target.length) {
      const at = position + filled;
      if (at < this.#start || at >= this.#start + this.#length) {
        this.#start = at;
        this.#length = readSync(this.#fd, this.#window, 0, this.#window.length, at);
        if (this.#length === 0) throw new Error('the file ends too early');
      }
      filled += this.#window.copy(target, filled, at - this.#start, this.#length);
    }
  }

  override close(callback: (error: Error | null) => void): void {
    callback(null);
  }
}

async function hashZip(path: string): Promise<{ hash: string; unpacked: string | undefined }> {
  const fd = openSync(path, 'r');
  try {
    const reader = new BufferedReader(fd);
    const zip = await fromRandomAccessReaderPromise(reader, fstatSync(fd).size, {
      autoClose: false,
      decodeStrings: false,
      validateEntrySizes: true,
    });
    const entries = await readEntries(zip);

    const digests = new Map<string, string>();
    for (const entry of entriesThatCount(entries)) {
      digests.set(key(entry), await contentDigest(zip, entry, reader, fd));
    }

    const lines = entries.map((entry) => ({ name: key(entry), digest: digests.get(key(entry)) ?? '' }));
    const hash = hashOfLines(lines);
    const unpacked = hashOfLines(unpackedFiles(lines));
    return { hash, unpacked: unpacked === hash ? undefined : unpacked };
  } finally {
    closeSync(fd);
  }
}

async function readEntries(zip: ZipFile): Promise<Entry[]> {
  if (zip.entryCount > MAX_ENTRIES) throw new Error(`it has ${zip.entryCount} entries, more than ${MAX_ENTRIES}`);
  const entries: Entry[] = [];
  let unpacked = 0;
  for await (const entry of zip.eachEntry()) {
    if (entry.fileNameRaw.includes(LINE_FEED)) throw new Error('an entry has a line feed in its name');
    unpacked += entry.uncompressedSize;
    if (unpacked > MAX_UNPACKED_BYTES) throw new Error(`it unpacks to more than ${MAX_UNPACKED_BYTES} bytes`);
    entries.push(entry);
  }
  return entries;
}

/** The last of each name, in the order in which they lie in the file. */
function entriesThatCount(entries: readonly Entry[]): Entry[] {
  const last = new Map(entries.map((entry) => [key(entry), entry]));
  return [...last.values()].sort((a, b) => a.relativeOffsetOfLocalHeader - b.relativeOffsetOfLocalHeader);
}

/** A name, as lossless text, and the digest of what it names. */
interface Line {
  readonly name: string;
  readonly digest: string;
}

function hashOfLines(lines: readonly Line[]): string {
  const whole = createHash('sha256');
  const sorted = [...lines].sort((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
  for (const { name, digest } of sorted) whole.update(`${digest}  ${name}\n`, 'latin1');
  return `h1:${whole.digest('base64')}`;
}

/**
 * What Go's `dirhash.HashDir` finds where the clients have unpacked it: no directories, each path once with what came
 * last, paths cleaned.
 */
function unpackedFiles(lines: readonly Line[]): Line[] {
  const files = new Map<string, Line>();
  for (const { name, digest } of lines) {
    if (name.endsWith('/')) continue;
    const path = name
      .split('/')
      .filter((part) => part !== '' && part !== '.')
      .join('/');
    files.set(path, { name: path, digest });
  }
  return [...files.values()];
}

/** A lossless text of the raw name. */
function key(entry: Entry): string {
  return entry.fileNameRaw.toString('latin1');
}

async function contentDigest(zip: ZipFile, entry: Entry, reader: BufferedReader, fd: number): Promise<string> {
  if (entry.fileNameRaw.at(-1) === SLASH) {
    if (entry.uncompressedSize !== 0) throw new Error('a directory entry has content');
    return createHash('sha256').digest('hex');
  }
  if (entry.generalPurposeBitFlag & ENCRYPTED_FLAG) throw new Error('an entry is encrypted');
  if (entry.compressionMethod !== STORED && entry.compressionMethod !== DEFLATED) {
    throw new Error(`an entry is compressed with the unsupported method ${entry.compressionMethod}`);
  }

  const digest = createHash('sha256');
  let size = 0;
  let checksum = 0;
  for await (const chunk of contents(zip, entry, reader, fd)) {
    size += chunk.length;
    if (size > entry.uncompressedSize) break;
    checksum = crc32(chunk, checksum);
    digest.update(chunk);
  }
  if (size !== entry.uncompressedSize) throw new Error('an entry does not have the size it declares');
  // Like Go: without a data descriptor, a checksum of zero means that none was recorded.
  const recorded = entry.crc32 !== 0 || (entry.generalPurposeBitFlag & DATA_DESCRIPTOR_FLAG) !== 0;
  if (recorded && checksum !== entry.crc32) throw new Error('the checksum of an entry does not match');
  return digest.digest('hex');
}

async function* contents(zip: ZipFile, entry: Entry, reader: BufferedReader, fd: number): AsyncGenerator<Buffer> {
  const { fileDataStart: start } = await zip.readLocalFileHeaderPromise(entry, { minimal: true });
  if (entry.compressedSize === 0) {
    if (entry.compressionMethod === DEFLATED) throw new Error('a compressed entry is empty');
    return;
  }
  if (entry.compressedSize <= SMALL_BYTES && entry.uncompressedSize <= SMALL_BYTES) {
    const packed = Buffer.allocUnsafe(entry.compressedSize);
    reader.copy(packed, start);
    yield entry.compressionMethod === STORED
      ? packed
      : inflateRawSync(packed, { maxOutputLength: Math.max(entry.uncompressedSize, 1) });
    return;
  }
  const packed = chunks(fd, start, entry.compressedSize);
  if (entry.compressionMethod === STORED) {
    yield* packed;
    return;
  }
  const source = Readable.from(packed);
  const inflate = createInflateRaw({ chunkSize: CHUNK_BYTES });
  source.on('error', (error) => inflate.destroy(error));
  try {
    yield* source.pipe(inflate);
  } finally {
    source.destroy();
    inflate.destroy();
  }
}

function* chunks(fd: number, start: number, length: number): Generator<Buffer> {
  for (let position = start; position < start + length; ) {
    const chunk = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, start + length - position));
    const size = readSync(fd, chunk, 0, chunk.length, position);
    if (size === 0) throw new Error('the file ends too early');
    position += size;
    yield chunk.subarray(0, size);
  }
}

parentPort?.on('message', async (path: string) => {
  let outcome: HashOutcome;
  try {
    outcome = await hashZip(path);
  } catch (error) {
    outcome = { reason: (error as Error).message };
  }
  parentPort?.postMessage(outcome);
});
