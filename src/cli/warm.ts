import { setTimeout as delay } from 'node:timers/promises';
import { type Command, Option } from 'commander';
import { Platform } from '../address/platform.ts';
import type { JobItemDocument, JobProgressDocument, WholeJobDocument } from '../http/job-documents.ts';
import { CommandFailed } from './command-failed.ts';
import { receivedEvents } from './event-source.ts';
import { type JobDisplay, JobLines, JobStatusLine } from './job-display.ts';
import { addServerOptions, RunningServer, type ServerOptions } from './running-server.ts';
import { collectWish } from './wish-files.ts';

/** A server that is started again takes a while; in milliseconds. */
const PATIENCE_MS = 120_000;
const RETRY_MS = 500;
const MAX_RETRY_MS = 5_000;

/** Something is not there. */
const PARTIAL = 1;
/** It is not known what is there. */
const TROUBLE = 2;

interface WarmOptions extends ServerOptions {
  readonly platform?: readonly string[];
  readonly client?: string;
  readonly stdinName?: string;
  readonly json?: boolean;
  readonly detach?: boolean;
}

/** `larder warm FILE…`: brings in what files need, before somebody asks for it. */
export function addWarm(program: Command): void {
  const command = program
    .command('warm')
    .description('bring in what lock files, configurations and lists need, before somebody asks for it')
    .argument('<file...>', 'files, directories, patterns; - is standard input')
    .option('--platform <os_arch>', 'may be given several times', (one: string, all: string[] = []) => [...all, one])
    .addOption(new Option('--client <client>', 'whose rules hold').choices(['opentofu', 'terraform']))
    .option('--stdin-name <name>', 'what the file on standard input would be called')
    .option('--json', 'one JSON object a line, as without a terminal')
    .option('--detach', 'do not wait for the end')
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : TROUBLE));
  addServerOptions(command).action(async (files: string[], options: WarmOptions) => {
    process.exitCode = TROUBLE;
    process.exitCode = await warm(files, options);
  });
}

/** Resolves to the exit code. @throws CommandFailed, InvalidAddress */
async function warm(args: readonly string[], options: WarmOptions): Promise<number> {
  const { server: url, platform: platforms = [], client, stdinName, detach = false } = options;
  for (const platform of platforms) Platform.parse(platform);
  if (url === undefined) {
    throw new CommandFailed('it takes a running server to warm', {
      hint: 'name it with --server URL, or in LARDER_SERVER',
    });
  }
  const { files } = await collectWish(args, { stdinName });
  const server = await RunningServer.at(url, options);
  try {
    const answer = await server.post('admin/warm', { files, platforms, ...(client && { client }) });
    const { job: id } = answer as { job: string };
    const isTerminal = process.stdout.isTTY === true && options.json !== true;
    if (detach) {
      console.log(isTerminal ? id : JSON.stringify({ event: 'began', job: id }));
      return 0;
    }
    const display = isTerminal ? new JobStatusLine() : new JobLines();
    display.began(id);
    process.once('SIGINT', () => {
      console.error(`\nlarder: job ${id} goes on; POST /admin/jobs/${id}/cancel ends it`);
      process.exit(130);
    });
    await follow(server, id, display);
    const job = (await server.get(`admin/jobs/${id}`)) as WholeJobDocument;
    display.ended(job);
    if (job.state === 'failed') return TROUBLE;
    const isWhole =
      job.state === 'finished' &&
      job.totals.failed === 0 &&
      !job.diagnostics.some(({ severity }) => severity === 'error');
    return isWhole ? 0 : PARTIAL;
  } finally {
    await server.close();
  }
}

/** Until the job has ended, however often the connection breaks. @throws CommandFailed when the server stays away */
async function follow(server: RunningServer, id: string, display: JobDisplay): Promise<void> {
  const told = new Set<string>();
  const item = (one: JobItemDocument) => {
    const key = `${one.kind ?? ''} ${one.name} ${one.outcome ?? ''}`;
    if (one.outcome && !told.has(key)) display.item(one);
    told.add(key);
  };
  let last: string | undefined;
  let heardAt = performance.now();
  for (let pause = RETRY_MS; ; pause = Math.min(pause * 2, MAX_RETRY_MS)) {
    const stream = await server.events(`admin/jobs/${id}/events`, last);
    for await (const event of stream ? receivedEvents(stream) : []) {
      heardAt = performance.now();
      pause = RETRY_MS;
      last = event.id ?? last;
      if (event.type === 'snapshot') for (const one of (event.data as WholeJobDocument).items) item(one);
      if (event.type === 'item') item(event.data as JobItemDocument);
      if (event.type === 'progress') display.progress(event.data as JobProgressDocument);
      if (event.type === 'end') return;
    }
    if (performance.now() - heardAt > PATIENCE_MS) {
      throw new CommandFailed(
        `the server has not answered for two minutes; the job ${id} goes on when it is there again`,
      );
    }
    display.lost();
    await delay(pause);
  }
}
