import { Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { ArchiveCache } from '../../src/cache/archive-cache.ts';
import { silentLogger } from '../../src/logger.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { archiveOf, sha256Hex } from '../contract/archive-store.ts';
import { inChunks } from './scripted-source.ts';

/**
 * A process that downloads into the directory given, one archive after the other, until it is killed. Says `begun`
 * with each archive; the parent decides how much later it dies.
 */
const [directory = ''] = process.argv.slice(2);
const store = await DirectoryArchiveStore.open({ directory, hasher: new PackageHasher(), logger: silentLogger });
const cache = new ArchiveCache({ store, logger: silentLogger, concurrentDownloads: 4 });

async function* slowly(bytes: Buffer) {
  for await (const chunk of inChunks(bytes, 16 * 1024)) {
    await turn();
    yield chunk;
  }
}

for (let index = 0; ; index += 1) {
  const archive = archiveOf(`terraform-provider-widget_1.0.${index}_linux_amd64.zip`);
  const bytes = Buffer.alloc(300_000, `${index} `);
  console.log('begun');
  await cache.read(archive, async () => ({
    sha256: sha256Hex(bytes),
    size: bytes.length,
    release: { shasums: Buffer.from(`sums ${index}`), signature: Buffer.from('signature') },
    open: async () => ({ body: Readable.from(slowly(bytes)), offset: 0, size: bytes.length }),
  }));
  await cache.drain(60_000);
}
