import type { Command } from 'commander';
import { Version } from '../address/version.ts';
import { parseAddress, unusedSince } from '../http/admin.ts';
import {
  type ArchiveDocument,
  archiveDocument,
  type DriftDocument,
  type ModuleDocument,
  moduleDocument,
} from '../http/admin-documents.ts';
import type { QuarantineDocument } from '../http/admin-verify.ts';
import type { Quarantined } from '../store/quarantine.ts';
import { CommandFailed } from './command-failed.ts';
import { DataDirectory } from './data-directory.ts';
import { RunningServer } from './running-server.ts';
import { addServerOptions, type ServerOptions } from './server-options.ts';
import { counted, shownSize, table } from './tables.ts';

interface LsOptions extends ServerOptions {
  readonly config?: string;
  readonly version?: string | undefined;
  readonly unused?: string;
  readonly quarantined?: boolean;
  readonly json?: boolean;
}

interface Listed {
  readonly archives: readonly ArchiveDocument[];
  readonly modules: readonly ModuleDocument[];
  readonly drift: readonly DriftDocument[];
}

/** `larder ls [ADDRESS [VERSION]]`: what is stored, on a running server or in the data directory. */
export function addLs(program: Command): void {
  const command = program
    .command('ls')
    .description('list what is stored, and what upstream publishes differently by now')
    .argument('[address]', 'HOST/NAMESPACE/TYPE, or HOST/NAMESPACE/NAME/SYSTEM for modules, with * for a whole part')
    .argument('[version]', 'this version only')
    .option('--version <version>', 'this version only, also without an address')
    .option('--unused <time>', 'only what nobody used for so long (90d, 12h)')
    .option('--quarantined', 'what was damaged and put aside, instead of what is stored')
    .option('-c, --config <file>', 'without --server: whose data directory to look into (also LARDER_CONFIG)')
    .option('--json', 'one JSON object a line');
  addServerOptions(command).action(async (address?: string, given?: string, options: LsOptions = {}) => {
    // Said before anybody is asked.
    if (address !== undefined) parseAddress(address);
    if (options.unused !== undefined) unusedSince(options.unused);
    const version = oneVersion(given, options.version);
    if (options.quarantined) {
      await listQuarantined(address, { ...options, version });
      return;
    }
    const listed = await (options.server === undefined ? listHere : listThere)(address, { ...options, version });
    if (options.json) printLines(listed);
    else print(listed);
    if (listed.archives.length + listed.modules.length + listed.drift.length > 0) return;
    console.error('larder: nothing that is stored matches');
    process.exitCode = 1;
  });
}

/** The version as argument or as option. @throws InvalidAddress, CommandFailed when they differ */
function oneVersion(argument: string | undefined, option: string | undefined): string | undefined {
  for (const version of [argument, option]) if (version !== undefined) Version.parse(version);
  if (argument !== undefined && option !== undefined && argument !== option) {
    throw new CommandFailed(`two versions are given, ${argument} and ${option}`, { hint: 'leave --version out' });
  }
  return argument ?? option;
}

async function listThere(address: string | undefined, options: LsOptions): Promise<Listed> {
  const server = await RunningServer.at(options.server ?? '', options);
  try {
    const listed = (await server.get('admin/inventory', {
      address,
      version: options.version,
      unused: options.unused,
    })) as Listed;
    // One that is older than modules does not speak of them.
    return { ...listed, modules: listed.modules ?? [] };
  } finally {
    await server.close();
  }
}

async function listHere(address: string | undefined, { config, version, unused }: LsOptions): Promise<Listed> {
  const here = await DataDirectory.open(config);
  const archives: ArchiveDocument[] = [];
  const modules: ModuleDocument[] = [];
  try {
    const selection = {
      ...(address !== undefined && { address: parseAddress(address) }),
      ...(version && { version: Version.parse(version) }),
      ...(unused && { unusedSince: unusedSince(unused) }),
    };
    for await (const entry of here.inventory.archives(selection)) archives.push(archiveDocument(entry));
    for await (const entry of here.inventory.packages(selection)) modules.push(moduleDocument(entry));
  } finally {
    await here.close();
  }
  return { archives, modules, drift: [] };
}

function printLines({ archives, modules, drift }: Listed): void {
  for (const archive of archives) console.log(JSON.stringify({ kind: 'archive', ...archive }));
  for (const module of modules) console.log(JSON.stringify({ kind: 'module', ...module }));
  for (const one of drift) console.log(JSON.stringify({ kind: 'drift', ...one }));
}

