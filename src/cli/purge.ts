import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { ModulePattern } from '../address/module-pattern.ts';
import { Platform } from '../address/platform.ts';
import { Version } from '../address/version.ts';
import { parseAddress, removals, unusedSince } from '../http/admin.ts';
import type { DriftDocument, ModulePurgeDocument, PurgeDocument } from '../http/admin-documents.ts';
import { CommandFailed } from './command-failed.ts';
import { DataDirectory } from './data-directory.ts';
import { RunningServer } from './running-server.ts';
import { addServerOptions, type ServerOptions } from './server-options.ts';
import { counted, shownSize } from './tables.ts';

interface PurgeOptions extends ServerOptions {
  readonly config?: string;
  readonly platform?: string;
  readonly unused?: string;
  readonly pinned?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

interface Asked {
  readonly address: string;
  readonly version: string | undefined;
  readonly platform: string | undefined;
  readonly unused: string | undefined;
  readonly pinned: boolean;
}

type Purged = PurgeDocument | ModulePurgeDocument;

/** Where things are removed. */
interface Place {
  purge(asked: Asked, dryRun: boolean): Promise<readonly Purged[]>;
  /** Said after something was removed. */
  readonly afterwards?: string;
  close(): Promise<void>;
}

/** `larder purge ADDRESS [VERSION]`: removes what is stored, on a running server or from the data directory. */
export function addPurge(program: Command): void {
  const command = program
    .command('purge')
    .description('remove what is stored, and accept what upstream publishes now')
    .argument('<address>', 'HOST/NAMESPACE/TYPE, or HOST/NAMESPACE/NAME/SYSTEM for modules, with * for a whole part')
    .argument('[version]', 'this version only')
    .option('--platform <os_arch>', "this platform's archives only; checksums then stay")
    .option('--unused <time>', 'only what nobody used for so long (90d, 12h); checksums and records then stay')
    .option('--pinned', 'also what is pinned')
    .option('--dry-run', 'only show what would be removed')
    .option('-y, --yes', 'do not ask')
    .option('-c, --config <file>', 'without --server: whose data directory to work on (also LARDER_CONFIG)')
    .option('--json', 'one JSON object a version');
  addServerOptions(command).action(async (address: string, version: string | undefined, options: PurgeOptions) => {
    const isModule = parseAddress(address) instanceof ModulePattern;
    if (version !== undefined) Version.parse(version);
    if (options.platform !== undefined) Platform.parse(options.platform);
    if (options.unused !== undefined) unusedSince(options.unused);
    if (options.platform !== undefined && isModule) {
      throw new CommandFailed(`${address} is the address of a module, and modules have no platforms`, {
        hint: 'leave --platform out',
      });
    }
    const place = options.server === undefined ? await dataDirectory(options) : await server(options.server, options);
    try {
      const { platform, unused, pinned = false } = options;
      await purge(place, { address, version, platform, unused, pinned }, options);
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
    const isPinned = planned.some(({ pinned }) => pinned);
    console.error(`larder: ${isPinned ? 'everything that matches is pinned' : 'nothing that is stored matches'}`);
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
      return (answer as { purged: readonly Purged[] }).purged;
    },
    close: () => running.close(),
  };
}

async function dataDirectory({ config }: PurgeOptions): Promise<Place> {
  const here = await DataDirectory.open(config);
  const { close, isHeard, ...purges } = await here.openPurge();
  const audit = here.openAudit();
  return {
    afterwards: isHeard
      ? 'Servers that are running forget it within seconds, as soon as they reach Redis; with --server one does at once.'
      : 'A server that is running on this directory may go by what it remembers for as long as that is fresh ' +
        '(freshness.packages); with --server it forgets at once.',
    purge: async ({ address, version, platform, unused, pinned }, dryRun) => {
      const selection = {
        address: parseAddress(address),
        ...(version && { version: Version.parse(version) }),
        ...(platform && { platform: Platform.parse(platform) }),
        ...(unused && { unusedSince: unusedSince(unused) }),
        pinned,
      };
      const purged: Purged[] = [];
      for await (const one of removals(purges, selection, dryRun)) {
        purged.push(one);
        if (!dryRun && !one.pinned) audit?.record('purged', { client: 'command line', ...one });
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

function isOfModule(one: Purged): one is ModulePurgeDocument {
  return !('archives' in one);
}

function removesSomething(one: Purged): boolean {
  if (one.pinned) return false;
  if (one.settled.length > 0) return true;
  return isOfModule(one) ? one.package !== undefined || one.record : one.archives.length > 0 || one.checksums;
}

function print(purged: readonly Purged[], state: string, json: boolean): void {
  for (const one of purged) {
    if (json) console.log(JSON.stringify({ state, ...one }));
    else printOne(one);
  }
  if (!json && purged.some(removesSomething)) console.log(`${state}: ${summary(purged)}`);
}

function printOne(one: Purged): void {
  const { address, version, settled } = one;
  if (one.pinned) {
    console.log(`${address} ${version}: pinned, stays (--pinned removes it, too)`);
    return;
  }
  const parts = isOfModule(one)
    ? [
        ...(one.package ? [`package (${shownSize(one.package.size)})`] : []),
        ...(one.record ? ['what is remembered of it'] : []),
      ]
    : [
        ...one.archives.map(({ platform, size }) => `${platform} (${shownSize(size)})`),
        ...(one.checksums ? ['SHA256SUMS'] : []),
      ];
  if (parts.length > 0) console.log(`${address} ${version}: ${parts.join(', ')}`);
  for (const drift of settled) {
    console.log(`  ${nameOf(drift)} was ${drift.first}; upstream's ${drift.published} will be accepted`);
  }
  for (const { platform } of isOfModule(one) ? [] : one.unsettled) {
    console.log(`  ${platform} stays refused: what was seen first is settled by purging the whole version only`);
  }
}

function nameOf({ platform = 'the package' }: DriftDocument): string {
  return platform;
}

/** Versions of which nothing but a record or checksums were left are told apart: nothing of theirs took up room. */
function summary(purged: readonly Purged[]): string {
  const removed = purged.filter(removesSomething);
  const withFiles = removed.filter((one) => filesOf(one).length > 0).length;
  const others = removed.length - withFiles;
  if (withFiles === 0) return `what is remembered of ${counted(others, 'version')}`;
  const files = removed.flatMap(filesOf);
  const size = files.reduce((sum, file) => sum + file.size, 0);
  const what = removed.some(isOfModule) ? 'module package' : 'archive';
  const rest = others === 0 ? '' : `, and what is remembered of ${counted(others, 'other version')}`;
  return `${counted(files.length, what)} of ${counted(withFiles, 'version')}, ${shownSize(size)}${rest}`;
}

function filesOf(one: Purged): readonly { readonly size: number }[] {
  if (!isOfModule(one)) return one.archives;
  return one.package === undefined ? [] : [one.package];
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
