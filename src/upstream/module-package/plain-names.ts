import type { FlatEntry } from './resolve-links.ts';

/** What neither a URL nor a header changes on its way through a client. */
const PLAIN = /^[\w.~+@=,-]*$/;

/** Whether clients look for a directory under the very name that they are told. */
export function isPlain(subdir: string): boolean {
  return subdir.split('/').every((name) => PLAIN.test(name));
}

/**
 * Makes a directory reachable for clients, who read locations as URLs and look for `a%20b` where `a b` is: names that
 * do not survive that get a second, plain one beside them, with the same in it.
 *
 * @param subdir names a directory that is there
 */
export function withPlainNames(
  entries: readonly FlatEntry[],
  subdir: string,
): { readonly entries: readonly FlatEntry[]; readonly subdir: string } {
  let all = entries;
  const names: string[] = [];
  for (const name of subdir === '' ? [] : subdir.split('/')) {
    const parent = names.length === 0 ? '' : `${names.join('/')}/`;
    if (PLAIN.test(name)) {
      names.push(name);
      continue;
    }
    const plain = unused(all, parent, name.replace(/[^\w.~+@=,-]/gu, '_'));
    const from = `${parent}${name}`;
    all = [...all, ...all.flatMap((entry) => moved(entry, from, `${parent}${plain}`))];
    names.push(plain);
  }
  return { entries: all, subdir: names.join('/') };
}

function unused(entries: readonly FlatEntry[], parent: string, wanted: string): string {
  let name = wanted;
  while (entries.some(({ path }) => path === `${parent}${name}` || path.startsWith(`${parent}${name}/`))) name += '_';
  return name;
}

function moved(entry: FlatEntry, from: string, to: string): FlatEntry[] {
  if (entry.path !== from && !entry.path.startsWith(`${from}/`)) return [];
  return [{ ...entry, path: `${to}${entry.path.slice(from.length)}` }];
}
