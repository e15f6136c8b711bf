import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { Platform } from '../address/platform.ts';
import { Version } from '../address/version.ts';
import { parseAddress } from '../http/admin.ts';
import { type PurgeDocument, purgeDocument } from '../http/admin-documents.ts';
import { CommandFailed } from './command-failed.ts';
import { DataDirectory } from './data-directory.ts';
import { addServerOptions, RunningServer, type ServerOptions } from './running-server.ts';
import { counted, shownSize } from './tables.ts';

interface PurgeOptions extends ServerOptions {
  readonly config?: string;
  readonly platform?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

interface Asked {
  readonly address: string;
  readonly version: string | undefined;
  readonly platform: string | undefined;
}

/** Where things are removed. */
interface Place {
  purge(asked: Asked, dryRun: boolean): Promise<readonly PurgeDocument[]>;
  /** Said after something was removed. */
  readonly afterwards?: string;
  close(): Promise<void>;
}

/** `larder purge ADDRESS [VERSION]`: removes what is stored, on a running server or from the data directory. */
export function addPurge(program: Command): void {
  const command = program
    .command('purge')
    .description('remove what is stored, and accept what upstream publishes now')
    .argument('<address>', 'HOST/NAMESPACE/TYPE, with * for a whole part')
    .argument('[version]', 'this version only')
    .option('--platform <os_arch>', "this platform's archives only; checksums then stay")
    .option('--dry-run', 'only show what would be removed')
    .option('-y, --yes', 'do not ask')
    .option('-c, --config <file>', 'without --server: whose data directory to work on (also LARDER_CONFIG)')
    .option('--json', 'one JSON object a version');
  addServerOptions(command).action(async (address: string, version: string | undefined, options: PurgeOptions) => {
    parseAddress(address);
    if (version !== undefined) Version.parse(version);
    if (options.platform !== undefined) Platform.parse(options.platform);
    const place = options.server === undefined ? await dataDirectory(options) : await server(options.server, options);
    try {
      await purge(place, { address, version, platform: options.platform }, options);
    } finally {
      await place.close();
    }
  });
}

async function purge(place: Place, asked: Asked, options: PurgeOptions): Promise<void> {
  const { dryRun = false, yes = false, json = false } = options;
  const planned = await place.purge(asked, true);
  const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  // With --json and --yes the lines are those of what was done.
  if (!json || dryRun || !yes) print(planned, 'would be removed', json);
  if (!planned.some(removesSomething)) {
    console.error('larder: nothing that is stored matches');
    process.exitCode = 1;
    return;
  }
  if (dryRun) return;
  if (!yes) {
    if (!isTerminal) throw new CommandFailed('nothing was removed', { hint: 'to remove it, say it again with --yes' });
    if (!(await isConfirmed())) throw new CommandFailed('nothing was removed');
  }
  const removed = await place.purge(asked, false);
  if (json) print(removed, 'removed', true);
  else console.log(`removed: ${summary(removed)}`);
  if (place.afterwards !== undefined) console.error(place.afterwards);
}

async function server(url: string, options: ServerOptions): Promise<Place> {
  const running = await RunningServer.at(url, options);
  return {
    purge: async (asked, dryRun) => {
      const answer = await running.post('admin/purge', { ...asked, dryRun });
      return (answer as { purged: readonly PurgeDocument[] }).purged;
    },
    close: () => running.close(),
  };
}

async function dataDirectory({ config }: PurgeOptions): Promise<Place> {
  const here = await DataDirectory.open(config);
  const { purge: removal, close } = await here.openPurge();
  const audit = here.openAudit();
  return {
    afterwards:
      'A server that is running on this directory may go by what it remembers for as long as that is fresh ' +
      '(freshness.packages); with --server it forgets at once.',
    purge: async ({ address, version, platform }, dryRun) => {
      const selection = {
        address: parseAddress(address),
        ...(version && { version: Version.parse(version) }),
        ...(platform && { platform: Platform.parse(platform) }),
      };
      const purged: PurgeDocument[] = [];
      for await (const one of dryRun ? removal.plan(selection) : removal.run(selection)) {
        purged.push(purgeDocument(one));
        if (!dryRun) audit?.record('purged', { client: 'command line', ...purgeDocument(one) });
      }
      return purged;
    },
    close: async () => {
      await close();
      await audit?.close();
      await here.close();
    },
  };
}

function removesSomething({ archives, checksums, settled }: PurgeDocument): boolean {
  return archives.length > 0 || checksums || settled.length > 0;
}

function print(purged: readonly PurgeDocument[], state: string, json: boolean): void {
  for (const one of purged) {
    if (json) {
      console.log(JSON.stringify({ state, ...one }));
      continue;
    }
    const { address, version, archives, checksums, settled, unsettled } = one;
    const parts = [
      ...archives.map(({ platform, size }) => `${platform} (${shownSize(size)})`),
      ...(checksums ? ['SHA256SUMS'] : []),
    ];
    if (parts.length > 0) console.log(`${address} ${version}: ${parts.join(', ')}`);
    for (const drift of settled) {
      console.log(`  ${drift.platform} was ${drift.first}; upstream's ${drift.published} will be accepted`);
    }
    for (const { platform } of unsettled) {
      console.log(`  ${platform} stays refused: what was seen first is settled by purging the whole version only`);
    }
  }
  if (!json && purged.some(removesSomething)) console.log(`${state}: ${summary(purged)}`);
}

function summary(purged: readonly PurgeDocument[]): string {
  const archives = purged.flatMap((one) => one.archives);
  const size = archives.reduce((sum, archive) => sum + archive.size, 0);
  const versions = purged.filter(removesSomething).length;
  return `${counted(archives.length, 'archive')} of ${counted(versions, 'version')}, ${shownSize(size)}`;
}

async function isConfirmed(): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('')));
  try {
    return /^y(es)?$/i.test((await Promise.race([terminal.question('Remove this? [y/N] '), closed])).trim());
  } finally {
    terminal.close();
  }
}
