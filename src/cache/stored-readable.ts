import type { ArchiveStore, ReadPurpose, StoredArchive } from '../store/archive-store.ts';
import type { ReadableArchive } from './readable-archive.ts';

/** A stored archive, as something to send. */
export function storedReadable(store: ArchiveStore, stored: StoredArchive, purpose?: ReadPurpose): ReadableArchive {
  return {
    state: 'stored',
    size: stored.size,
    sha256: stored.sha256,
    storedAt: stored.storedAt,
    ...(store.link && purpose !== 'look' && { link: async () => store.link?.(stored) }),
    stream: (range) => store.read(stored, range, purpose),
  };
}
