import { mkdtemp, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { zipHash } from '../../src/address/hash.ts';
import { silentLogger } from '../../src/logger.ts';
import { makeDirectory } from '../../src/store/make-directory.ts';
import type { MirrorDocuments } from '../../src/store/mirror-documents.ts';
import { RecordedArchives } from '../../src/store/recorded-archives.ts';
import { altered, archiveOf, sha256Hex } from '../contract/archive-store.ts';

const LONG_AGO = new Date('2024-01-01T00:00:00Z');
const archive = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip');
const bytes = Buffer.from('what it was');

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-recorded-'));
});

afterEach(() => rm(directory, { recursive: true, force: true }));

for (const [what, recorded, times] of [
  ['is put aside while its record speaks of it', bytes, 1],
  ['stays where another one is recorded by then', altered(bytes), 0],
] as const) {
  test(`an archive that was altered ${what}`, async () => {
    const record = { hashes: [zipHash(sha256Hex(recorded))], url: archive.filename, size: bytes.length };
    const records = async () => new Map([[archive.platform.toString(), record]]);
    let asides = 0;
    const archives = new RecordedArchives({
      directory,
      documents: { records } as unknown as MirrorDocuments,
      onNoted: () => {},
      putAside: async () => {
        asides += 1;
      },
      logger: silentLogger,
    });
    const path = archives.pathOf(archive);
    await makeDirectory(dirname(path));
    await writeFile(path, altered(bytes));
    await utimes(path, LONG_AGO, LONG_AGO);
    const stored = { archive, size: bytes.length, sha256: sha256Hex(bytes), h1: undefined, storedAt: new Date() };
    expect(await archives.asItWas(stored, await stat(path))).toBeUndefined();
    expect(asides).toBe(times);
  });
}
