import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type MakePackage, PackageCache } from '../../src/cache/package-cache.ts';
import { UpstreamRefused } from '../../src/errors.ts';
import { silentLogger } from '../../src/logger.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { leaseKeys, paths } from '../../src/store/keys.ts';
import { LocalLeases } from '../../src/store/local-leases.ts';
import { sha256Hex } from '../contract/archive-store.ts';
import { acquired } from '../contract/leases.ts';
import { releaseOf } from '../contract/module-store.ts';
import { gate } from './scripted-source.ts';

const release = releaseOf('1.0.0');
const BYTES = Buffer.from('a package');

let directory: string;
/** Shared by all replicas of a test. */
let leases: LocalLeases;
let caches: PackageCache[];
/** Names of replicas, as they begin to make it. */
let makers: string[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-package-replicas-'));
  leases = new LocalLeases();
  [caches, makers] = [[], []];
});

afterEach(async () => {
  await Promise.all(caches.map((cache) => cache.close()));
  try {
    expect(await readdir(join(directory, paths.partial))).toEqual([]);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

async function replica(): Promise<PackageCache> {
  const store = await DirectoryModuleStore.open({ directory, logger: silentLogger });
  const cache = new PackageCache({ store, leases, logger: silentLogger, concurrent: 4, timeLimitMs: 60_000 });
  caches.push(cache);
  return cache;
}

function maker(name: string, before: () => Promise<void> = async () => {}): MakePackage {
  return async ({ path }) => {
    makers.push(name);
    await before();
    const file = join(path, 'package.tar.gz');
    await writeFile(file, BYTES);
    const about = { subdir: '', source: 'https://example.com/net.tar.gz', fingerprint: undefined };
    return { sha256: sha256Hex(BYTES), size: BYTES.length, ...about, file };
  };
}

test('R24: one replica makes a package, and the others read it when it is there', async () => {
  const [here, there] = [await replica(), await replica()];
  const passed = gate();
  const own = here.read(
    release,
    maker('here', () => passed.passed),
  );
  await expect.poll(() => makers).toEqual(['here']);
  const others = Array.from({ length: 5 }, () => there.read(release, maker('there')));
  await expect.poll(() => there.isMaking(release)).toBe(true);
  passed.open();
  expect((await Promise.all([own, ...others])).map(({ sha256 }) => sha256)).toEqual(Array(6).fill(sha256Hex(BYTES)));
  expect(makers).toEqual(['here']);
  expect(await leases.look(leaseKeys.modulePackage(release))).toBeUndefined();
});

test('R24: what one replica could not make, or died over, another one makes', async () => {
  const [here, there] = [await replica(), await replica()];
  const passed = gate();
  const failing = maker('here', async () => {
    await passed.passed;
    throw new UpstreamRefused('git.example.com', 'answered 403');
  });
  const own = here.read(release, failing);
  await expect.poll(() => makers).toEqual(['here']);
  const other = there.read(release, maker('there'));
  passed.open();
  await expect(own).rejects.toMatchObject({ code: 'UPSTREAM_REFUSED' });
  expect(await other).toMatchObject({ size: BYTES.length });
  expect(makers).toEqual(['here', 'there']);

  const next = releaseOf('2.0.0');
  await acquired(leases, leaseKeys.modulePackage(next));
  const waiting = there.read(next, maker('there'));
  await expect.poll(() => there.isMaking(next)).toBe(true);
  await leases.close();
  expect(await waiting).toMatchObject({ size: BYTES.length });
});

test('closing ends those who wait for another replica', async () => {
  const cache = await replica();
  await acquired(leases, leaseKeys.modulePackage(release));
  const waiting = cache.read(release, maker('here'));
  waiting.catch(() => {});
  await expect.poll(() => cache.isMaking(release)).toBe(true);
  await cache.close();
  await expect(waiting).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
  expect(makers).toEqual([]);
});
