import { posix } from 'node:path';
import { type ChildPackage, type ConfigurationFile, normalisePath } from './configuration-files.ts';
import { DirectoryReader, type ReadingOptions } from './directory-reader.ts';
import { type Diagnostic, type ModuleRequirement, mergeRequirements, type Requirements } from './requirements.ts';
import { RootModule } from './root-module.ts';

export interface ConfigurationOptions extends ReadingOptions {
  /** Only this directory, and what it calls. All that hold configuration, when it is left out. */
  readonly directory?: string;
  /** The package of a module from a registry, if it is at hand: what it requires counts as well. May reject. */
  readonly childPackage?: (call: ModuleRequirement) => Promise<ChildPackage | undefined>;
}

/**
 * What a set of configuration files requires: `.tf`, `.tofu`, their JSON forms and lock files, in any number of
 * directories. A directory that no other one calls, or that has a lock file, stands for itself: its constraints hold
 * together with those of all modules it calls, and its lock file says which versions are meant. Other files are
 * ignored; files that cannot be read are reported, while the others count. Never rejects.
 */
export async function readConfiguration(
  files: readonly ConfigurationFile[],
  options: ConfigurationOptions,
): Promise<Requirements> {
  const directories = new DirectoryReader(files, options);
  const isReached = new Set<string>();
  const roots: Requirements[] = [];
  const read = async (path: string) => {
    const root = new RootModule(directories, options);
    roots.push(await root.read(path));
    for (const reached of root.visited(directories)) isReached.add(reached);
  };
  if (options.directory === undefined) {
    for (const path of await rootsOf(directories)) await read(path);
    // Directories that only call each other.
    for (const path of directories.paths) if (!isReached.has(path)) await read(path);
  } else {
    await read(normalisePath(options.directory));
  }
  const merged = mergeRequirements(roots);
  return { ...merged, diagnostics: onceEach(merged.diagnostics) };
}

/** Those that nobody calls and those with a lock file. */
async function rootsOf(directories: DirectoryReader): Promise<string[]> {
  const called = new Set<string>();
  const locked = new Set<string>();
  for (const path of directories.paths) {
    const read = await directories.read(path);
    if (read?.lock) locked.add(path);
    for (const call of read?.module.localCalls ?? []) called.add(normalisePath(posix.join(path, call.path)));
  }
  return directories.paths.filter((path) => locked.has(path) || !called.has(path));
}

/** A directory that belongs to several configurations is complained about in each. */
function onceEach(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  return [...new Map(diagnostics.map((one) => [`${one.file}|${one.at}|${one.message}`, one])).values()];
}
