/** The POSIX `ustar` and `pax` formats, and what GNU tar adds to them. */

export const BLOCK_BYTES = 512;

/** A header as it stands, before extended headers are laid over it. */
export interface TarHeader {
  readonly type: string;
  readonly path: Buffer;
  readonly linkTarget: Buffer;
  readonly mode: number;
  /** Bytes of the content that follows. */
  readonly size: number;
}

/** Where a header's fields are: offset and length. */
const FIELDS = {
  name: [0, 100],
  mode: [100, 8],
  size: [124, 12],
  checksum: [148, 8],
  type: [156, 1],
  linkTarget: [157, 100],
  magic: [257, 6],
  prefix: [345, 155],
} as const;

const SPACE = 0x20;
const NOT_OCTAL = 0x80;

/** `undefined` for a block of zeros, which ends an archive. @throws Error for a block that is no header */
export function readHeader(block: Buffer): TarHeader | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  if (!checksums(block).includes(numberIn(block, 'checksum'))) throw new Error('a header with a wrong checksum');
  const name = textIn(block, 'name');
  // GNU's own format has other things there.
  const prefix = field(block, 'magic').toString('latin1') === 'ustar\0' ? textIn(block, 'prefix') : Buffer.alloc(0);
  return {
    type: String.fromCharCode(block[FIELDS.type[0]] || 0x30),
    path: prefix.length > 0 ? Buffer.concat([prefix, Buffer.from('/'), name]) : name,
    linkTarget: textIn(block, 'linkTarget'),
    mode: numberIn(block, 'mode'),
    size: numberIn(block, 'size'),
  };
}

/**
 * The records of a pax header; a value may hold anything, line feeds too. @throws Error
 */
export function readPax(body: Buffer): Map<string, Buffer> {
  const records = new Map<string, Buffer>();
  for (let at = 0; at < body.length; ) {
    const space = body.indexOf(SPACE, at);
    const digits = space < 0 ? '' : body.toString('latin1', at, space);
    const end = at + Number(digits);
    const equals = body.indexOf('=', space);
    if (!/^\d{1,10}$/.test(digits) || end > body.length || body[end - 1] !== 0x0a || equals < 0 || equals >= end) {
      throw new Error('an extended header that is damaged');
    }
    records.set(body.toString('utf8', space + 1, equals), body.subarray(equals + 1, end - 1));
    at = end;
  }
  return records;
}

/** Names are UTF-8; what is not is read byte for byte, so that no two names become one. */
export function textOf(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  return text.includes('\ufffd') && !Buffer.from(text).equals(bytes) ? bytes.toString('latin1') : text;
}

/** Bytes of zeros that fill up the last block of a content. */
export function paddingOf(size: number): number {
  return (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;
}

function field(block: Buffer, name: keyof typeof FIELDS): Buffer {
  const [offset, length] = FIELDS[name];
  return block.subarray(offset, offset + length);
}

function textIn(block: Buffer, name: keyof typeof FIELDS): Buffer {
  const bytes = field(block, name);
  const end = bytes.indexOf(0);
  return end < 0 ? bytes : bytes.subarray(0, end);
}

/** Octal digits, or with the highest bit set a big-endian number. */
function numberIn(block: Buffer, name: keyof typeof FIELDS): number {
  const bytes = field(block, name);
  if (((bytes[0] as number) & NOT_OCTAL) !== 0) {
    let value = BigInt((bytes[0] as number) & 0x7f);
    for (const byte of bytes.subarray(1)) value = (value << 8n) | BigInt(byte);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error('a header with an impossible number');
    return Number(value);
  }
  const digits = bytes.toString('latin1').replaceAll('\0', ' ').trim();
  if (!/^[0-7]*$/.test(digits)) throw new Error('a header with an impossible number');
  return digits === '' ? 0 : Number.parseInt(digits, 8);
}

/** Of a header whose checksum field is taken for spaces. Some old programs add signed bytes. */
function checksums(block: Buffer): readonly [number, number] {
  const [offset, length] = FIELDS.checksum;
  let unsigned = 0;
  let signed = 0;
  for (let at = 0; at < BLOCK_BYTES; at++) {
    const byte = at >= offset && at < offset + length ? SPACE : (block[at] as number);
    unsigned += byte;
    signed += byte < NOT_OCTAL ? byte : byte - 256;
  }
  return [unsigned, signed];
}
