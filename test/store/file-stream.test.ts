import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { StorageFailed } from '../../src/errors.ts';
import type { ArchiveBody } from '../../src/store/archive-body.ts';
import { openFileStream, ReadingMemory } from '../../src/store/file-stream.ts';

const MIB = 1024 * 1024;

let directory: string;
let path: string;
const content = randomBytes(5 * MIB + 7);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-file-stream-'));
  path = join(directory, 'file.zip');
  await writeFile(path, content);
});
afterAll(() => rm(directory, { recursive: true }));

function opened(memory: ReadingMemory, range?: { start: number; end: number }): Promise<ArchiveBody> {
  return openFileStream({ what: 'an archive', path, size: content.length, range, memory });
}

/** Gives each chunk back as soon as it was looked at. */
async function digestOf(body: ArchiveBody, onChunk: (chunk: Buffer) => void = () => {}): Promise<string> {
  const digest = createHash('sha256');
  body.on('data', (chunk: Buffer) => {
    digest.update(chunk);
    onChunk(chunk);
    body.release?.(chunk);
  });
  await once(body, 'end');
  return digest.digest('hex');
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

describe('what is read', () => {
  test('is the file, byte for byte', async () => {
    expect(await digestOf(await opened(new ReadingMemory()))).toBe(sha256(content));
  });

  test.each([
    [0, 0],
    [1, MIB],
    [MIB - 1, 2 * MIB],
    [content.length - 1, content.length - 1],
  ])('is the range from %i to %i', async (start, end) => {
    expect(await digestOf(await opened(new ReadingMemory(), { start, end }))).toBe(
      sha256(content.subarray(start, end + 1)),
    );
  });

  test('is the file for each of twenty who read at once into the same memory', async () => {
    const memory = new ReadingMemory();
    const bodies = await Promise.all(Array.from({ length: 20 }, () => opened(memory)));
    const digests = await Promise.all(bodies.map((body) => digestOf(body)));
    expect(new Set(digests)).toEqual(new Set([sha256(content)]));
  });

  test('is not touched again while nobody gives it back', async () => {
    const chunks: Buffer[] = [];
    for await (const chunk of await opened(new ReadingMemory())) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).equals(content)).toBe(true);
  });
});

describe('memory', () => {
  test('that came back is read into again', async () => {
    const memory = new ReadingMemory();
    const pieces = new Set<ArrayBufferLike>();
    for (let time = 0; time < 3; time += 1) await digestOf(await opened(memory), (chunk) => pieces.add(chunk.buffer));
    expect(pieces.size).toBe(1);
  });

  test('is less for each when there are many', async () => {
    const memory = new ReadingMemory();
    const largest = async (body: ArchiveBody) => {
      let bytes = 0;
      await digestOf(body, (chunk) => {
        bytes = Math.max(bytes, chunk.length);
      });
      return bytes;
    };
    expect(await largest(await opened(memory))).toBe(MIB);
    const bodies = await Promise.all(Array.from({ length: 20 }, () => opened(memory)));
    const [first, ...others] = bodies;
    expect(await largest(first as ArchiveBody)).toBe(MIB / 4);
    // Those who left do not count any more.
    for (const body of others) body.destroy();
    await Promise.all(others.map((body) => (body.closed ? undefined : once(body, 'close'))));
    expect(await largest(await opened(memory))).toBe(MIB);
  });

  test('nothing is read before it is wanted, nor while the reader pauses', async () => {
    const memory = new CountedMemory();
    const body = await opened(memory);
    expect(memory.taken).toBe(0);
    body.on('data', () => body.pause());
    await once(body, 'data');
    // Whatever had been begun meanwhile would be over when this is.
    await digestOf(await opened(new ReadingMemory()));
    expect(memory.taken).toBe(1);
    body.destroy();
  });

  test('that is being read into is not lent again before the read is over, though nobody wants it any more', async () => {
    const memory = new CountedMemory();
    const body = await opened(memory);
    body.resume();
    await memory.firstTaken;
    body.destroy();
    expect(memory.returned).toBe(0);
    await once(body, 'close');
    await expect.poll(() => memory.returned).toBe(1);
  });
});

class CountedMemory extends ReadingMemory {
  taken = 0;
  returned = 0;
  #tell = () => {};
  readonly firstTaken = new Promise<void>((resolve) => {
    this.#tell = resolve;
  });

  override take(): Buffer {
    this.taken += 1;
    this.#tell();
    return super.take();
  }

  override giveBack(chunk: Buffer): void {
    this.returned += 1;
    super.giveBack(chunk);
  }
}

describe('failures', () => {
  test('a file that is not there is gone', async () => {
    const failure = openFileStream({
      what: 'an archive',
      path: join(directory, 'absent.zip'),
      size: 1,
      range: undefined,
      memory: new ReadingMemory(),
    });
    await expect(failure).rejects.toMatchObject({ code: 'STORAGE_FAILED', gone: true });
  });

  test('a file of another size is not begun with', async () => {
    const failure = openFileStream({
      what: 'an archive',
      path,
      size: content.length + 1,
      range: undefined,
      memory: new ReadingMemory(),
    });
    await expect(failure).rejects.toThrow(StorageFailed);
  });

  test('a file that becomes shorter under the eyes of its reader is a failure, not an end', async () => {
    const shrinking = join(directory, 'shrinking.zip');
    await writeFile(shrinking, content);
    const body = await openFileStream({
      what: 'an archive',
      path: shrinking,
      size: content.length,
      range: undefined,
      memory: new ReadingMemory(),
    });
    await truncate(shrinking, MIB);
    await expect(digestOf(body)).rejects.toThrow('reading an archive failed');
  });

  test.skipIf(process.platform !== 'linux')(
    'no descriptor stays open, whether it is read, left half-way or never begun',
    async () => {
      const memory = new ReadingMemory();
      await digestOf(await opened(memory));
      const begun = await opened(memory);
      await once(begun, 'data');
      const idle = await opened(memory);
      for (const body of [begun, idle]) {
        body.destroy();
        if (!body.closed) await once(body, 'close');
      }
      expect(openDescriptorsOf(path)).toBe(0);
    },
  );
});

function openDescriptorsOf(file: string): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === file;
    } catch {
      // The one the list was read from.
      return false;
    }
  }).length;
}
