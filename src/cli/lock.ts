import { chmod, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type Command, Option } from 'commander';
import { Platform } from '../address/platform.ts';
import { LOCK_FILE_NAME } from '../configuration/configuration-files.ts';
import { kindOf } from '../configuration/file-kinds.ts';
import { LarderError } from '../errors.ts';
import { type LockDocument, type LockReportDocument, lockDocument } from '../http/admin-lock.ts';
import { CommandFailed } from './command-failed.ts';
import { DataDirectory } from './data-directory.ts';
import { repeated } from './repeated.ts';
import { RunningServer } from './running-server.ts';
import { addServerOptions, type ServerOptions } from './server-options.ts';
import { counted } from './tables.ts';
import { unreadable } from './unreadable.ts';

const STANDARD_INPUT = '-';

interface LockOptions extends ServerOptions {
  readonly config?: string;
  readonly platform: readonly string[];
  readonly fetch?: boolean;
  readonly check?: boolean;
  readonly json?: boolean;
}

/** Completes one text, wherever that is done. */
type Complete = (text: string) => Promise<LockDocument>;

/**
 * `larder lock FILE…`: completes lock files in place, or from standard input to standard output. Exits with 1 when
 * something is missing all the same (with `--check`: when anything is), with 2 when it could not be looked at.
 */
export function addLock(program: Command): void {
  const command = program
    .command('lock')
    .description('complete lock files with every zh: hash and the h1: hashes of the platforms wanted')
    .argument('<file...>', '.terraform.lock.hcl files, changed in place; - for standard input and output')
    .addOption(
      new Option('--platform <os_arch>', 'whose h1: is wanted, repeatable')
        .argParser(repeated)
        .default([], 'warm.platforms'),
    )
    .option('--fetch', 'have the server fetch the archives of these platforms that it has not stored')
    .option('--check', 'change nothing, tell what is missing')
    .option('-c, --config <file>', 'without --server: whose data directory to look into (also LARDER_CONFIG)')
    .option('--json', 'one JSON object a line');
  addServerOptions(command).action(async (files: string[], options: LockOptions) => {
    try {
      process.exitCode = (await run(files, options)) ? 0 : 1;
    } catch (error) {
      if (!(error instanceof LarderError)) throw error;
      console.error(`larder: ${error.message}${error.hint ? `\n${error.hint}` : ''}`);
      process.exitCode = 2;
    }
  });
}

/** Whether nothing is missing now. */
async function run(files: readonly string[], options: LockOptions): Promise<boolean> {
  if (options.fetch && options.server === undefined) {
    throw new CommandFailed('--fetch needs a running server', { hint: 'name it with --server, or in LARDER_SERVER' });
  }
  const { complete, close } = await (options.server === undefined ? openHere(options) : openThere(options));
  try {
    let isComplete = true;
    for (const file of new Set(files)) {
      isComplete = (await (file === STANDARD_INPUT ? pipeThrough : inPlace)(file, complete, options)) && isComplete;
    }
    return isComplete;
  } finally {
    await close();
  }
}

interface Completer {
  readonly complete: Complete;
  close(): Promise<void>;
}

async function openThere(options: LockOptions): Promise<Completer> {
  const server = await RunningServer.at(options.server ?? '', options);
  const query = { platform: options.platform, fetch: String(options.fetch ?? false), partial: 'true' };
  return {
    complete: async (text) => (await server.postText('admin/lock', text, query)) as LockDocument,
    close: () => server.close(),
  };
}

async function openHere({ config, platform }: LockOptions): Promise<Completer> {
  const here = await DataDirectory.open(config);
  const { completion, platforms } = here.lock;
  const wanted = platform.length > 0 ? platform.map((text) => Platform.parse(text)) : platforms;
  return {
    complete: async (text) =>
      lockDocument(await completion.complete(text, { platforms: wanted, fetch: false, file: '.terraform.lock.hcl' })),
    close: () => here.close(),
  };
}

async function pipeThrough(_: string, complete: Complete, options: LockOptions): Promise<boolean> {
  const completed = await complete(decoded(await buffer(process.stdin), 'standard input'));
  if (!options.check) process.stdout.write(completed.text);
  // What is piped on is the lock file alone.
  const print = options.check ? console.log : console.error;
  report('standard input', completed, options, print);
  return isComplete(completed, options);
}

