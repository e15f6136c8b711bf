import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { configDirectory } from '../support/config-directory.ts';

const DAY_MS = 86_400_000;

const { load } = configDirectory();

it('no age is asked for unless somebody says so', async () => {
  expect((await load('')).cooldown).toEqual({ default: undefined, patterns: [], allow: [] });
});

it('the commented examples of the default file are valid', async () => {
  const text = await readFile(path.join(import.meta.dirname, '..', '..', 'config', 'default.yaml'), 'utf8');
  const section = text.slice(text.indexOf('cooldown:'), text.indexOf('\nlimits:'));
  const [, allowed] = /allow: .*at any age: (.*)$/m.exec(section) ?? [];
  const example = section.replace(/^ {2}patterns: \[\].*\n/m, '').replace(/^ {2}# ?/gm, '  ');
  const { cooldown } = await load(example.replace(/allow: .*$/m, `allow: ${allowed}`));
  expect(cooldown.patterns.map(({ address, age }) => [String(address), age])).toEqual([
    ['registry.corp.example/*/*', undefined],
    ['*/acme/*', 14 * DAY_MS],
  ]);
  expect(cooldown.allow.map(({ address, version }) => `${address}@${version}`)).toEqual([
    'registry.opentofu.org/hashicorp/random@3.7.2',
  ]);
});

it.each([
  ['default: 7', 'cooldown.default: must be a duration'],
  ['patterns: [{ address: "acme/*", age: 1d }]', 'cooldown.patterns[0].address: must be HOST/NAMESPACE/TYPE'],
  ['patterns: [{ address: "*/acme/*" }]', 'cooldown.patterns[0].age: is missing'],
  ['allow: ["*/acme/*"]', 'cooldown.allow[0]: must be HOST/NAMESPACE/TYPE@VERSION'],
  ['allow: ["*/acme/*@latest"]', 'cooldown.allow[0]: must be HOST/NAMESPACE/TYPE@VERSION'],
  ['ages: 7d', 'cooldown.ages: is not a known key'],
])('%s is told with its key', async (line, problem) => {
  await expect(load(`cooldown:\n  ${line}\n`)).rejects.toThrow(problem);
});
