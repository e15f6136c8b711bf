import cluster, { type Worker } from 'node:cluster';
import type { Config } from '../config.ts';
import { createLogger } from '../logger.ts';
import { settledWithin } from '../time-limit.ts';
import type { Wire } from '../workers/questions.ts';
import { Supervisor, type WorkerProcess } from '../workers/supervisor.ts';
import { passLines } from '../workers/whole-lines.ts';
import { WorkerLine } from '../workers/worker-line.ts';

/** For what workers wrote last, in milliseconds; what they started themselves may go on holding their output. */
const LAST_WORDS_MS = 1_000;

/** The line to the supervisor, in a process that is a worker. */
export function workerLine(): WorkerLine | undefined {
  return cluster.worker && new WorkerLine({ wire: wireOf(cluster.worker) });
}

/** No more than all workers together may do at once is done by one of them. */
export function shareOf(config: Config, workers: number): Config {
  const downloads = Math.max(1, Math.floor(config.limits.downloads / workers));
  return { ...config, limits: { ...config.limits, downloads } };
}

/**
 * Runs several workers, this command line once more each, on the same port.
 * @param shutdown resolves with the signal that ends all; a second signal ends the process
 * @returns the exit code
 */
export async function serveWithWorkers(
  config: Config,
  { workers, version, shutdown }: { workers: number; version: string; shutdown: Promise<string> },
): Promise<number> {
  const logger = createLogger(config.log);
  // On a terminal they write for people themselves.
  const isPiped = process.stderr.isTTY !== true;
  cluster.setupPrimary({ serialization: 'advanced', silent: isPiped });
  const silences: Promise<unknown>[] = [];
  const supervisor = new Supervisor({ count: workers, fork: () => fork(isPiped, silences), logger });
  process.on('SIGHUP', () => supervisor.reload());
  process.once('exit', () => supervisor.kill());
  void shutdown.then((signal) => {
    logger.info('shutting down', { signal, workers });
    supervisor.end();
  });
  logger.info('starting', { version, workers });
  const code = await supervisor.run();
  await settledWithin(Promise.all(silences), LAST_WORDS_MS);
  logger.info('all workers have ended', { code });
  return code;
}

/** @param silences is added what resolves when all has been passed on that the process wrote */
function fork(isPiped: boolean, silences: Promise<unknown>[]): WorkerProcess {
  const worker = cluster.fork();
  const { stdout, stderr, pid } = worker.process;
  if (isPiped && stdout && stderr) {
    passLines(stdout, process.stdout);
    passLines(stderr, process.stderr);
  }
  silences.push(new Promise((resolve) => worker.process.once('close', resolve)));
  return {
    id: worker.id,
    pid,
    wire: wireOf(worker),
    ended: new Promise((resolve) => {
      worker.process.once('exit', (code, signal) => resolve({ code, signal }));
      // A process that could not be started has no exit.
      worker.on('error', () => {
        if (pid === undefined) resolve({ code: 1, signal: null });
      });
    }),
    kill: (signal) => void worker.process.kill(signal),
  };
}

function wireOf(worker: Worker): Wire {
  return {
    send: (message) => {
      // Whoever is gone needs no answer.
      if (worker.isConnected()) worker.process.send?.(message, undefined, undefined, () => {});
    },
    receive: (listener) => void worker.on('message', listener),
  };
}
