import { expect, test } from 'vitest';
import { isPlain, withPlainNames } from '../../../src/upstream/module-package/plain-names.ts';
import type { FlatEntry } from '../../../src/upstream/module-package/resolve-links.ts';

const file = (path: string, content = '0'): FlatEntry => ({
  kind: 'file',
  path,
  content,
  offset: 0,
  size: 1,
  executable: false,
});
const pathsOf = (entries: readonly FlatEntry[]) => entries.map(({ path }) => path).sort();

test('a directory whose name clients would look for as it is stays as it is', () => {
  const entries = [file('modules/net/main.tf')];
  expect(withPlainNames(entries, 'modules/net')).toEqual({ entries, subdir: 'modules/net' });
  expect(withPlainNames(entries, '')).toEqual({ entries, subdir: '' });
});

test.each([
  ['a b', 'a_b'],
  ['café', 'caf_'],
  ['100%', '100_'],
  ['v?x', 'v_x'],
])('%s is there under a second name, beside the first, so that ../ leads to the same', (name, plain) => {
  const entries = [file(`modules/${name}/main.tf`), file('modules/shared/main.tf')];
  const made = withPlainNames(entries, `modules/${name}`);
  expect(made.subdir).toBe(`modules/${plain}`);
  expect(pathsOf(made.entries)).toEqual(
    [`modules/${name}/main.tf`, `modules/${plain}/main.tf`, 'modules/shared/main.tf'].sort(),
  );
  expect(isPlain(made.subdir)).toBe(true);
});

test('the second name is none that is taken', () => {
  const entries = [file('a b/main.tf', '1'), file('a_b/main.tf', '2'), file('a_b_/main.tf', '3')];
  const { entries: all, subdir } = withPlainNames(entries, 'a b');
  expect(subdir).toBe('a_b__');
  expect(all.find(({ path }) => path === 'a_b__/main.tf')).toMatchObject({ content: '1' });
});

test('every part of a path may need one', () => {
  const { entries, subdir } = withPlainNames([file('my modules/my net/main.tf')], 'my modules/my net');
  expect(subdir).toBe('my_modules/my_net');
  expect(pathsOf(entries)).toContain('my_modules/my_net/main.tf');
});
