import type { Command } from 'commander';
import { createApp } from '../app.ts';
import { describeConfig, loadConfig } from '../config.ts';
import { startUpMessage } from '../http/cli-snippets.ts';
import { createLogger } from '../logger.ts';
import { startFailure } from './start-failure.ts';

/** `larder serve`: runs the mirror until SIGTERM or SIGINT, then finishes what is under way. */
export function addServe(program: Command, version: string): void {
  program
    .command('serve')
    .description('run the mirror')
    .option('-c, --config <file>', 'configuration laid over the defaults (also LARDER_CONFIG)')
    .action(async ({ config: file }: { config?: string }) => {
      const config = await loadConfig({ ...(file && { file }), env: process.env, cwd: process.cwd() });
      const logger = createLogger(config.log);
      const explained = (error: unknown) => {
        throw startFailure(error, config);
      };
      const app = await createApp(config, { logger, version }).catch(explained);
      // Before it listens: whoever sees it listening may end it.
      const shutdown = firstOf('SIGTERM', 'SIGINT');
      const address = await app.listen().catch(explained);
      logger.info('listening', { version, ...describeConfig(config), url: address.url });

      const caFile = app.authority?.file;
      const baseUrl = config.publicUrl ?? address.url;
      const upstreams = config.upstreams.hosts.map(({ hostname }) => hostname);
      const needsToken = config.access.anonymous === 'none';
      console.log(startUpMessage({ baseUrl, upstreams, needsToken, ...(caFile && { caFile }) }));

      process.on('SIGHUP', () => {
        void app.reloadCertificate();
        void app.reopenAuditLog();
      });
      const signal = await shutdown;
      logger.info('shutting down', { signal });
      await app.close();
      logger.info('stopped');
    });
}

/** What comes this soon is the same Ctrl-C once more: a terminal sends it to all, and npm hands it on. Milliseconds. */
const ECHO_MS = 500;

/** A second signal ends the process at once, as people expect of Ctrl-C. */
function firstOf(...signals: NodeJS.Signals[]): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first: number | undefined;
    const heed = (signal: NodeJS.Signals) => {
      const now = performance.now();
      first ??= now;
      if (now - first > ECHO_MS) process.exit(1);
      resolve(signal);
    };
    for (const signal of signals) process.on(signal, heed);
  });
}
