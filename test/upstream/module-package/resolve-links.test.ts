import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { FileTree } from '../../../src/upstream/module-package/file-tree.ts';
import { resolveLinks } from '../../../src/upstream/module-package/resolve-links.ts';
import { addText, emptyTree, HOST } from './packing.ts';

/** `path: '-> target'` is a link, `'/'` a directory, anything else a file of that text. */
async function treeOf(entries: Readonly<Record<string, string>>, limits = {}): Promise<FileTree> {
  const tree = await emptyTree(limits);
  for (const [path, value] of Object.entries(entries)) await add(tree, path, value);
  return tree;
}

async function add(tree: FileTree, path: string, value: string): Promise<void> {
  if (value.startsWith('-> ')) tree.addLink(path, value.slice(3));
  else if (value === '/') tree.addDirectory(path);
  else await addText(tree, path, value);
}

/** Paths with the path whose content they have. */
function flat(tree: FileTree): Record<string, string> {
  const owners = new Map<string, string>();
  for (const [path, entry] of tree.entries) {
    if (entry.kind === 'file' && !owners.has(placeOf(entry))) owners.set(placeOf(entry), path);
  }
  return Object.fromEntries(
    resolveLinks(tree).entries.map((entry) => [
      entry.path,
      entry.kind === 'file' ? (owners.get(placeOf(entry)) as string) : '/',
    ]),
  );
}

function placeOf({ content, offset }: { content: string; offset: number }): string {
  return `${content} from ${offset}`;
}

const flatOf = async (entries: Readonly<Record<string, string>>, limits = {}) => flat(await treeOf(entries, limits));

test('R81: a link to a file becomes that file, with no second copy of its bytes', async () => {
  expect(await flatOf({ a: 'x', 'sub/b': '-> ../a', 'sub/c': '-> b' })).toEqual({ a: 'a', 'sub/b': 'a', 'sub/c': 'a' });
});

test('a link to a directory becomes all that is in it', async () => {
  expect(await flatOf({ 'm/x/a': '1', 'm/x/b/c': '2', link: '-> m/x', 'm/y': '-> ./x//b/' })).toEqual({
    'm/x/a': 'm/x/a',
    'm/x/b/c': 'm/x/b/c',
    'link/a': 'm/x/a',
    'link/b/c': 'm/x/b/c',
    'm/y/c': 'm/x/b/c',
  });
});

test('links lead through links, and .. goes up from where a link leads', async () => {
  expect(await flatOf({ 'real/deep/a': '1', 'real/b': '2', short: '-> real/deep', up: '-> short/../b' })).toEqual({
    'real/deep/a': 'real/deep/a',
    'real/b': 'real/b',
    'short/a': 'real/deep/a',
    up: 'real/b',
  });
});

test('hard links share the bytes of what they name, also before it comes', async () => {
  const tree = await treeOf({ 'd/a': 'x' });
  tree.addHardLink('e/b', 'd/a');
  tree.addHardLink('c', './e/b');
  tree.addHardLink('f/later', 'g/z');
  await addText(tree, 'g/z', 'z');
  expect(flat(tree)).toEqual({ 'd/a': 'd/a', 'e/b': 'd/a', c: 'd/a', 'f/later': 'g/z', 'g/z': 'g/z' });
});

test('empty directories stay, and those that lose all they have', async () => {
  expect(await flatOf({ empty: '/', 'a/gone': '-> nowhere', copy: '-> empty' })).toEqual({
    empty: '/',
    a: '/',
    copy: '/',
  });
});

test('links that lead nowhere or in a circle are left out and told', async () => {
  const tree = await treeOf({
    a: 'x',
    'd/nowhere': '-> ../missing',
    through: '-> a/b',
    self: '-> self',
    one: '-> two',
    two: '-> one',
  });
  expect(flat(tree)).toEqual({ a: 'a', d: '/' });
  expect([...resolveLinks(tree).danglingLinks].sort()).toEqual(['d/nowhere', 'one', 'self', 'through', 'two']);
});

test('a long chain of links, in any order, is no trouble for the stack', async () => {
  const links = Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`l${n}`, `-> l${n + 1}`]));
  const result = await flatOf({ ...links, l900: 'end' });
  expect(result['l900']).toBe('l900');
  expect(result['l899']).toBe('l900');
});

