import type { Dirent } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ProviderArchive } from '../address/archive.ts';
import { ProviderAddress } from '../address/provider.ts';
import { hasCode } from '../errors.ts';
import { paths } from './keys.ts';
import { ifPresent } from './storage-errors.ts';

/**
 * Every provider that has a directory in the packed layout below `directory`. Names that are no address, or another
 * spelling of one, belong to somebody else and are passed over. @throws StorageFailed
 */
export async function* providerDirectories(directory: string): AsyncGenerator<ProviderAddress> {
  const root = join(directory, paths.providers);
  for (const hostname of await directoriesIn(root)) {
    for (const namespace of await directoriesIn(join(root, hostname))) {
      for (const type of await directoriesIn(join(root, hostname, namespace))) {
        const provider = orForeign(() => ProviderAddress.parse(`${hostname}/${namespace}/${type}`));
        if (provider && paths.provider(provider) === `${paths.providers}/${hostname}/${namespace}/${type}`) {
          yield provider;
        }
      }
    }
  }
}

/** The archives that lie in a provider's directory, by their names alone. @throws StorageFailed */
export async function archiveFiles(directory: string, provider: ProviderAddress): Promise<ProviderArchive[]> {
  const names = (await ifPresent('listing a provider', readdir(join(directory, paths.provider(provider))))) ?? [];
  return names
    .filter((name) => name.endsWith('.zip'))
    .flatMap((name) => orForeign(() => ProviderArchive.parseFilename(provider, name)) ?? []);
}

/** Names of what may be a directory, sorted. @throws StorageFailed */
export async function directoriesIn(path: string): Promise<string[]> {
  const entries: Dirent[] = (await ifPresent('listing what is stored', readdir(path, { withFileTypes: true }))) ?? [];
  return entries
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map((entry) => entry.name)
    .sort();
}

/** `undefined` for what does not parse: it belongs to somebody else. */
export function orForeign<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    if (hasCode(error, 'INVALID_ADDRESS')) return undefined;
    throw error;
  }
}
