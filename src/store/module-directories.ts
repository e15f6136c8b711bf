import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ModuleAddress } from '../address/module.ts';
import { Version } from '../address/version.ts';
import { paths } from './keys.ts';
import { directoriesIn, orForeign } from './provider-directories.ts';
import { ifPresent } from './storage-errors.ts';

const PACKAGE = '.tar.gz';
const RECORD = '.json';

/**
 * Every module that has a directory below `directory`. Names that are no address, or another spelling of one, belong to
 * somebody else and are passed over. @throws StorageFailed
 */
export async function* moduleDirectories(directory: string): AsyncGenerator<ModuleAddress> {
  const root = join(directory, paths.modules);
  for (const hostname of await directoriesIn(root)) {
    for (const namespace of await directoriesIn(join(root, hostname))) {
      for (const name of await directoriesIn(join(root, hostname, namespace))) {
        for (const system of await directoriesIn(join(root, hostname, namespace, name))) {
          const text = `${hostname}/${namespace}/${name}/${system}`;
          const module = orForeign(() => ModuleAddress.parse(text));
          if (module && paths.module(module) === `${paths.modules}/${text}`) yield module;
        }
      }
    }
  }
}

/** The versions of which packages and records lie in a module's directory, by their names alone. @throws StorageFailed */
export async function moduleFiles(
  directory: string,
  module: ModuleAddress,
): Promise<{ packages: readonly Version[]; records: readonly Version[] }> {
  const names = (await ifPresent('listing a module', readdir(join(directory, paths.module(module))))) ?? [];
  return { packages: packageVersions(names), records: recordVersions(names) };
}

/** Of packages, by the names of their files. */
export function packageVersions(names: readonly string[]): Version[] {
  return versionsOf(names, PACKAGE);
}

/** Of records, by the names of their files. */
export function recordVersions(names: readonly string[]): Version[] {
  return versionsOf(names, RECORD);
}

function versionsOf(names: readonly string[], suffix: string): Version[] {
  return names
    .filter((name) => name.endsWith(suffix))
    .flatMap((name) => orForeign(() => Version.parse(name.slice(0, -suffix.length))) ?? []);
}
