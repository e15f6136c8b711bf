import { describe } from 'vitest';
import type { ModuleRelease } from '../../src/address/module.ts';
import { paths } from '../../src/store/keys.ts';
import { testModuleStore } from '../contract/module-store.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { S3Server } from '../support/s3.ts';
import { BucketStores } from './bucket-stores.ts';

describe.each([
  ['a bucket', true, ''],
  ['a part of a bucket on a server without conditional writes', false, 'mirrors/larder/'],
])('%s as a module store', (_, hasConditions, prefix) => {
  testModuleStore(async () => {
    const server = await S3Server.start();
    server.hasConditions = hasConditions;
    const stores = new BucketStores({ server, logger: recordingLogger(), more: { prefix } });
    const keyOf = (release: ModuleRelease) => prefix + paths.modulePackage(release);
    return {
      store: await stores.modules(),
      another: () => stores.modules(),
      isGuarded: hasConditions,
      leftovers: async () => [...(await stores.partials()), ...(await server.uploads())],
      truncate: (release) => server.truncate(keyOf(release)),
      corrupt: (release) => server.corrupt(keyOf(release), 100),
      close: async () => {
        await stores.close();
        await server.close();
      },
    };
  });
});
