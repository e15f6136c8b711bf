import type { Command } from 'commander';
import { ModuleRelease } from '../address/module.ts';
import { DataDirectory } from './data-directory.ts';

/**
 * `larder verify`: reads every stored archive and module package and compares its digest. What is damaged is discarded, so
 * that the next request for it brings it anew. Works on the data directory; a server may be running on it meanwhile.
 */
export function addVerify(program: Command): void {
  program
    .command('verify')
    .description('re-hash everything that is stored and discard what is damaged')
    .option('-c, --config <file>', 'configuration laid over the defaults (also LARDER_CONFIG)')
    .option('--json', 'one JSON object an archive or package')
    .action(async ({ config: file, json = false }: { config?: string; json?: boolean }) => {
      const directory = await DataDirectory.open(file);
      let intact = 0;
      let damaged = 0;
      try {
        for await (const { subject, isIntact } of directory.verify()) {
          if (isIntact) intact += 1;
          else damaged += 1;
          const kind = subject instanceof ModuleRelease ? 'package' : 'archive';
          if (json)
            console.log(JSON.stringify({ [kind]: subject.toString(), state: isIntact ? 'intact' : 'discarded' }));
          else if (!isIntact) console.log(`${subject}: damaged, discarded`);
        }
      } finally {
        await directory.close();
      }
      if (!json) console.log(`${intact} intact, ${damaged} damaged and discarded`);
      if (damaged > 0) process.exitCode = 1;
    });
}
