import { BLOCK_BYTES, paddingOf } from './tar-format.ts';

/** What readers of tar take for the beginning of time, and some complain of, is avoided: 1 January 2000. Seconds. */
const MODIFIED_AT_S = 946_684_800;
const NAME_BYTES = 100;
const PREFIX_BYTES = 155;
/** The most that eleven octal digits can say. */
const MAX_OCTAL_SIZE = 8 * 1024 ** 3 - 1;

export interface TarMember {
  readonly path: string;
  readonly kind: 'file' | 'directory';
  /** Bytes; 0 for a directory. */
  readonly size: number;
  readonly executable: boolean;
}

/**
 * What stands before the content of a member: the same bytes for the same member, wherever and whenever it is written.
 * ustar; a pax header comes first where the path or the size needs one.
 */
export function tarHeader({ path, kind, size, executable }: TarMember): Buffer {
  const name = kind === 'directory' ? `${path}/` : path;
  const mode = kind === 'directory' || executable ? 0o755 : 0o644;
  const type = kind === 'directory' ? '5' : '0';
  const split = splitPath(name);
  const records = [
    ...(split ? [] : [record('path', name)]),
    ...(size > MAX_OCTAL_SIZE ? [record('size', `${size}`)] : []),
  ];
  const header = block({ ...(split ?? shortened(name)), mode, size: size > MAX_OCTAL_SIZE ? 0 : size, type });
  if (records.length === 0) return header;
  const body = Buffer.concat(records);
  const extended = block({ prefix: '', name: 'pax_header', mode: 0o644, size: body.length, type: 'x' });
  return Buffer.concat([extended, body, Buffer.alloc(paddingOf(body.length)), header]);
}

/** Ends an archive. */
export const TAR_END: Buffer = Buffer.alloc(2 * BLOCK_BYTES);

/** How ustar holds a path; `undefined` when it cannot, or not for every reader: what is not ASCII. */
function splitPath(path: string): { prefix: string; name: string } | undefined {
  if (!/^[ -~]*$/.test(path)) return undefined;
  if (path.length <= NAME_BYTES) return { prefix: '', name: path };
  const slash = path.lastIndexOf('/', PREFIX_BYTES);
  // A slash at the end belongs to the name.
  const at = slash === path.length - 1 ? path.lastIndexOf('/', slash - 1) : slash;
  if (at <= 0 || path.length - at - 1 > NAME_BYTES) return undefined;
  return { prefix: path.slice(0, at), name: path.slice(at + 1) };
}

/** For readers that know no pax headers; those that do overwrite it. */
function shortened(path: string): { prefix: string; name: string } {
  return {
    prefix: '',
    name: path
      .replace(/[^ -~]/gu, '_')
      .slice(0, NAME_BYTES)
      .replace(/\/$/, '_'),
  };
}

function block(fields: { prefix: string; name: string; mode: number; size: number; type: string }): Buffer {
  const bytes = Buffer.alloc(BLOCK_BYTES);
  bytes.write(fields.name, 0, 'latin1');
  bytes.write(octal(fields.mode, 7), 100, 'latin1');
  bytes.write(octal(0, 7), 108, 'latin1');
  bytes.write(octal(0, 7), 116, 'latin1');
  bytes.write(octal(fields.size, 11), 124, 'latin1');
  bytes.write(octal(MODIFIED_AT_S, 11), 136, 'latin1');
  bytes.write('        ', 148, 'latin1');
  bytes.write(fields.type, 156, 'latin1');
  bytes.write('ustar\x0000', 257, 'latin1');
  bytes.write(octal(0, 7), 329, 'latin1');
  bytes.write(octal(0, 7), 337, 'latin1');
  bytes.write(fields.prefix, 345, 'latin1');
  const checksum = bytes.reduce((sum, byte) => sum + byte, 0);
  bytes.write(`${octal(checksum, 6)}\0 `, 148, 'latin1');
  return bytes;
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0');
}

/** Its length counts itself. */
function record(key: string, value: string): Buffer {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + 1;
  while (rest + `${length}`.length !== length) length = rest + `${length}`.length;
  return Buffer.from(`${length} ${key}=${value}\n`);
}
