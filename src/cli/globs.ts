import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { isGlob, matchesGlob } from '../upstream/module-package/glob.ts';

/** Whether a path is a pattern: a shell expands it, most of the time. */
export function isPattern(text: string): boolean {
  return isGlob(text);
}

/**
 * The files and directories that a pattern means, sorted: `*`, `?` and `[a-z]` within a name, `**` for any number of
 * directories. What is hidden is meant by patterns only that begin with a dot there, too.
 */
export async function expandPattern(pattern: string, cwd: string): Promise<string[]> {
  const { root } = path.parse(pattern);
  const parts = pattern
    .slice(root.length)
    .split(/[\\/]/)
    .filter((part) => part !== '' && part !== '.');
  let found: string[] = [root];
  for (const [index, part] of parts.entries()) {
    const isLast = index === parts.length - 1;
    const next = await Promise.all(found.map((directory) => step(directory, part, { cwd, isLast })));
    found = [...new Set(next.flat())];
  }
  return found.sort();
}

async function step(directory: string, part: string, at: { cwd: string; isLast: boolean }): Promise<string[]> {
  if (part === '**') {
    // At the end it is the directory as a whole.
    return at.isLast ? [directory || '.'] : directoriesBelow(directory, at.cwd);
  }
  if (!isGlob(part)) return [join(directory, part)];
  const entries = await entriesOf(directory, at.cwd);
  return entries
    .filter(({ name, isDirectory }) => (at.isLast || isDirectory) && (part.startsWith('.') || !name.startsWith('.')))
    .filter(({ name }) => matchesGlob(name, part))
    .map(({ name }) => join(directory, name));
}

async function directoriesBelow(directory: string, cwd: string): Promise<string[]> {
  const found = [directory];
  for (const { name, isDirectory, isLink } of await entriesOf(directory, cwd)) {
    // Links may lead round in circles.
    if (isDirectory && !isLink && !name.startsWith('.'))
      found.push(...(await directoriesBelow(join(directory, name), cwd)));
  }
  return found;
}

async function entriesOf(directory: string, cwd: string) {
  const entries = await readdir(path.resolve(cwd, directory), { withFileTypes: true }).catch(() => []);
  return entries.map((entry) => ({
    name: entry.name,
    isDirectory: entry.isDirectory() || entry.isSymbolicLink(),
    isLink: entry.isSymbolicLink(),
  }));
}

function join(directory: string, name: string): string {
  return directory === '' ? name : path.join(directory, name);
}
