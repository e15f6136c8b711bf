import { type Command, Option } from 'commander';
import { Platform } from '../address/platform.ts';
import { CommandFailed } from './command-failed.ts';
import { followJob } from './follow-job.ts';
import { JobLines, JobStatusLine } from './job-display.ts';
import { RunningServer } from './running-server.ts';
import { addServerOptions, type ServerOptions } from './server-options.ts';
import { collectWish } from './wish-files.ts';

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
    .option('--detach', 'do not wait for the end');
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
    const events = (last: string | undefined) => server.events(`admin/jobs/${id}/events`, last);
    const { job, items } = await followJob(id, { events, display });
    display.ended(job, items);
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
