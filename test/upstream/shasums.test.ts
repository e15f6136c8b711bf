import { expect, test } from 'vitest';
import { parseShasums } from '../../src/upstream/shasums.ts';

const A = 'a'.repeat(64);
const B = 'b'.repeat(64);
const parse = (text: string) => Object.fromEntries(parseShasums(Buffer.from(text)));

test('R42: every file is listed under its own name, archives or not', () => {
  const text = `${A}  terraform-provider-w_1.0.0_linux_amd64.zip\n${B}  terraform-provider-w_1.0.0_manifest.json\n${B}  w.sbom.json\n`;
  expect(parse(text)).toEqual({
    'terraform-provider-w_1.0.0_linux_amd64.zip': A,
    'terraform-provider-w_1.0.0_manifest.json': B,
    'w.sbom.json': B,
  });
});

test.each([
  ['binary mode', `${A} *w.zip\n`],
  ['CRLF', `${A}  w.zip\r\n`],
  ['a path before the name', `${A}  ./w.zip\n`],
  ['upper-case digits', `${A.toUpperCase()}  w.zip\n`],
  ['one space, a tab, no last line break', `\n\n${A}\tw.zip`],
  ['lines that are something else', `-----\n# checksums\n${A}  w.zip\nabc  short.zip\n`],
  ['the same line twice', `${A}  w.zip\n${A}  w.zip\n`],
])('tolerates %s', (_, text) => {
  expect(parse(text)).toEqual({ 'w.zip': A });
});

test('names may hold spaces', () => {
  expect(parse(`${A}  my file.zip\n`)).toEqual({ 'my file.zip': A });
});

test('one name with two digests is a contradiction', () => {
  expect(() => parse(`${A}  w.zip\n${B}  w.zip\n`)).toThrow(
    expect.objectContaining({ code: 'INTEGRITY_MISMATCH', message: expect.stringContaining(B) }),
  );
});

test.each(['', '\n', '<!doctype html><p>Sign in', '{"errors":["Not Found"]}'])('%j is no checksum list', (text) => {
  expect(() => parseShasums(Buffer.from(text), 'up.example')).toThrow(
    expect.objectContaining({ code: 'UPSTREAM_INVALID', host: 'up.example' }),
  );
});
