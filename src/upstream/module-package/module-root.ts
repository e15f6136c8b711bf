import type { FileTree } from './file-tree.ts';
import { isGlob, matchesGlob } from './glob.ts';
import type { FlatEntry } from './resolve-links.ts';
import { quoted, readTreePath } from './tree-path.ts';

/** So many names are shown of what there is instead. */
const MAX_SHOWN = 10;

export interface ModuleRoot {
  /** As from the root of the package. */
  readonly entries: readonly FlatEntry[];
  /** Where in the package the module is; no patterns in it. */
  readonly subdir: string;
}

/**
 * Finds the directory of a module. Patterns in `subdir` have to match one directory each. One right at the beginning
 * stands for the directory that many archives wrap everything in: that becomes the root of the package. Otherwise the
 * root stays, so that a module can use what is beside it.
 *
 * @throws UpstreamInvalid when there is no such directory, or more than one
 */
export function moduleRoot(entries: readonly FlatEntry[], subdir: string, refuse: FileTree['refuse']): ModuleRoot {
  const wanted = readTreePath(subdir);
  if ('problem' in wanted) throw refuse(`is asked for the directory ${quoted(subdir)}, which ${wanted.problem}`);
  const names: string[] = [];
  for (const name of wanted.names) {
    names.push(isGlob(name) ? onlyMatch(entries, names, name, refuse) : name);
  }
  const path = names.join('/');
  if (path !== '' && !entries.some((entry) => isWithin(entry, path))) {
    throw refuse(`has no directory ${quoted(path)} in its package${instead(directoriesIn(entries, parentOf(path)))}`);
  }
  const [first] = wanted.names;
  const [wrapper] = names;
  if (first === undefined || wrapper === undefined || !isGlob(first)) return { entries, subdir: path };
  const prefix = `${wrapper}/`;
  return {
    entries: entries.flatMap((entry) =>
      entry.path.startsWith(prefix) ? [{ ...entry, path: entry.path.slice(prefix.length) }] : [],
    ),
    subdir: names.slice(1).join('/'),
  };
}

function onlyMatch(
  entries: readonly FlatEntry[],
  parents: readonly string[],
  pattern: string,
  refuse: FileTree['refuse'],
): string {
  const names = directoriesIn(entries, parents.join('/'));
  const matches = names.filter((name) => matchesGlob(name, pattern));
  const [only] = matches;
  if (only !== undefined && matches.length === 1) return only;
  const shown = quoted([...parents, pattern].join('/'));
  if (only === undefined) throw refuse(`has no directory ${shown} in its package${instead(names)}`);
  throw refuse(`has several directories ${shown} in its package: ${list(matches)}`);
}

/** The names of directories right in `parent`, sorted. */
function directoriesIn(entries: readonly FlatEntry[], parent: string): string[] {
  const prefix = parent === '' ? '' : `${parent}/`;
  const names = new Set<string>();
  for (const { path, kind } of entries) {
    if (!path.startsWith(prefix)) continue;
    const slash = path.indexOf('/', prefix.length);
    if (slash > 0) names.add(path.slice(prefix.length, slash));
    else if (kind === 'directory') names.add(path.slice(prefix.length));
  }
  return [...names].sort();
}

function isWithin(entry: FlatEntry, directory: string): boolean {
  return entry.path.startsWith(`${directory}/`) || (entry.kind === 'directory' && entry.path === directory);
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(path.lastIndexOf('/'), 0));
}

function instead(names: readonly string[]): string {
  return names.length === 0 ? ', and no directory in its place' : `; there are ${list(names)}`;
}

function list(names: readonly string[]): string {
  const shown = names.slice(0, MAX_SHOWN).map(quoted).join(', ');
  return names.length > MAX_SHOWN ? `${shown} and ${names.length - MAX_SHOWN} more` : shown;
}
