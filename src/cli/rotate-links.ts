import type { Command } from 'commander';
import { openLinkKeys } from '../admission.ts';
import { AuditLog } from '../audit.ts';
import { loadConfig } from '../config.ts';
import { createLogger } from '../logger.ts';

/** `larder rotate-links`: gives download links a new key, in the data directory and in Redis, beside running servers. */
export function addRotateLinks(program: Command): void {
  program
    .command('rotate-links')
    .description('sign download links with a new key; running servers take it up within a minute')
    .option('-c, --config <file>', 'configuration laid over the defaults (also LARDER_CONFIG)')
    .option('--revoke', 'and refuse all links that were signed before, instead of letting them expire')
    .action(async ({ config: file, revoke = false }: { config?: string; revoke?: boolean }) => {
      const config = await loadConfig({ ...(file && { file }), env: process.env, cwd: process.cwd() });
      const logger = createLogger(config.log);
      const keys = await openLinkKeys(config, logger);
      try {
        await keys.rotate({ revoke });
      } finally {
        keys.close();
      }
      if (config.log.audit !== undefined) {
        const audit = new AuditLog({ file: config.log.audit, logger });
        audit.record('links-rotated', { client: 'command line', revoke });
        await audit.close();
      }
      console.log(
        revoke
          ? 'links are signed with a new key; those signed before are refused within seconds'
          : 'links are signed with a new key within a minute; those signed before are good until they expire',
      );
    });
}
