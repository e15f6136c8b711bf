import path from 'node:path';
import type { Command } from 'commander';
import type { App, ListeningAddress } from '../app.ts';
import { type Config, describeConfig, loadConfig } from '../config.ts';
import { startUpMessage } from '../http/cli-snippets.ts';
import { createLogger } from '../logger.ts';
import { paths } from '../store/keys.ts';
import { examineMetadata } from '../store/metadata-examination.ts';
import type { WorkerLine } from '../workers/worker-line.ts';
import { serveWithWorkers, shareOf, workerLine } from './serve-workers.ts';
import { startFailure } from './start-failure.ts';

/** `larder serve`: runs the mirror until SIGTERM or SIGINT, then finishes what is under way. */
export function addServe(program: Command, version: string): void {
  program
    .command('serve')
    .description('run the mirror')
    .option('-c, --config <file>', 'configuration laid over the defaults (also LARDER_CONFIG)')
    .option('--workers <count>', 'processes that serve on the same port, for more than one core (also LARDER_WORKERS)')
    .action(async ({ config: file, workers }: { config?: string; workers?: string }) => {
      // What the command line says goes before all else.
      const env = workers === undefined ? process.env : { ...process.env, LARDER_WORKERS: workers };
      const config = await loadConfig({ ...(file && { file }), env, cwd: process.cwd() });
      const line = workerLine();
      if (line || config.workers === 1) return serve(config, { version, line });
      const shutdown = firstOf('SIGTERM', 'SIGINT');
      process.exitCode = await serveWithWorkers(config, { workers: config.workers, version, shutdown });
      // Workers that were killed may have left open what they wrote into.
      process.exit();
    });
}

async function serve(config: Config, { version, line }: { version: string; line: WorkerLine | undefined }) {
  // Another process does it, while this one loads what a server consists of. What workers share, the first of them examines.
  const examined = line || config.redis ? undefined : examineMetadata(path.join(config.data, paths.metadata));
  const { createApp } = await import('../app.ts');
  const logger = createLogger(config.log);
  const explained = (error: unknown) => {
    throw startFailure(error, config);
  };
  const worker = line && { line, place: await line.place() };
  const share = worker ? shareOf(config, config.workers) : config;
  const app = await createApp(share, { logger, version, worker, examined }).catch(explained);
  // Before it listens: whoever sees it listening may end it. The supervisor of a worker knows itself when it has lost patience.
  const shutdown = worker ? anyOf('SIGTERM', 'SIGINT') : firstOf('SIGTERM', 'SIGINT');
  process.on('SIGHUP', () => {
    void app.reloadCertificate();
    void app.reopenAuditLog();
  });
  const address = await app.listen().catch(explained);
  await line?.ready();
  logger.info('listening', {
    version,
    ...describeConfig(config),
    url: address.url,
    ...(worker && { pid: process.pid }),
  });
  if (worker?.place.isFirst !== false) console.log(whatToPaste(config, app, address));

  const signal = await shutdown;
  logger.info('shutting down', { signal });
  await app.close();
  logger.info('stopped');
  // The line to the supervisor would keep it alive.
  if (worker) process.exit(0);
}

function whatToPaste({ publicUrl, upstreams, access }: Config, { authority }: App, { url }: ListeningAddress): string {
  const caFile = authority?.file;
  return startUpMessage({
    baseUrl: publicUrl ?? url,
    upstreams: upstreams.hosts.map(({ hostname }) => hostname),
    needsToken: access.anonymous === 'none',
    ...(caFile && { caFile }),
  });
}

/** Sent to a whole group of processes and passed on besides, a signal comes twice. */
function anyOf(...signals: NodeJS.Signals[]): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of signals) process.on(signal, resolve);
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
