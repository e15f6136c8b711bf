import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PackageCache } from '../../src/cache/package-cache.ts';
import { silentLogger } from '../../src/logger.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { sha256Hex } from '../contract/archive-store.ts';
import { releaseOf } from '../contract/module-store.ts';

/**
 * A process that makes module packages in the directory given, one after the other, until it is killed. Says `begun`
 * with each; the parent decides how much later it dies.
 */
const [directory = ''] = process.argv.slice(2);
const store = await DirectoryModuleStore.open({ directory, logger: silentLogger });
const cache = new PackageCache({ store, logger: silentLogger, concurrent: 2, timeLimitMs: 60_000 });

for (let index = 0; ; index += 1) {
  const bytes = Buffer.alloc(300_000, `${index} `);
  console.log('begun');
  await cache.read(releaseOf(`1.0.${index}`), async ({ path }) => {
    for (let part = 0; part < 5; part += 1) await writeFile(join(path, `part ${part}`), bytes);
    const file = join(path, 'package');
    await writeFile(file, bytes);
    return { sha256: sha256Hex(bytes), size: bytes.length, subdir: '', source: 'x', fingerprint: undefined, file };
  });
}
