import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { passLines } from '../../src/workers/whole-lines.ts';

it('lines of several processes do not mingle, and a last one without an end is not lost', async () => {
  const [one, two, to] = [new PassThrough(), new PassThrough(), new PassThrough()];
  passLines(one, to);
  passLines(two, to);
  const turn = () => new Promise(setImmediate);
  one.write('a');
  await turn();
  two.write('1\n2');
  await turn();
  one.write('b\nc\nd');
  await turn();
  two.end('3');
  await turn();
  one.destroy();
  await turn();
  await turn();
  to.end();
  expect(await text(to)).toBe('1\nab\nc\n23d');
});