test.each(['/etc/passwd', '../x', 'd/../../x', 'C:\\x', '../../..'])(
  'a link to %j refuses the package',
  async (target) => {
    const tree = await treeOf({ 'd/a': 'x', link: `-> ${target}` });
    expect(() => resolveLinks(tree)).toThrow(`${HOST} has a link "link" in a package that leads out of it`);
  },
);

test('a link that leads out through another link refuses the package', async () => {
  const tree = await treeOf({ 'd/a': 'x', 'd/up': '-> ..', link: '-> d/up/../y' });
  expect(() => resolveLinks(tree)).toThrow('"link"');
});

test('a link to a directory around itself is followed once', async () => {
  expect(await flatOf({ 'main.tf': '1', 'examples/x/main.tf': '2', 'examples/x/module': '-> ../..' })).toEqual({
    'main.tf': 'main.tf',
    'examples/x/main.tf': 'examples/x/main.tf',
    'examples/x/module/main.tf': 'main.tf',
    'examples/x/module/examples/x/main.tf': 'examples/x/main.tf',
  });
});

describe('links that multiply what there is are refused', () => {
  test('each level ten times the one before: 10^20 files', async () => {
    const entries: Record<string, string> = { 'd0/f': 'x' };
    for (let level = 1; level <= 20; level++) {
      for (let n = 0; n < 10; n++) entries[`d${level}/l${n}`] = `-> ../d${level - 1}`;
    }
    const tree = await treeOf(entries);
    const startedAt = performance.now();
    expect(() => resolveLinks(tree)).toThrow('more than 1000 files');
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  test('directories around themselves by many names', async () => {
    const entries: Record<string, string> = { f: 'x' };
    for (let n = 0; n < 30; n++) entries[`l${n}`] = '-> .';
    const tree = await treeOf(entries);
    expect(() => resolveLinks(tree)).toThrow('more than 1000 files');
  });

  test('bytes count as often as they will be in the package', async () => {
    const entries: Record<string, string> = { f: 'x'.repeat(100) };
    for (let n = 0; n < 10; n++) entries[`l${n}`] = '-> f';
    const tree = await treeOf(entries, { unpacked: 1_000 });
    expect(() => resolveLinks(tree)).toThrow('more than 1000 bytes');
  });

  test('chains of long targets cost bounded time', async () => {
    const entries: Record<string, string> = { 'a/x': 'x' };
    for (let n = 0; n < 900; n++) entries[`l${n}`] = `-> ${'a/../'.repeat(700)}l${n + 1}`;
    const tree = await treeOf({ ...entries, l900: '-> l0' });
    const startedAt = performance.now();
    expect(() => resolveLinks(tree)).toThrow('too many other links');
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });
});

test('whatever links there are, what comes out is flat, inside, below the limits, and the same in any order', async () => {
  const name = fc.constantFrom('a', 'b', 'c');
  const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((names) => names.join('/'));
  const target = fc.array(fc.constantFrom('a', 'b', 'c', '..', '.'), { minLength: 1, maxLength: 4 });
  const link = target.map((names) => `-> ${names.join('/')}`);
  const entries = fc.array(fc.tuple(path, fc.oneof(link, fc.constant('text'), fc.constant('/'))), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(entries, async (list) => {
      const tree = await emptyTree({ files: 200 });
      const accepted: [string, string][] = [];
      for (const [place, value] of list) {
        if (tree.entries.has(place)) continue;
        try {
          await add(tree, place, value);
          accepted.push([place, value]);
        } catch (error) {
          expect(error).toMatchObject({ code: 'UPSTREAM_INVALID' });
        }
      }
      const reversed = await emptyTree({ files: 200 });
      for (const [place, value] of accepted.reverse()) await add(reversed, place, value);

      const [result, other] = [tree, reversed].map((each) => {
        try {
          return flat(each);
        } catch (error) {
          return (error as Error).message;
        }
      });
      if (typeof result === 'object') {
        const paths = Object.keys(result);
        expect(paths.length).toBeLessThanOrEqual(200);
        for (const one of paths) expect(paths.filter((path) => path.startsWith(`${one}/`))).toEqual([]);
        expect(other).toEqual(result);
      } else {
        expect(result).toMatch(/leads out of it|more than 200/);
        expect(other).toMatch(/leads out of it|more than 200/);
      }
    }),
    { numRuns: 60 },
  );
});
