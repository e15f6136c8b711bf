import type { ProviderArchive } from '../address/archive.ts';
import { type Sha256, sha256Of } from '../address/hash.ts';
import type { StoredArchive } from './archive-store.ts';
import type { ArchiveRecord } from './mirror-document.ts';

/** What a look at a file or an object tells. */
export interface Look {
  /** Bytes. */
  readonly size: number;
  /** When it was last written. */
  readonly mtime: Date;
}

/** A record with both size and digest: written after verification. */
export type OurRecord = ArchiveRecord & { readonly size: number };

export function isOurs(record: ArchiveRecord | undefined): record is OurRecord {
  return record?.size !== undefined && record.hashes.some((hash) => sha256Of(hash));
}

/** The same of an archive with this digest. */
export function isRecordOf(record: ArchiveRecord | undefined, sha256: Sha256): record is OurRecord {
  return isOurs(record) && record.hashes.some((hash) => sha256Of(hash) === sha256);
}

/**
 * What is stored, when the record and the file agree on its size. It was stored when the file was written of which the
 * digest is: one that was written to since has another time.
 */
export function asStored(
  archive: ProviderArchive,
  record: ArchiveRecord | undefined,
  file: Look,
): StoredArchive | undefined {
  if (record?.size !== file.size) return undefined;
  const [sha256] = record.hashes.flatMap((hash) => sha256Of(hash) ?? []);
  if (!sha256) return undefined;
  const h1 = record.hashes.find((hash) => hash.startsWith('h1:'));
  const { mtimeMs } = record;
  return { archive, size: file.size, sha256, h1, storedAt: mtimeMs === undefined ? file.mtime : new Date(mtimeMs) };
}

/** Which bytes were compared with which hashes. */
export function examinationOf(record: ArchiveRecord, identity: string): string {
  return [identity, ...record.hashes].join(' ');
}
