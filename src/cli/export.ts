import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { type Command, Option } from 'commander';
import { Platform } from '../address/platform.ts';
import { HclConverter } from '../configuration/hcl-converter.ts';
import { hasCode } from '../errors.ts';
import { readingWords } from '../http/reading-rules.ts';
import { silentLogger } from '../logger.ts';
import type { CarriedArchive, CarriedPackage, CarrySource } from '../mirror/carried.ts';
import { type CarrySelection, selectCarried } from '../mirror/carry-selection.ts';
import { Export, type Exported, type ExportOutcome } from '../mirror/export.ts';
import { StoredSource } from '../mirror/stored-source.ts';
import type { Wish } from '../mirror/wanted.ts';
import { clientOf, WishReader } from '../mirror/wish-reader.ts';
import { ExportDirectory } from '../store/export-directory.ts';
import { CommandFailed } from './command-failed.ts';
import { DataDirectory } from './data-directory.ts';
import { repeated } from './repeated.ts';
import { ServerCarrier } from './server-carrier.ts';
import { addServerOptions, type ServerOptions } from './server-options.ts';
import { shownSize } from './tables.ts';
import { collectWish } from './wish-files.ts';

interface ExportOptions extends ServerOptions {
  readonly config?: string;
  readonly platform: readonly string[];
  readonly client?: Wish['client'];
  readonly terraform?: boolean;
  readonly link?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** `larder export DIR`: what is stored, as a directory that any web server can serve and people can carry. */
export function addExport(program: Command): void {
  const command = program
    .command('export')
    .description('write what is stored into a directory that any web server can serve, and larder import takes in')
    .argument('<directory>', 'it is made if need be; what an earlier export put there stays')
    .argument(
      '[files...]',
      'only what these need: lock files, configuration, warm lists, directories of them, - for stdin',
    )
    .addOption(
      new Option('--platform <os_arch>', 'with files: only for this one, repeatable')
        .argParser(repeated)
        .default([], 'all that are stored'),
    )
    .addOption(
      new Option('--client <client>', 'whose rules hold for the files')
        .choices(['opentofu', 'terraform'])
        .conflicts('terraform'),
    )
    .addOption(new Option('--terraform', 'the same as --client terraform').hideHelp())
    .option('--link', 'make hard links instead of copies where that can be (same file system, no --server)')
    .option('--dry-run', 'tell what would be copied, and write nothing')
    .option('-c, --config <file>', 'without --server: whose data directory to carry out of (also LARDER_CONFIG)')
    .option('--json', 'one JSON object a line');
  addServerOptions(command).action(async (directory: string, files: readonly string[], options: ExportOptions) => {
    const wish = await wishOf(files, options);
    if (options.server === undefined) await exportHere(directory, wish, options);
    else await exportThere(directory, wish, options);
  });
}

/** As given on the command line: whose rules hold may be left to the configuration. */
type Given = Omit<Wish, 'client'> & Partial<Pick<Wish, 'client'>>;

/** `undefined` for everything. @throws CommandFailed, InvalidAddress */
async function wishOf(args: readonly string[], options: ExportOptions): Promise<Given | undefined> {
  const platforms = options.platform.map(Platform.parse);
  if (args.length === 0) {
    if (platforms.length === 0) return undefined;
    throw new CommandFailed('--platform goes with files that say what is needed');
  }
  const { files } = await collectWish(args);
  const client = options.client ?? (options.terraform ? 'terraform' : undefined);
  return { files, platforms, ...(client && { client }) };
}

async function exportHere(directory: string, given: Given | undefined, options: ExportOptions): Promise<void> {
  const here = await DataDirectory.open(options.config);
  try {
    const { config, archives, modules } = here.carried;
    await refuseOwn(config.data, directory);
    const wish = given && { client: clientOf(config.upstreams.default), ...given };
    const source = new StoredSource({ store: archives, modules, directory: config.s3 ? undefined : config.data });
    await write(source, directory, await selected(source, wish, options), options);
  } finally {
    await here.close();
  }
}

async function exportThere(directory: string, given: Given | undefined, options: ExportOptions): Promise<void> {
  const wish: Wish | undefined = given && { client: 'opentofu', ...given };
  const carrier = await ServerCarrier.at(options.server ?? '', options);
  try {
    await write(carrier, directory, await selected(carrier, wish, options), options);
  } finally {
    await carrier.close();
  }
}

/** In the data directory itself, an export would be in its own way. */
async function refuseOwn(data: string, directory: string): Promise<void> {
  const real = (name: string) => realpath(name).catch(() => path.resolve(name));
  if ((await real(data)) !== (await real(directory))) return;
  throw new CommandFailed(`${directory} is the data directory itself`, { hint: 'name another directory to write to' });
}

/** What is needed and stored; what is not stored is told, and is a failure. */
async function selected(
  source: CarrySource,
  wish: Wish | undefined,
  { json = false }: ExportOptions,
): Promise<CarrySelection['isWanted'] | undefined> {
  if (!wish) return undefined;
  const converter = new HclConverter();
  try {
    const reader = new WishReader({ converter, defaultPlatforms: [] });
    const found = await selectCarried(wish, { source, reader, logger: silentLogger });
    const { isWanted, missing, diagnostics, impliedHostname } = found;
    const rules = { client: wish.client, impliedHostname: impliedHostname?.toString() };
    const read = readingWords(rules);
    if (json) console.log(JSON.stringify({ kind: 'read', ...rules }));
    else if (read !== undefined) console.error(`larder: exported is what is needed ${read}`);
    for (const one of diagnostics) {
      if (json) console.log(JSON.stringify({ kind: 'diagnostic', ...one }));
      else console.error(`larder: ${one.severity} in ${[one.file, one.at].filter(Boolean).join(', ')}: ${one.message}`);
    }
    for (const { what, reason } of missing) {
      if (json) console.log(JSON.stringify({ kind: 'missing', what, reason }));
      else console.error(`larder: needed, and not stored: ${what}: ${reason}`);
    }
    if (missing.length > 0 || diagnostics.some(({ severity }) => severity === 'error')) process.exitCode = 1;
    return isWanted;
  } finally {
    await converter.close();
  }
}

async function write(
  source: CarrySource,
  directory: string,
  isWanted: CarrySelection['isWanted'] | undefined,
  options: ExportOptions,
): Promise<void> {
  const { dryRun = false, link = false, json = false } = options;
  const counts = new Map<ExportOutcome, number>();
  let bytes = 0;
  try {
    const target = await ExportDirectory.open({ directory, dryRun, logger: silentLogger });
    // Nobody may read any more what is printed (`| head`): that ends it at once.
    const closeAtOnce = () => target.closeAtOnce();
    process.once('exit', closeAtOnce);
    try {
      for await (const one of new Export({ source, directory: target, options: { dryRun, link, isWanted } }).run()) {
        counts.set(one.outcome, (counts.get(one.outcome) ?? 0) + 1);
        if (one.outcome !== 'unchanged' && one.outcome !== 'failed') bytes += sizeOf(one);
        if (json) console.log(JSON.stringify(documentOf(one)));
        else if (one.outcome === 'failed') console.error(`larder: not exported: ${nameOf(one)}: ${one.reason}`);
        else if (one.outcome !== 'unchanged') console.log(`${nameOf(one)}: ${one.outcome}`);
      }
    } finally {
      process.off('exit', closeAtOnce);
      await target.close();
    }
  } catch (error) {
    if (!hasCode(error, 'STORAGE_FAILED')) throw error;
    const full = (error as { full?: boolean }).full === true;
    throw new CommandFailed(full ? `there is no room left in ${directory}` : `${error.message} in ${directory}`, {
      cause: error,
      hint: 'what is there is whole; the same command goes on where it stopped',
    });
  }
  const failed = counts.get('failed') ?? 0;
  if (!json) console.log(summary(counts, bytes));
  if (failed > 0) process.exitCode = 1;
}

function summary(counts: ReadonlyMap<ExportOutcome, number>, bytes: number): string {
  const parts = [...counts].map(([outcome, count]) => `${count} ${outcome}`);
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return all === 0 ? 'nothing is stored that could be exported' : `${parts.join(', ')} (${shownSize(bytes)})`;
}

function carriedOf(one: Exported): CarriedArchive | CarriedPackage {
  return 'archive' in one ? one.archive : one.package;
}

function sizeOf(one: Exported): number {
  return carriedOf(one).size;
}

function nameOf(one: Exported): string {
  if ('package' in one) return one.package.release.toString();
  const { provider, version, platform } = one.archive.archive;
  return `${provider} ${version} ${platform}`;
}

function documentOf(one: Exported): Record<string, unknown> {
  const { size, sha256 } = carriedOf(one);
  const { outcome, reason } = one;
  const subject =
    'archive' in one
      ? {
          kind: 'archive',
          address: `${one.archive.archive.provider}`,
          version: `${one.archive.archive.version}`,
          platform: `${one.archive.archive.platform}`,
        }
      : { kind: 'module', address: `${one.package.release.module}`, version: `${one.package.release.version}` };
  return { ...subject, size, sha256, outcome, ...(reason !== undefined && { reason }) };
}