function print({ archives, modules, drift }: Listed): void {
  if (archives.length > 0) printArchives(archives);
  if (archives.length > 0 && modules.length > 0) console.log();
  if (modules.length > 0) printModules(modules);
  if (drift.length === 0) return;
  console.log(
    '\nUpstream now publishes other bytes under these names; what was seen first is kept, the rest is refused:',
  );
  for (const { address, version, platform, first, published } of drift) {
    const name = [address, version, ...(platform === undefined ? [] : [platform])].join(' ');
    // Of a module that is in another directory of the very same package now.
    const change = first === published ? 'another directory of the package' : `was ${first}, is ${published}`;
    console.log(`  ${name}: ${change}`);
  }
  console.log('To accept what it publishes now: larder purge ADDRESS VERSION');
}

function printArchives(archives: readonly ArchiveDocument[]): void {
  const rows = archives.map(({ address, version, platform, size, storedAt, lastUse, h1, published, pinned }) => [
    address,
    version,
    platform,
    shownSize(size),
    shownTime(storedAt),
    shownUse(lastUse),
    `zh:${h1 ? ' h1:' : ''}${pinned ? '  pinned' : ''}${published ? '  differs upstream' : ''}`,
  ]);
  console.log(
    table(['ADDRESS', 'VERSION', 'PLATFORM', 'SIZE', 'STORED (UTC)', 'LAST USE', 'HASHES'], rows, new Set([3])),
  );
  console.log(`\n${counted(archives.length, 'archive')}, ${shownSize(totalSize(archives))}`);
}

function printModules(modules: readonly ModuleDocument[]): void {
  const rows = modules.map(({ address, version, size, storedAt, lastUse, source, published, pinned }) => [
    address,
    version,
    shownSize(size),
    shownTime(storedAt),
    shownUse(lastUse),
    `${source}${pinned ? '  pinned' : ''}${published ? '  differs upstream' : ''}`,
  ]);
  console.log(table(['MODULE', 'VERSION', 'SIZE', 'STORED (UTC)', 'LAST USE', 'MADE OF'], rows, new Set([2])));
  console.log(`\n${counted(modules.length, 'module package')}, ${shownSize(totalSize(modules))}`);
}

async function listQuarantined(address: string | undefined, options: LsOptions): Promise<void> {
  const pattern = address === undefined ? undefined : parseAddress(address).toString();
  const all = await (options.server === undefined ? quarantineHere(options) : quarantineThere(options.server, options));
  const found = all.filter(
    (one) =>
      (pattern === undefined || pattern === one.address || isLike(pattern, one.address)) &&
      (options.version === undefined || options.version === one.version),
  );
  if (options.json) for (const one of found) console.log(JSON.stringify({ kind: 'quarantined', ...one }));
  else if (found.length > 0) {
    const rows = found.map(({ address: of, version, platform, size, at, id }) => [
      of,
      version,
      platform ?? '',
      shownSize(size),
      shownTime(at),
      id,
    ]);
    console.log(table(['ADDRESS', 'VERSION', 'PLATFORM', 'SIZE', 'SINCE (UTC)', 'IN quarantine/'], rows, new Set([3])));
    console.log(`\n${counted(found.length, 'file')}, ${shownSize(totalSize(found))}`);
  }
  if (found.length > 0) return;
  console.error('larder: nothing is in quarantine that matches');
  process.exitCode = 1;
}

/** Part by part, `*` for whatever it is. */
function isLike(pattern: string, address: string): boolean {
  const parts = address.split('/');
  const wanted = pattern.split('/');
  return wanted.length === parts.length && wanted.every((part, index) => part === '*' || part === parts[index]);
}

async function quarantineHere({ config }: LsOptions): Promise<readonly Quarantined[]> {
  const here = await DataDirectory.open(config);
  try {
    return await here.quarantine.list();
  } finally {
    await here.close();
  }
}

async function quarantineThere(url: string, options: LsOptions): Promise<readonly Quarantined[]> {
  const server = await RunningServer.at(url, options);
  try {
    return ((await server.get('admin/quarantine')) as QuarantineDocument).quarantined;
  } finally {
    await server.close();
  }
}

/** Of a server that does not tell yet, nothing. */
function shownUse(time: string | undefined): string {
  return time === undefined ? '' : time.slice(0, 10);
}

function shownTime(time: string): string {
  return time.slice(0, 16).replace('T', ' ');
}

function totalSize(stored: readonly { readonly size: number }[]): number {
  return stored.reduce((sum, { size }) => sum + size, 0);
}
