import { parseSha256 } from '../address/hash.ts';
import { wholeNumber } from './mirror-document.ts';
import type { PackageRecord } from './module-store.ts';

/**
 * `VERSION.json` beside a module package, as people can read it.
 * @param mtimeMs when the package with this digest was last written, in milliseconds since 1970
 */
export function packageRecordText(
  { sha256, size, subdir, source, fingerprint, brought }: PackageRecord,
  mtimeMs?: number | undefined,
): string {
  const document = {
    sha256,
    size,
    ...(mtimeMs !== undefined && { mtime: mtimeMs }),
    subdir,
    source,
    ...(fingerprint !== undefined && { fingerprint }),
    ...(brought && { brought }),
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** `undefined` when it cannot be read. */
export function packageRecordIn(text: string): PackageRecord | undefined {
  try {
    const document: unknown = JSON.parse(text);
    if (typeof document !== 'object' || document === null) return undefined;
    const { sha256, size, subdir, source, fingerprint, brought } = document as Record<string, unknown>;
    if (typeof sha256 !== 'string' || typeof subdir !== 'string' || typeof source !== 'string') return undefined;
    if (!Number.isSafeInteger(size) || (size as number) < 0) return undefined;
    if (fingerprint !== undefined && typeof fingerprint !== 'string') return undefined;
    const record = { sha256: parseSha256(sha256), size: size as number, subdir, source, fingerprint };
    return brought === true ? { ...record, brought } : record;
  } catch {
    // Cut off, or nonsense: the same here.
    return undefined;
  }
}

/** The time in a readable one, in milliseconds since 1970; older ones have none. */
export function packageTimeIn(text: string): number | undefined {
  return wholeNumber((JSON.parse(text) as { mtime?: unknown }).mtime);
}
