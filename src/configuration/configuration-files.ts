import { posix } from 'node:path';

/** Which CLI the configuration is for: only OpenTofu reads `.tofu` files. */
export type Client = 'opentofu' | 'terraform';

/** A file of an upload. `path` with forward slashes or backslashes, relative or not. */
export interface ConfigurationFile {
  readonly path: string;
  readonly text: string;
}

/** The files of a module's package. */
export interface ChildPackage {
  /** Their paths are shown in diagnostics: best begin them with what the package is. */
  readonly files: readonly ConfigurationFile[];
  /** Where among them the called module is, subdirectory included. */
  readonly directory: string;
}

/** The files of one directory that count. */
export interface ConfigurationDirectory {
  /** Sorted by name, as the CLIs read them. */
  readonly primary: readonly ConfigurationFile[];
  /** Sorted by name: later ones win. */
  readonly overrides: readonly ConfigurationFile[];
  readonly lock: ConfigurationFile | undefined;
}

export const LOCK_FILE_NAME = '.terraform.lock.hcl';

const EXTENSION = /\.(tf|tofu)(\.json)?$/;
/** What the CLIs put there themselves, and what belongs to version control. */
const FOREIGN_DIRECTORIES: ReadonlySet<string> = new Set(['.terraform', '.terragrunt-cache', '.git']);

/**
 * Sorts files into directories, by their normalised path, and leaves out what the CLI would not read: other
 * extensions, tests, variables, hidden files, backups of editors, and what `.terraform` holds. For OpenTofu `x.tofu`
 * stands in place of `x.tf`, and `x.tofu.json` of `x.tf.json`.
 */
export function sortFiles(files: readonly ConfigurationFile[], client: Client): Map<string, ConfigurationDirectory> {
  const directories = new Map<string, Map<string, ConfigurationFile>>();
  for (const { path, text } of files) {
    const file = { path: normalisePath(path), text };
    if (file.path.split('/').some((part) => FOREIGN_DIRECTORIES.has(part))) continue;
    const directory = posix.dirname(file.path);
    const names = directories.get(directory) ?? new Map<string, ConfigurationFile>();
    directories.set(directory, names.set(posix.basename(file.path), file));
  }
  const sorted = new Map<string, ConfigurationDirectory>();
  for (const [directory, names] of directories) {
    const counting = [...names].filter(([name]) => counts(name, names, client)).sort(([a], [b]) => (a < b ? -1 : 1));
    const lock = names.get(LOCK_FILE_NAME);
    if (counting.length === 0 && !lock) continue;
    sorted.set(directory, {
      primary: counting.filter(([name]) => !isOverride(name)).map(([, file]) => file),
      overrides: counting.filter(([name]) => isOverride(name)).map(([, file]) => file),
      lock,
    });
  }
  return sorted;
}

/** One spelling for each path: forward slashes, nothing needless. */
export function normalisePath(path: string): string {
  return posix.normalize(path.replaceAll('\\', '/')).replace(/(.)\/$/, '$1');
}

/** Whether it is written as JSON. */
export function isJsonFile({ path }: ConfigurationFile): boolean {
  return path.endsWith('.json');
}

function counts(name: string, all: ReadonlyMap<string, unknown>, client: Client): boolean {
  const [extension, kind, json = ''] = EXTENSION.exec(name) ?? [];
  if (extension === undefined || isIgnored(name)) return false;
  if (client === 'terraform') return kind === 'tf';
  return kind === 'tofu' || !all.has(`${name.slice(0, -extension.length)}.tofu${json}`);
}

/** Hidden files and what editors leave behind (Vim, Emacs). */
function isIgnored(name: string): boolean {
  return name.startsWith('.') || name.endsWith('~') || (name.startsWith('#') && name.endsWith('#'));
}

function isOverride(name: string): boolean {
  return /(^|_)override$/.test(name.replace(EXTENSION, ''));
}
