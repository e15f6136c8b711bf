import { createHash } from 'node:crypto';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { loadClientTokens } from '../src/access.ts';
import type { ClientToken } from '../src/config.ts';
import { recordingLogger } from './support/recording-logger.ts';

const digestOf = (token: string) => createHash('sha256').update(token).digest();
const roles = ['read'] as const;

let file: string;
let clock: { now: number };
beforeEach(async () => {
  const directory = await mkdtemp(join(tmpdir(), 'larder-access-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  file = join(directory, 'token');
  clock = { now: 0 };
  await writeFile(file, 'from-a-file\n');
});

async function load(...tokens: ClientToken[]) {
  const logger = recordingLogger();
  const current = await loadClientTokens(tokens, { logger, now: () => clock.now });
  const digests = async () => {
    clock.now += 1_000;
    return (await current()).map(({ digest }) => digest.toString('hex'));
  };
  return { current, digests, logger };
}

const hex = (token: string) => digestOf(token).toString('hex');

it('tokens are known by their digests, wherever they come from', async () => {
  const { current } = await load(
    { name: 'a', roles, addresses: undefined, token: 'plain' },
    { name: 'b', roles, addresses: undefined, tokenFile: file },
    { name: 'c', roles, addresses: undefined, sha256: hex('by-digest') },
  );
  expect(await current()).toEqual([
    { name: 'a', roles, addresses: undefined, digest: digestOf('plain') },
    { name: 'b', roles, addresses: undefined, digest: digestOf('from-a-file') },
    { name: 'c', roles, addresses: undefined, digest: digestOf('by-digest') },
  ]);
});

it('a token file is read again when it changes, and looked at once a second at most', async () => {
  const { current, digests } = await load({ name: 'a', roles, addresses: undefined, tokenFile: file });
  await writeFile(`${file}.new`, 'rotated-secret');
  await rename(`${file}.new`, file);
  expect((await current()).map(({ digest }) => digest)).toEqual([digestOf('from-a-file')]);
  expect(await digests()).toEqual([hex('rotated-secret')]);
});

it('an emptied file changes nothing until there is a token in it, a removed one takes its token away', async () => {
  const { digests, logger } = await load({ name: 'a', roles, addresses: undefined, tokenFile: file });
  await writeFile(file, '');
  expect(await digests()).toEqual([hex('from-a-file')]);
  await writeFile(file, 'two words of a secret');
  expect(await digests()).toEqual([hex('from-a-file')]);
  await rm(file);
  expect(await digests()).toEqual([]);
  await digests();
  expect(logger.lines.map(({ message }) => message)).toEqual([
    'the token file of a client holds no token',
    'the token file of a client holds no token',
    'the token file of a client cannot be read',
  ]);
  expect(JSON.stringify(logger.lines)).not.toContain('words');
  await writeFile(file, 'back-again');
  expect(await digests()).toEqual([hex('back-again')]);
});

it('a start with a file that holds no token fails, and says whose', async () => {
  await writeFile(file, ' \n');
  await expect(load({ name: 'ops', roles, addresses: undefined, tokenFile: file })).rejects.toMatchObject({
    code: 'INVALID_CONFIGURATION',
    message: expect.stringContaining('ops'),
  });
});

it('of tokens that may administer and are so short that they can be guessed the log warns, without them', async () => {
  const admin = ['read', 'admin'] as const;
  const { logger } = await load(
    { name: 'admin', roles: admin, addresses: undefined, token: 'fifteen-letters' },
    { name: 'ops', roles: admin, addresses: undefined, token: 'sixteen-letters!' },
    { name: 'ci', roles, addresses: undefined, token: 'short' },
  );
  expect(logger.lines).toMatchObject([
    { level: 'warn', message: expect.stringContaining('less than 16 characters'), fields: { tokens: ['admin'] } },
  ]);
  expect(JSON.stringify(logger.lines)).not.toContain('fifteen-letters');
});
