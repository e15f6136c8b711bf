import { type Command, Option } from 'commander';
import type { SealDocument } from '../http/admin-seal.ts';
import { CommandFailed } from './command-failed.ts';
import { RunningServer } from './running-server.ts';
import { addServerOptions, type ServerOptions } from './server-options.ts';

interface SealOptions extends ServerOptions {
  readonly off?: boolean;
  readonly status?: boolean;
  readonly json?: boolean;
}

/**
 * `larder seal`: from now on nothing leaves a running server. `--off` opens it again, `--status` tells. The exit code is 1
 * also when it was done, but other replicas could not be told.
 */
export function addSeal(program: Command): void {
  const command = program
    .command('seal')
    .description('let nothing leave a running server: what is stored is all there is')
    .addOption(new Option('--off', 'open it again').conflicts('status'))
    .option('--status', 'only tell whether it is sealed; exit code 1 when it is not')
    .option('--json', 'the state as JSON');
  addServerOptions(command).action(async (options: SealOptions) => {
    const { server: url, off = false, status = false, json = false } = options;
    if (url === undefined) {
      throw new CommandFailed('it takes a running server to seal', {
        hint: 'name it with --server URL, or in LARDER_SERVER; sealed: true in the configuration seals from the start on',
      });
    }
    const state = status ? await ask(url, options) : await change(url, options, !off);
    console.log(json ? JSON.stringify(state) : said(state));
    if (status ? !state.sealed : state.unshared) process.exitCode = 1;
  });
}

async function ask(url: string, options: ServerOptions): Promise<SealDocument> {
  return at(url, options, async (server) => (await server.get('admin/seal')) as SealDocument);
}

/** @throws CommandFailed also when the configuration has the last word */
async function change(url: string, options: ServerOptions, sealed: boolean): Promise<SealDocument> {
  return at(url, options, async (server) => {
    const { status, document } = await server.ask('PUT', 'admin/seal', { body: JSON.stringify({ sealed }) });
    if (status === 200) return document as SealDocument;
    const { errors: [message = `answered ${status}`] = [], hint } = document as { errors?: string[]; hint?: string };
    throw new CommandFailed(`${url} answered ${status}: ${message}`, { hint });
  });
}

async function at<T>(url: string, options: ServerOptions, work: (server: RunningServer) => Promise<T>): Promise<T> {
  const server = await RunningServer.at(url, options);
  try {
    return await work(server);
  } finally {
    await server.close();
  }
}

function said({ sealed, configured, by, changedAt, underWay = [], unshared, unknown }: SealDocument): string {
  const state = sealed ? 'sealed: nothing leaves, what is stored is all there is' : 'not sealed: upstreams are asked';
  const who = by === undefined ? '' : ` (since ${changedAt}, by ${by})`;
  return [
    `${state}${configured ? ' (by the configuration)' : who}`,
    ...(underWay.length > 0 ? [`not ended yet: ${underWay.join(', ')}`] : []),
    ...(unshared
      ? [
          `other replicas ${sealed ? 'may still ask upstream' : 'may still be sealed'}: the metadata store could not be told; those with a data directory of their own follow when it answers`,
        ]
      : []),
    ...(unknown ? ['it is not known whether it was sealed before: the metadata store does not answer'] : []),
  ].join('\n');
}
