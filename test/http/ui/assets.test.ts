import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';

const DIRECTORY = join(import.meta.dirname, '..', '..', '..', 'assets', 'ui');
const text = (name: string) => readFileSync(join(DIRECTORY, name), 'utf8');

it('the script of the dashboard has the types that it says', () => {
  const file = join(DIRECTORY, 'tsconfig.json');
  const { options, fileNames, errors } = ts.parseJsonConfigFileContent(
    ts.readConfigFile(file, ts.sys.readFile).config,
    ts.sys,
    DIRECTORY,
  );
  expect([errors, fileNames.length]).toEqual([[], 1]);
  const program = ts.createProgram(fileNames, options);
  const problems = ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
  expect(problems).toEqual([]);
}, 60_000);

it('nothing of it comes from elsewhere, or is made of text', () => {
  for (const name of ['dashboard.css', 'dashboard.js'])
    expect(text(name)).not.toMatch(/https?:|@import|url\(|eval\(|innerHTML/);
});
