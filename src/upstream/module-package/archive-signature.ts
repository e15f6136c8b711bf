import type { ArchiveFormat } from './module-location.ts';

/** Enough to know each of them by. */
export const SIGNATURE_BYTES = 512;

const SIGNATURES: readonly (readonly [ArchiveFormat, Buffer])[] = [
  ['tar.gz', Buffer.from([0x1f, 0x8b])],
  ['tar.xz', Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00])],
  ['tar.bz2', Buffer.from('BZh')],
  ['zip', Buffer.from('PK\x03\x04')],
  ['zip', Buffer.from('PK\x05\x06')],
];

/** Where tar says that it is tar. */
const TAR_MAGIC_OFFSET = 257;

/** What these first bytes of a file may be the beginning of. */
export function formatOf(bytes: Buffer): ArchiveFormat | undefined {
  return SIGNATURES.find(([, signature]) => startsWith(bytes, signature))?.[0];
}

/** What came in place of an archive, in words. */
export function describe(bytes: Buffer): string {
  if (bytes.length === 0) return 'nothing';
  const format = formatOf(bytes);
  if (format) return { zip: 'zip', 'tar.gz': 'gzip', 'tar.xz': 'xz', 'tar.bz2': 'bzip2' }[format];
  if (bytes.toString('latin1', TAR_MAGIC_OFFSET, TAR_MAGIC_OFFSET + 5) === 'ustar') return 'tar without compression';
  const text = bytes.toString('utf8').trimStart();
  if (/^(?:<!doctype html|<html|<head|<body)/i.test(text)) return 'an HTML page';
  if (text.startsWith('<')) return 'XML';
  if (text.startsWith('{') || text.startsWith('[')) return 'JSON';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what text has none of
  return /^[^\u0000-\u0008\u000e-\u001f\ufffd]*\ufffd?$/.test(text) ? 'text' : 'something unknown';
}

function startsWith(bytes: Buffer, signature: Buffer): boolean {
  return bytes.subarray(0, signature.length).equals(signature);
}
