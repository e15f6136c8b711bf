import { IntegrityMismatch } from '../errors.ts';
import type { ModuleMirror } from './module-mirror.ts';
import type { ProviderMirror } from './provider-mirror.ts';
import type { Healer } from './scrub.ts';

/** Fetches as a client's request does that finds nothing stored. */
export function healerThrough(
  mirror: Pick<ProviderMirror, 'describeArchive' | 'openArchive'>,
  modules: Pick<ModuleMirror, 'openPackage'>,
): Healer {
  return {
    archive: async ({ archive, sha256 }) => {
      const told = await mirror.describeArchive(archive);
      // Of some versions no checksums are kept to which upstream could be held.
      if (told.sha256 !== sha256) {
        throw new IntegrityMismatch(`upstream has other bytes as ${archive.filename} than were stored: ${told.sha256}`);
      }
      const readable = await mirror.openArchive(archive);
      await readable.settled?.();
    },
    // Held to the record of the first one, which is kept.
    package: async ({ release }) => void (await modules.openPackage(release)),
  };
}
