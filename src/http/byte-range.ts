import type { ByteRange } from '../store/archive-store.ts';

/**
 * What a `Range` header asks of a file of `size` bytes (RFC 9110, 14.1.2).
 *
 * `whole` when the header is absent, malformed, in another unit, or names several ranges: answering all of it is
 * allowed then. `unsatisfiable` when it begins behind the end. A suffix longer than the file is the file.
 */
export function parseRange(header: string | undefined, size: number): ByteRange | 'whole' | 'unsatisfiable' {
  const [, first, last] = /^bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(header ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return 'whole';
  if (first === '') {
    const length = Math.min(Number(last), size);
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size - 1 };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Number(last);
  if (last !== '' && end < start) return 'whole';
  return start >= size ? 'unsatisfiable' : { start, end: Math.min(end, size - 1) };
}
