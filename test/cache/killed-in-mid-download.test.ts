import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { ArchiveCache } from '../../src/cache/archive-cache.ts';
import { PackageCache } from '../../src/cache/package-cache.ts';
import { silentLogger } from '../../src/logger.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { paths } from '../../src/store/keys.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { archiveOf } from '../contract/archive-store.ts';
import { putPackage, releaseOf } from '../contract/module-store.ts';
import { inChunks, ScriptedSource } from './scripted-source.ts';

const hasher = new PackageHasher();
afterAll(() => hasher.close());

const WRITER = fileURLToPath(new URL('./interrupted-writer.ts', import.meta.url));
const PACKAGER = fileURLToPath(new URL('./interrupted-packager.ts', import.meta.url));
const TSX = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
const { provider } = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip');

/** Kills the writer so many milliseconds after it has begun its third archive or package. */
async function kill(script: string, directory: string, afterMs: number): Promise<void> {
  const writer = spawn(process.execPath, ['--import', TSX, script, directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(writer, 'exit');
  let begun = 0;
  for await (const _ of createInterface({ input: writer.stdout })) {
    begun += 1;
    if (begun === 3) break;
  }
  await delay(afterMs);
  writer.kill('SIGKILL');
  await exited;
}

test('R03: a process killed at any moment leaves nothing that is served, and the next read succeeds', async () => {
  // The moments cover writing, syncing, renaming and the documents: one archive takes the writer tens of milliseconds.
  await Promise.all([0, 3, 7, 11, 17, 29].map(checkAfterKill));
}, 120_000);

async function checkAfterKill(afterMs: number): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-killed-'));
  try {
    await kill(WRITER, directory, afterMs);
    const store = await DirectoryArchiveStore.open({ directory, hasher, logger: silentLogger });
    expect(await readdir(join(directory, paths.partial))).toEqual([]);

    const present = await store.list(provider);
    expect(present.length).toBeGreaterThanOrEqual(2);
    for (const stored of present) expect(await store.verify(stored)).toBe(true);
    for (const name of await readdir(join(directory, paths.provider(provider)))) {
      if (name.endsWith('.json')) JSON.parse(await readFile(join(directory, paths.provider(provider), name), 'utf8'));
    }

    const cache = new ArchiveCache({ store, logger: silentLogger, concurrentDownloads: 1 });
    for (let index = 0; index <= present.length + 1; index += 1) {
      const archive = archiveOf(`terraform-provider-widget_1.0.${index}_linux_amd64.zip`);
      const source = new ScriptedSource(Buffer.alloc(300_000, `${index} `), (rest) => inChunks(rest));
      const body = await buffer(await (await cache.read(archive, source.load)).stream());
      expect(source.bytes.equals(body)).toBe(true);
    }
    await cache.close();
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
    await store.close();
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

test('nor does one that makes module packages', async () => {
  await Promise.all([0, 3, 7, 13].map(checkPackagesAfterKill));
}, 120_000);

async function checkPackagesAfterKill(afterMs: number): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-killed-'));
  try {
    await kill(PACKAGER, directory, afterMs);
    const store = await DirectoryModuleStore.open({ directory, logger: silentLogger });
    expect(await readdir(join(directory, paths.partial))).toEqual([]);

    const { module } = releaseOf('1.0.0');
    const present = await store.list(module);
    expect(present.length).toBeGreaterThanOrEqual(2);
    for (const stored of present) expect(await store.verify(stored)).toBe(true);
    for (const version of await store.recorded(module))
      expect(await store.recall(releaseOf(`${version}`))).toBeDefined();

    const cache = new PackageCache({ store, logger: silentLogger, concurrent: 1, timeLimitMs: 60_000 });
    for (let index = 0; index <= present.length + 1; index += 1) {
      const release = releaseOf(`1.0.${index}`);
      const bytes = Buffer.alloc(300_000, `${index} `);
      const stored = (await cache.find(release)) ?? (await putPackage(store, release, bytes));
      expect(bytes.equals(await buffer(await cache.readable(stored).stream()))).toBe(true);
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
