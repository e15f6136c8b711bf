import { createHash } from 'node:crypto';
import { crc32, deflateRawSync } from 'node:zlib';

/** One entry, written byte for byte as told: also what no zip library would write. */
export interface HandMadeEntry {
  readonly name: string | Buffer;
  readonly content?: string | Buffer;
  readonly deflate?: boolean;
  /** Written instead of the true value. */
  readonly method?: number;
  readonly crc?: number;
  readonly size?: number;
  readonly flags?: number;
  /** Unix mode: 0o120777 makes a symbolic link. */
  readonly mode?: number;
  /** Sizes and checksum follow the data, as Go and streaming writers do it. */
  readonly descriptor?: boolean;
}

export function handMadeZip(entries: readonly HandMadeEntry[], { comment = '' } = {}): Buffer {
  const local: Buffer[] = [];
  const central: Buffer[] = [];
  let offset = 0;
  for (const entry of entries) {
    const name = Buffer.from(entry.name);
    const content = Buffer.from(entry.content ?? '');
    const data = entry.deflate ? deflateRawSync(content) : content;
    const method = entry.method ?? (entry.deflate ? 8 : 0);
    const flags = (entry.flags ?? 0) | (entry.descriptor ? 8 : 0);
    const crc = entry.crc ?? crc32(content);
    const size = entry.size ?? content.length;

    const fields = (inLocalHeader: boolean) => {
      const aside = inLocalHeader && entry.descriptor;
      const buffer = Buffer.alloc(26);
      buffer.writeUInt16LE(20, 0);
      buffer.writeUInt16LE(flags, 2);
      buffer.writeUInt16LE(method, 4);
      buffer.writeUInt32LE(aside ? 0 : crc, 10);
      buffer.writeUInt32LE(aside ? 0 : data.length, 14);
      buffer.writeUInt32LE(aside ? 0 : size, 18);
      buffer.writeUInt16LE(name.length, 22);
      return buffer;
    };
    const descriptor = Buffer.alloc(entry.descriptor ? 16 : 0);
    if (entry.descriptor) {
      descriptor.writeUInt32LE(0x08074b50, 0);
      descriptor.writeUInt32LE(crc, 4);
      descriptor.writeUInt32LE(data.length, 8);
      descriptor.writeUInt32LE(size, 12);
    }
    const written = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), fields(true), name, data, descriptor]);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(((entry.mode ?? 0o100644) << 16) >>> 0, 6);
    tail.writeUInt32LE(offset, 10);
    central.push(Buffer.from('PK\x01\x02\x14\x03', 'latin1'), fields(false), tail, name);
    local.push(written);
    offset += written.length;
  }
  const directory = Buffer.concat(central);
  const counted = Math.min(entries.length, 0xffff);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(counted, 8);
  end.writeUInt16LE(counted, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(offset, 16);
  end.writeUInt16LE(comment.length, 20);
  const zip64 = counted < entries.length ? zip64End(entries.length, directory.length, offset) : Buffer.alloc(0);
  return Buffer.concat([...local, directory, zip64, end, Buffer.from(comment)]);
}

/** Zip64 end of central directory record and its locator. */
function zip64End(count: number, directorySize: number, directoryOffset: number): Buffer {
  const end = Buffer.alloc(56 + 20);
  end.writeUInt32LE(0x06064b50, 0);
  end.writeBigUInt64LE(44n, 4);
  end.writeBigUInt64LE(BigInt(count), 24);
  end.writeBigUInt64LE(BigInt(count), 32);
  end.writeBigUInt64LE(BigInt(directorySize), 40);
  end.writeBigUInt64LE(BigInt(directoryOffset), 48);
  end.writeUInt32LE(0x07064b50, 56);
  end.writeBigUInt64LE(BigInt(directoryOffset + directorySize), 64);
  end.writeUInt32LE(1, 72);
  return end;
}

/** The definition of `h1:`, written down plainly. */
export function expectedPackageHash(entries: readonly (readonly [name: string | Buffer, content: string | Buffer])[]) {
  const lines = entries.map(([name, content]) => ({
    name: Buffer.from(name),
    line: Buffer.concat([
      Buffer.from(`${createHash('sha256').update(content).digest('hex')}  `),
      Buffer.from(name),
      Buffer.from('\n'),
    ]),
  }));
  lines.sort((a, b) => Buffer.compare(a.name, b.name));
  const whole = createHash('sha256').update(Buffer.concat(lines.map(({ line }) => line)));
  return `h1:${whole.digest('base64')}`;
}
