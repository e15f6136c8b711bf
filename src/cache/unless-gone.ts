import { hasCode } from '../errors.ts';
import type { ReadableArchive } from './readable-archive.ts';

/** What is stored anew may be evicted again, on a disk that is far too small; at some time it is enough. */
const MAX_ATTEMPTS = 3;

/**
 * An archive that may be evicted, by this process or another one, before anybody opens it: then it is had `again`,
 * and whoever reads it notices nothing. Once opened it is read to its end.
 */
export function unlessGone(stored: ReadableArchive, again: () => Promise<ReadableArchive>): ReadableArchive {
  const { state, size, sha256, storedAt } = stored;
  return {
    state,
    size,
    sha256,
    storedAt,
    get written() {
      return stored.written;
    },
    ...(stored.settled && { settled: () => stored.settled?.() ?? Promise.resolve() }),
    ...(stored.link && { link: () => whileThere(stored, again, linkOf) }),
    stream: (range) => whileThere(stored, again, (readable) => readable.stream(range)),
  };
}

async function whileThere<T>(
  stored: ReadableArchive,
  again: () => Promise<ReadableArchive>,
  open: (readable: ReadableArchive) => Promise<T>,
): Promise<T> {
  let readable = stored;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await open(readable);
    } catch (error) {
      if (!hasCode(error, 'STORAGE_FAILED') || !('gone' in error && error.gone) || attempt === MAX_ATTEMPTS)
        throw error;
      readable = await again();
      // Its length and its digest have been told already.
      if (readable.sha256 !== stored.sha256) throw error;
    }
  }
}

/** `undefined` when what was stored is arriving anew. */
async function linkOf(readable: ReadableArchive): Promise<string | undefined> {
  return readable.link?.();
}
