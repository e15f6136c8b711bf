import { expect, it, vi } from 'vitest';
import { StoredIndex } from '../../src/mirror/stored-index.ts';
import { archivesOf, NO_PACKAGES, storedArchive } from '../http/ui/dashboard-scene.ts';
import { recordingLogger } from '../support/recording-logger.ts';

const HOST = 'registry.example.com';

it('reads again only what changed, and last uses not each time', async () => {
  const all = [storedArchive(`${HOST}/acme/a`, '1.0.0'), storedArchive(`${HOST}/acme/b`, '1.0.0')];
  const archives = archivesOf(all);
  const lastUse = vi.spyOn(archives, 'lastUse');
  const providers = vi.spyOn(archives, 'providers');
  const index = new StoredIndex({ archives, packages: NO_PACKAGES, logger: recordingLogger() });
  const names = async () =>
    (await index.page({ limit: 10 })).rows.map(({ address, version }) => `${address} ${version}`);
  expect(await names()).toHaveLength(2);
  expect(lastUse).toHaveBeenCalledTimes(2);

  // The store hands out the same array while nothing changes.
  await expect
    .poll(async () => {
      await names();
      return providers.mock.calls.length;
    })
    .toBe(2);
  expect(await names()).toHaveLength(2);
  expect(lastUse).toHaveBeenCalledTimes(2);

  const list = archives.list;
  archives.list = async (provider) =>
    provider.type === 'b' ? [storedArchive(`${HOST}/acme/b`, '2.0.0')] : list(provider);
  await expect.poll(names).toEqual([`${HOST}/acme/a 1.0.0`, `${HOST}/acme/b 2.0.0`]);
  expect(lastUse).toHaveBeenCalledTimes(3);
});

it('shows what it has while more is being read, and says so', async () => {
  const archives = archivesOf([storedArchive(`${HOST}/acme/a`, '1.0.0'), storedArchive(`${HOST}/acme/b`, '1.0.0')]);
  const list = archives.list;
  const gate = deferred();
  archives.list = async (provider) => {
    if (provider.type === 'b') await gate.promise;
    return list(provider);
  };
  const index = new StoredIndex({ archives, packages: NO_PACKAGES, logger: recordingLogger() });
  expect(await index.page({ limit: 10 })).toMatchObject({ total: 1, isWhole: false });
  gate.resolve();
  await expect.poll(async () => (await index.page({ limit: 10 })).isWhole).toBe(true);
  expect((await index.page({ limit: 10 })).total).toBe(2);
  await index.close();
});

it('goes on with what it had when the store fails, and logs that', async () => {
  const archives = archivesOf([storedArchive(`${HOST}/acme/a`, '1.0.0')]);
  const log = recordingLogger();
  const index = new StoredIndex({ archives, packages: NO_PACKAGES, logger: log });
  await index.page({ limit: 10 });
  archives.list = async () => Promise.reject(new Error('the disk is gone'));
  await expect
    .poll(async () => {
      expect(await index.page({ limit: 10 })).toMatchObject({ total: 1, isWhole: true });
      return log.lines.map(({ message }) => message);
    })
    .toContainEqual(expect.stringContaining('could not be listed'));
});

function deferred() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
