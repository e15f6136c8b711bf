import { mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { LastUses } from '../../src/store/last-uses.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const START = Date.parse('2026-03-01T12:00:00Z');
const STORED_AT = new Date('2025-01-01T00:00:00Z');
const PATH = 'providers/registry.example.com/acme/widget/archive.zip';

let directory: string;
let now: number;
let warnings: string[];

const open = () =>
  new LastUses({
    directory,
    logger: { ...silentLogger, warn: (message) => void warnings.push(message) },
    now: () => now,
  });
const marker = () => join(directory, 'last-use', PATH);
const written = async () => (await stat(marker())).mtimeMs;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-uses-'));
  now = START;
  warnings = [];
});

afterEach(() => rm(directory, { recursive: true, force: true }));

it('what was never used was last used when it was stored', async () => {
  expect(await open().of(PATH, STORED_AT)).toEqual(STORED_AT);
});

it('a use is remembered at once, written down in batches, and known after a restart and to others', async () => {
  const uses = open();
  uses.note(PATH);
  expect(await uses.of(PATH, STORED_AT)).toEqual(new Date(START));
  expect(await readdir(directory)).toEqual([]);
  await uses.close();
  expect(await open().of(PATH, STORED_AT)).toEqual(new Date(START));
});

it('of one file at most one use an hour is written down, and the last one at the end', async () => {
  const uses = open();
  uses.note(PATH);
  await uses.flush();
  now += 10 * MINUTE;
  uses.note(PATH);
  await uses.flush();
  expect(await written()).toBe(START);
  expect(await uses.of(PATH, STORED_AT)).toEqual(new Date(now));
  now += HOUR;
  uses.note(PATH);
  await uses.flush();
  expect(await written()).toBe(now);
  now += MINUTE;
  uses.note(PATH);
  await uses.close();
  expect(await written()).toBe(now);
});

it('a clock that jumps ahead and is set back leaves nothing used in the future', async () => {
  now = START + 365 * 24 * HOUR;
  const ahead = open();
  ahead.note(PATH);
  await ahead.close();
  now = START;
  const uses = open();
  expect(await uses.of(PATH, STORED_AT)).toEqual(new Date(START));
  uses.note(PATH);
  await uses.flush();
  expect(await written()).toBe(START);
});

it('what is removed is forgotten', async () => {
  const uses = open();
  uses.note(PATH);
  await uses.flush();
  await uses.forget(PATH);
  await uses.forget(PATH);
  await uses.close();
  expect(await uses.of(PATH, STORED_AT)).toEqual(STORED_AT);
});

it('a disk that takes nothing is told of in the log, and nobody suffers', async () => {
  await writeFile(join(directory, 'last-use'), 'in the way');
  const uses = open();
  uses.note(PATH);
  await uses.flush();
  expect(warnings).toHaveLength(1);
  expect(await uses.of(PATH, STORED_AT)).toEqual(new Date(START));
  await rm(join(directory, 'last-use'));
  await uses.close();
  expect(await written()).toBe(START);
});

it('the use that another process wrote down is known', async () => {
  const uses = open();
  uses.note(PATH);
  await uses.flush();
  now += 3 * HOUR;
  await utimes(marker(), new Date(now), new Date(now));
  expect(await uses.of(PATH, STORED_AT)).toEqual(new Date(now));
  await uses.close();
});
