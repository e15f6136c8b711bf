import { describe } from 'vitest';
import { paths } from '../../src/store/keys.ts';
import { testArchiveStore } from '../contract/archive-store.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { S3Server } from '../support/s3.ts';
import { BucketStores } from './bucket-stores.ts';

describe.each([
  ['a bucket', true, ''],
  ['a part of a bucket on a server without conditional writes', false, 'mirrors/larder/'],
])('%s as an archive store', (_, hasConditions, prefix) => {
  testArchiveStore(async () => {
    const server = await S3Server.start();
    server.hasConditions = hasConditions;
    const stores = new BucketStores({ server, logger: recordingLogger(), more: { prefix } });
    const store = await stores.archives();
    const keyOf = (archive: Parameters<typeof paths.archive>[0]) => prefix + paths.archive(archive);
    return {
      store,
      another: () => stores.archives(),
      leftovers: async () => {
        await stores.settle();
        return [...(await stores.partials()), ...(await server.uploads())];
      },
      truncate: (archive) => server.truncate(keyOf(archive)),
      corrupt: (archive) => server.corrupt(keyOf(archive), 1000),
      place: (archive, bytes) => server.put(keyOf(archive), bytes),
      close: async () => {
        await stores.close();
        await server.close();
      },
    };
  });
});