async function inPlace(file: string, complete: Complete, options: LockOptions): Promise<boolean> {
  // What is in a configuration would pass for a lock file that lacks everything.
  if (/^(configuration|list)$/.test(kindOf(file))) {
    const there = path.join(path.dirname(file), LOCK_FILE_NAME);
    throw new CommandFailed(`${file} is no lock file`, { hint: `that of its directory is ${there}` });
  }
  const before = decoded(await reading(file), file);
  const completed = await complete(before);
  if (!options.check && completed.text !== before) {
    // Bringing archives in may have taken its time.
    if (decoded(await reading(file), file) !== before) {
      throw new CommandFailed(`${file} was changed meanwhile, and is left as it is`, { hint: 'run the command again' });
    }
    await replace(file, completed.text);
  }
  report(file, completed, options, console.log);
  return isComplete(completed, options);
}

async function reading(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    const isDirectory = (error as NodeJS.ErrnoException).code === 'EISDIR';
    throw unreadable(
      file,
      error,
      isDirectory ? { hint: `the lock file in it is ${path.join(file, LOCK_FILE_NAME)}` } : {},
    );
  }
}

/** @throws CommandFailed when it is no text, or holds nothing */
function decoded(bytes: Buffer, file: string): string {
  let text: string;
  try {
    // A byte order mark stays where it is.
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new CommandFailed(`${file} is not UTF-8, as lock files are`);
  }
  if (text.trim() !== '') return text;
  throw new CommandFailed(`${file} is empty`, { hint: 'tofu init, or terraform init, writes the lock file anew' });
}

/** Whoever reads it meanwhile sees the old text or the new one. Links stay links, and the mode stays as it is. */
async function replace(file: string, text: string): Promise<void> {
  let aside: string | undefined;
  try {
    const target = await realpath(file);
    const { mode } = await stat(target);
    aside = path.join(path.dirname(target), `.${path.basename(target)}.larder-${process.pid}`);
    await writeFile(aside, text, { flag: 'wx', flush: true });
    await chmod(aside, mode & 0o7777);
    await rename(aside, target);
  } catch (error) {
    if (aside !== undefined) await rm(aside, { force: true });
    throw new CommandFailed(`${file} cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}

function isComplete({ providers, diagnostics }: LockDocument, { check }: LockOptions): boolean {
  const lacks = ({ outcome, missing }: LockReportDocument) =>
    outcome === 'failed' || missing.length > 0 || (check === true && outcome === 'completed');
  return !providers.some(lacks) && !diagnostics.some(({ severity }) => severity === 'error');
}

function report(file: string, completed: LockDocument, options: LockOptions, print: (line: string) => void): void {
  const { providers, diagnostics } = completed;
  if (options.json) {
    for (const provider of providers) print(JSON.stringify({ kind: 'provider', file, ...provider }));
    for (const found of diagnostics) print(JSON.stringify({ kind: 'diagnostic', ...found, file }));
    return;
  }
  const changed = providers.filter(({ outcome }) => outcome === 'completed').length;
  const would = options.check ? 'to be completed' : 'completed';
  print(`${file}: ${changed} of ${counted(providers.length, 'provider')} ${would}`);
  for (const provider of providers) for (const line of linesOf(provider)) print(`  ${line}`);
  for (const { severity, at, message } of diagnostics) print(`  ${severity} in line ${at}: ${message}`);
  if (!options.fetch && providers.some(({ missing }) => missing.length > 0)) {
    print('With --server and --fetch, archives that are not stored are fetched for their h1:.');
  }
}

function linesOf({ address, version, outcome, added, missing, unsupported, reason }: LockReportDocument): string[] {
  const of = `${address} ${version}`;
  return [
    ...(outcome === 'failed' ? [`${of}: failed: ${reason}`] : []),
    ...(outcome === 'completed' ? [`${of}: ${added.length} more ${added.length === 1 ? 'hash' : 'hashes'}`] : []),
    ...(outcome !== 'failed' && reason !== undefined ? [`${of}: ${reason}`] : []),
    ...missing.map(({ platform, reason: why }) => `${of}: no h1: of ${platform}: ${why}`),
    ...(unsupported.length > 0 ? [`${of}: does not exist for ${unsupported.join(', ')}`] : []),
  ];
}
