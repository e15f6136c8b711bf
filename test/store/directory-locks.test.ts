import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { DirectoryLocks } from '../../src/store/directory-locks.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { archiveOf, put } from '../contract/archive-store.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-locks-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** As another process has them. */
const locks = () => new DirectoryLocks({ directory: join(directory, 'locks') });

test('one at a time changes what goes by a name, and what goes by another one does not wait', async () => {
  const replicas = [locks(), locks(), locks()];
  let inside = 0;
  let most = 0;
  const change = async () => {
    inside += 1;
    most = Math.max(most, inside);
    for (let times = 0; times < 3; times += 1) await turn();
    inside -= 1;
  };
  await Promise.all(Array.from({ length: 30 }, (_, index) => replicas[index % 3]?.hold('a', change)));
  expect(most).toBe(1);
  await locks().hold('a', () => locks().hold('b', change));
  expect(await readdir(join(directory, 'locks'))).toEqual([]);
});

test('what fails gives its lock back', async () => {
  await expect(locks().hold('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await locks().hold('a', async () => 'done')).toBe('done');
});

test('a lock that a dead process left is in the way of nobody', async () => {
  let name = '';
  await locks().hold('a', async () => {
    [name = ''] = await readdir(join(directory, 'locks'));
  });
  const left = join(directory, 'locks', name);
  await writeFile(left, '');
  const longAgo = new Date(Date.now() - 20_000);
  await utimes(left, longAgo, longAgo);
  expect(await locks().hold('a', async () => 'done')).toBe('done');
});

test('of many that find what a dead process left, one at a time has the lock all the same', async () => {
  const home = join(directory, 'locks');
  let name = '';
  await locks().hold('a', async () => {
    [name = ''] = await readdir(home);
  });
  let inside = 0;
  let most = 0;
  for (let round = 0; round < 5; round += 1) {
    await writeFile(join(home, name), `left in round ${round}`);
    const longAgo = new Date(Date.now() - 20_000);
    await utimes(join(home, name), longAgo, longAgo);
    const change = async () => {
      inside += 1;
      most = Math.max(most, inside);
      for (let times = 0; times < 20; times += 1) await turn();
      inside -= 1;
    };
    await Promise.all(Array.from({ length: 12 }, () => locks().hold('a', change)));
  }
  expect(most).toBe(1);
  expect(await readdir(home)).toEqual([]);
});

test('whoever was taken for dead leaves alone the lock of whoever came next', async () => {
  const home = join(directory, 'locks');
  await locks().hold('a', async () => {
    const [name = ''] = await readdir(home);
    const lock = join(home, name);
    const longAgo = new Date(Date.now() - 20_000);
    await utimes(lock, longAgo, longAgo);
    await locks().hold('a', async () => {});
    // The next one has it now.
    await writeFile(lock, 'somebody else');
  });
  expect(await readdir(home)).toHaveLength(1);
});

test('where no lock can be made, it goes on without', async () => {
  await writeFile(join(directory, 'locks'), 'in the way');
  expect(await locks().hold('a', async () => 'done')).toBe('done');
});

test('R24: replicas that store platforms of one version at the same time lose none of them', async () => {
  const hasher = new PackageHasher();
  const open = () => DirectoryArchiveStore.open({ directory, hasher, logger: silentLogger });
  const stores = await Promise.all([open(), open(), open()]);
  try {
    const platforms = ['linux', 'darwin', 'windows', 'freebsd'].flatMap((os) => [
      `${os}_amd64`,
      `${os}_arm64`,
      `${os}_386`,
    ]);
    const archives = platforms.map((platform) => archiveOf(`terraform-provider-widget_1.0.0_${platform}.zip`));
    await Promise.all(
      archives.map((archive, index) =>
        put(stores[index % 3] as DirectoryArchiveStore, archive, Buffer.from(`${archive}`)),
      ),
    );
    for (const archive of archives) expect(await stores[0]?.find(archive), archive.filename).toBeDefined();
  } finally {
    await Promise.all(stores.map((store) => store.close()));
    await hasher.close();
  }
});
