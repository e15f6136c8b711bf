import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import type { ReadableArchive } from './readable-archive.ts';

/** A stored archive, as something to send. */
export function storedReadable(store: ArchiveStore, stored: StoredArchive): ReadableArchive {
  return {
    state: 'stored',
    size: stored.size,
    sha256: stored.sha256,
    storedAt: stored.storedAt,
    stream: (range) => store.read(stored, range),
  };
}
