import { execFileSync } from 'node:child_process';
import { mkdtemp, open, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type AfterComparison, type ChangedFile, ChangedFiles } from '../../src/store/changed-files.ts';
import { archiveOf, sha256Hex } from '../contract/archive-store.ts';
import { recordingLogger } from '../support/recording-logger.ts';

const LONG_AGO = new Date('2024-01-01T00:00:00Z');
const BYTES = Buffer.from('what it was');

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-changed-'));
});

afterEach(() => rm(directory, { recursive: true, force: true }));

async function changed(index: number, bytes = BYTES, at = LONG_AGO): Promise<ChangedFile> {
  const subject = archiveOf(`terraform-provider-widget_1.${index}.0_linux_amd64.zip`);
  const path = join(directory, subject.filename);
  await writeFile(path, bytes);
  await utimes(path, at, at);
  return { subject, path, sha256: sha256Hex(BYTES), file: await stat(path) };
}

/** Is read for as long as somebody has it open for writing. */
async function pipe(index: number): Promise<ChangedFile> {
  const file = await changed(index);
  await rm(file.path);
  execFileSync('mkfifo', [file.path]);
  await utimes(file.path, LONG_AGO, LONG_AGO);
  return { ...file, file: await stat(file.path) };
}

/** Tells what became of files; noting takes until `end`. */
function scripted() {
  const did: string[] = [];
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const ends = (name: string): AfterComparison => ({
    note: async (mtimeMs) => {
      did.push(`${name} noted ${mtimeMs === LONG_AGO.getTime()}`);
      await ended;
    },
    putAside: async () => void did.push(`${name} put aside`),
  });
  return { did, ends, end };
}

describe('files that were written to', () => {
  test('are compared once for all who ask, and told from memory afterwards', async () => {
    const files = new ChangedFiles({ logger: recordingLogger() });
    const { did, ends, end } = scripted();
    end();
    const file = await changed(0);
    expect(await Promise.all([1, 2, 3].map(() => files.isSame(file, ends('it'))))).toEqual([true, true, true]);
    expect(await files.isSame(file, ends('it'))).toBe(true);
    expect(did).toEqual(['it noted true']);
  });

  test('are compared one after the other, and nobody waits longer than is bearable', async () => {
    const files = new ChangedFiles({ logger: recordingLogger(), patienceMs: 20 });
    const { did, ends, end } = scripted();
    const [first, second] = [await changed(1), await changed(2, Buffer.from('what it is!'))];
    const refused = { code: 'STORAGE_FAILED', busy: true, hint: expect.stringContaining('ask again') };
    const asked = [files.isSame(first, ends('first')), files.isSame(second, ends('second'))];
    await Promise.all(asked.map((answer) => expect(answer).rejects.toMatchObject(refused)));
    await expect(files.isSame(second, ends('second'))).rejects.toMatchObject(refused);
    end();
    // Both go on without anybody who waits.
    await expect.poll(() => did, { timeout: 10_000 }).toEqual(['first noted true', 'second put aside']);
    expect(await files.isSame(first, ends('first'))).toBe(true);
  });

  test('that are gone, or no files any more, are not what they were', async () => {
    const files = new ChangedFiles({ logger: recordingLogger() });
    const { did, ends } = scripted();
    const file = await changed(3);
    await rm(file.path);
    expect(await files.isSame(file, ends('it'))).toBe(false);
    expect(did).toEqual([]);
  });

  test('are not judged by a digest that is out of date when they are replaced while others have their turn', async () => {
    const files = new ChangedFiles({ logger: recordingLogger() });
    const { did, ends, end } = scripted();
    const first = files.isSame(await changed(5), ends('first'));
    const second = files.isSame(await changed(6, Buffer.from('what it is!')), ends('second'));
    await changed(6, Buffer.from('as it is fetched anew'), new Date(LONG_AGO.getTime() + 1_000));
    end();
    expect(await first).toBe(true);
    await expect(second).rejects.toMatchObject({ busy: true });
    expect(did).toEqual(['first noted true']);
  });

  test('are neither absent nor altered when somebody writes to them while they are read', async () => {
    const files = new ChangedFiles({ logger: recordingLogger() });
    const { did, ends } = scripted();
    const file = await pipe(7);
    const asked = files.isSame(file, ends('it'));
    // Opens once it is being read.
    const writer = await open(file.path, 'w');
    await writer.write('more');
    await writer.close();
    await expect(asked).rejects.toMatchObject({ busy: true });
    expect(did).toEqual([]);
  });

  test('on a disk that does not answer keep nobody from closing', async () => {
    const files = new ChangedFiles({ logger: recordingLogger() });
    const { did, ends } = scripted();
    const file = await pipe(8);
    const [under, next] = [files.isSame(file, ends('it')), files.isSame(await changed(9), ends('next'))];
    const ended = Promise.allSettled([under, next]);
    const writer = await open(file.path, 'w');
    await files.close();
    await writer.close();
    const refused = { status: 'rejected', reason: expect.objectContaining({ busy: true }) };
    expect(await ended).toEqual([refused, refused]);
    expect(did).toEqual([]);
  });

  test('are as they were found last: what replaces them is compared anew', async () => {
    const files = new ChangedFiles({ logger: recordingLogger() });
    const { did, ends, end } = scripted();
    end();
    expect(await files.isSame(await changed(4), ends('first'))).toBe(true);
    const other = new Date(LONG_AGO.getTime() + 1_000);
    expect(await files.isSame(await changed(4, Buffer.from('what it is!'), other), ends('second'))).toBe(false);
    expect(did).toEqual(['first noted true', 'second put aside']);
  });
});
