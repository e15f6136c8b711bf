import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { secretSource } from '../src/secret-source.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'larder-secrets-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const file = () => path.join(directory, 'secret');
const source = () => secretSource({ tokenFile: file() }, 'the token file of a host');

describe('a file with a secret', () => {
  it('is read for each request, whatever its times and size say', async () => {
    await writeFile(file(), ' one\r\n');
    const secret = source();
    expect(await secret()).toBe('one');
    for (const next of ['two', 'six', 'ten']) {
      await writeFile(file(), `${next}\n`);
      expect(await secret()).toBe(next);
    }
  });

  it.each([
    ['', 'is empty'],
    ['\n', 'is empty'],
    ['s3cret\ns3cret', 'holds spaces, line breaks or non-ASCII letters'],
    ['s3cret two', 'holds spaces, line breaks or non-ASCII letters'],
    ['s3crét', 'holds spaces, line breaks or non-ASCII letters'],
    [undefined, 'cannot be read'],
  ])('%j is no secret, and is not told', async (text, why) => {
    if (text === undefined) await rm(file(), { force: true });
    else await writeFile(file(), text);
    const message = `the token file of a host ${why}`;
    await expect(source()()).rejects.toMatchObject({ code: 'INVALID_CONFIGURATION', message });
  });
});
