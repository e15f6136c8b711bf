import type { Command } from 'commander';
import { DataDirectory } from './data-directory.ts';

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
      const directory = await DataDirectory.open(file);
      let intact = 0;
      let damaged = 0;
      try {
        for await (const { archive, isIntact } of directory.verify()) {
          if (isIntact) intact += 1;
          else damaged += 1;
          if (json)
            console.log(JSON.stringify({ archive: archive.toString(), state: isIntact ? 'intact' : 'discarded' }));
          else if (!isIntact) console.log(`${archive}: damaged, discarded`);
        }
      } finally {
        await directory.close();
      }
      if (!json) console.log(`${intact} intact, ${damaged} damaged and discarded`);
      if (damaged > 0) process.exitCode = 1;
    });
}
