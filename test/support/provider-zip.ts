import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { crc32 } from 'node:zlib';
import { ZipFile } from 'yazl';
import { type ByteSource, eachChunk, JoinedBytes, MemoryBytes, PseudoRandomBytes, sha256Of } from './byte-source.ts';

/** A provider package with what lock files say of it. */
export interface ProviderZip {
  readonly bytes: ByteSource;
  /** Lower-case hex SHA-256 of the zip. */
  readonly sha256: string;
  /** `h1:` of the zip, worked out from what was put in; `undefined` for bytes made elsewhere. */
  readonly h1: string | undefined;
}

export interface ProviderZipOptions {
  readonly type: string;
  readonly version: string;
  readonly platform: string;
  /** Pads with incompressible bytes to exactly this size. */
  readonly sizeBytes?: number | undefined;
  /** Adds directory entries, as some publishers' zips have them. */
  readonly directoryEntries?: boolean | undefined;
}

// Zip has local times without a zone: any fixed date makes the file the same on every machine whose zone is the same.
const MODIFIED = new Date(2024, 0, 1, 12);
const EXECUTABLE = 0o100755;
const READABLE = 0o100644;

/** A small, real provider package: the same arguments give the same bytes. */
export async function smallProviderZip(options: ProviderZipOptions): Promise<ProviderZip> {
  const zip = new ZipFile();
  const contents = new Map<string, Buffer>();
  const add = (name: string, bytes: Buffer, mode: number) => {
    contents.set(name, bytes);
    zip.addBuffer(bytes, name, { mtime: MODIFIED, mode, forceDosTimestamp: true });
  };
  add(executableName(options), Buffer.from(describeProvider(options)), EXECUTABLE);
  add('LICENSE.txt', Buffer.from('Made for a test. Take it.\n'), READABLE);
  if (options.directoryEntries) {
    zip.addEmptyDirectory('docs/', { mtime: MODIFIED, forceDosTimestamp: true });
    contents.set('docs/', Buffer.alloc(0));
    add('docs/index.md', Buffer.from('# Nothing to read\n'), READABLE);
  }
  zip.end();
  return zipFromBuffer(
    await buffer(zip.outputStream),
    [...contents].map(([name, bytes]) => [name, createHash('sha256').update(bytes).digest('hex')] as const),
  );
}

/** Bytes made elsewhere (or broken on purpose) in the place of a package. */
export async function zipFromBuffer(
  zip: Buffer,
  entries?: readonly (readonly [name: string, sha256: string])[],
): Promise<ProviderZip> {
  const bytes = new MemoryBytes(zip);
  return { bytes, sha256: await sha256Of(bytes), h1: entries && dirhash(entries) };
}

/**
 * A real package of exactly `sizeBytes`, holding one stored (uncompressed) executable that is made while being read:
 * hundreds of megabytes cost no memory. Its digests are worked out once per process, by reading it through.
 */
export function largeProviderZip(options: ProviderZipOptions & { sizeBytes: number }): Promise<ProviderZip> {
  const { type, version, platform, sizeBytes } = options;
  const key = JSON.stringify([type, version, platform, sizeBytes]);
  const known = largeZips.get(key) ?? makeLargeZip(options);
  largeZips.set(key, known);
  return known;
}

const largeZips = new Map<string, Promise<ProviderZip>>();

async function makeLargeZip(options: ProviderZipOptions & { sizeBytes: number }): Promise<ProviderZip> {
  const name = Buffer.from(executableName(options));
  const overhead = LOCAL_HEADER_BYTES + CENTRAL_HEADER_BYTES + 2 * name.length + END_BYTES;
  if (options.sizeBytes < overhead) throw new RangeError(`a zip needs at least ${overhead} bytes`);

  const content = new PseudoRandomBytes(describeProvider(options), options.sizeBytes - overhead);
  const hash = createHash('sha256');
  let crc = 0;
  await eachChunk(content, (chunk) => {
    hash.update(chunk);
    crc = crc32(chunk, crc);
  });
  const bytes = new JoinedBytes([
    new MemoryBytes(localHeader(name, content.size, crc)),
    content,
    new MemoryBytes(directory(name, content.size, crc)),
  ]);
  return { bytes, sha256: await sha256Of(bytes), h1: dirhash([[name.toString(), hash.digest('hex')]]) };
}

function executableName({ type, version }: ProviderZipOptions): string {
  return `terraform-provider-${type}_v${version}`;
}

function describeProvider({ type, version, platform }: ProviderZipOptions): string {
  return `#!/bin/sh\necho "provider ${type} ${version} for ${platform}: made for a test, does nothing"\n`;
}

/** Go's dirhash "Hash1" over the names and digests of a package's entries. */
function dirhash(entries: readonly (readonly [name: string, sha256: string])[]): string {
  const lines = entries
    .toSorted(([one], [other]) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
    .map(([name, sha256]) => `${sha256}  ${name}\n`);
  return `h1:${createHash('sha256').update(lines.join('')).digest('base64')}`;
}

const LOCAL_HEADER_BYTES = 30;
const CENTRAL_HEADER_BYTES = 46;
const END_BYTES = 22;
const DOS_DATE = (44 << 9) | (1 << 5) | 1;
const UNIX_VERSION_2 = (3 << 8) | 20;

function localHeader(name: Buffer, size: number, crc: number): Buffer {
  const header = Buffer.alloc(LOCAL_HEADER_BYTES);
  header.writeUInt32LE(0x04034b50, 0);
  header.writeUInt16LE(20, 4);
  writeCommonFields(header, 6, name, size, crc);
  return Buffer.concat([header, name]);
}

function directory(name: Buffer, size: number, crc: number): Buffer {
  const entry = Buffer.alloc(CENTRAL_HEADER_BYTES);
  entry.writeUInt32LE(0x02014b50, 0);
  entry.writeUInt16LE(UNIX_VERSION_2, 4);
  entry.writeUInt16LE(20, 6);
  writeCommonFields(entry, 8, name, size, crc);
  entry.writeUInt32LE(EXECUTABLE * 0x1_0000, 38);

  const end = Buffer.alloc(END_BYTES);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(CENTRAL_HEADER_BYTES + name.length, 12);
  end.writeUInt32LE(LOCAL_HEADER_BYTES + name.length + size, 16);
  return Buffer.concat([entry, name, end]);
}

/** Flags, method "stored", time, CRC, sizes and name length lie in the same order in both headers. */
function writeCommonFields(header: Buffer, at: number, name: Buffer, size: number, crc: number): void {
  header.writeUInt16LE(DOS_DATE, at + 6);
  header.writeUInt32LE(crc, at + 8);
  header.writeUInt32LE(size, at + 12);
  header.writeUInt32LE(size, at + 16);
  header.writeUInt16LE(name.length, at + 20);
}
