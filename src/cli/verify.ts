import type { Command } from 'commander';
import { loadConfig } from '../config.ts';
import { createLogger } from '../logger.ts';
import { DirectoryArchiveStore } from '../store/directory-archive-store.ts';
import { PackageHasher } from '../store/package-hash.ts';

/**
 * `larder verify`: reads every stored archive and compares its digest. What is damaged is discarded, so that the next
 * request for it fetches it anew. Works on the data directory; a server may be running on it meanwhile.
 */
export function addVerify(program: Command): void {
  program
    .command('verify')
    .description('re-hash everything that is stored and discard what is damaged')
    .option('-c, --config <file>', 'configuration laid over the defaults (also LARDER_CONFIG)')
    .option('--json', 'one JSON object an archive')
    .action(async ({ config: file, json = false }: { config?: string; json?: boolean }) => {
      const config = await loadConfig({ ...(file && { file }), env: process.env, cwd: process.cwd() });
      const hasher = new PackageHasher();
      const store = await DirectoryArchiveStore.open({
        directory: config.data,
        hasher,
        logger: createLogger(config.log),
      });
      let intact = 0;
      let damaged = 0;
      try {
        for await (const provider of store.providers()) {
          for (const stored of await store.list(provider)) {
            const isIntact = await store.verify(stored);
            if (isIntact) intact += 1;
            else {
              damaged += 1;
              await store.discard(stored.archive);
            }
            const archive = stored.archive.toString();
            if (json) console.log(JSON.stringify({ archive, state: isIntact ? 'intact' : 'discarded' }));
            else if (!isIntact) console.log(`${archive}: damaged, discarded`);
          }
        }
      } finally {
        await store.close();
        await hasher.close();
      }
      if (!json) console.log(`${intact} intact, ${damaged} damaged and discarded`);
      if (damaged > 0) process.exitCode = 1;
    });
}
