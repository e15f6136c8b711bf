import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import { parseSha256 } from '../address/hash.ts';
import type { Hostname } from '../address/hostname.ts';
import { assembleCarrying, type Carrying } from '../carrying.ts';
import { hasCode } from '../errors.ts';
import { BroughtDirectory } from '../mirror/brought-directory.ts';
import { Import, type Imported, type ImportOutcome, type ImportTarget } from '../mirror/import.ts';
import { ReleaseIntake } from '../mirror/release-intake.ts';
import type { StoredArchive } from '../store/archive-store.ts';
import { PackageHasher } from '../store/package-hash.ts';
import { CommandFailed } from './command-failed.ts';
import { DataDirectory } from './data-directory.ts';
import { ServerCarrier } from './server-carrier.ts';
import { addServerOptions, type ServerOptions } from './server-options.ts';

const READ_BYTES = 256 * 1024;

interface ImportOptions extends ServerOptions {
  readonly config?: string;
  readonly trust?: boolean;
  readonly sha256?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/**
 * `larder import DIR`: takes in what `larder export`, `tofu providers mirror` or `terraform providers mirror` wrote. Exits
 * with 1 when anything was refused or failed; the rest is there all the same.
 */
export function addImport(program: Command): void {
  const command = program
    .command('import')
    .description('take in a directory that larder export, or providers mirror of tofu or terraform, wrote')
    .argument('<directory>')
    .option('--trust', 'take also archives and packages that nothing in the directory vouches for')
    .option('--sha256 <hex>', 'of its larder-export.json as it was made: nothing that this does not list is taken')
    .option('--dry-run', 'compare everything, and take nothing')
    .option('-c, --config <file>', 'without --server: into whose data directory (also LARDER_CONFIG)')
    .option('--json', 'one JSON object a line');
  addServerOptions(command).action(async (directory: string, options: ImportOptions = {}) => {
    const source = await found(directory);
    const isClean = await (options.server === undefined ? importHere : importThere)(source, options);
    if (!isClean) process.exitCode = 1;
  });
}

async function found(directory: string): Promise<BroughtDirectory> {
  try {
    return await BroughtDirectory.open(directory);
  } catch (error) {
    if (!hasCode(error, 'NOT_FOUND')) throw error;
    throw new CommandFailed(error.message, { hint: error.hint });
  }
}

async function importHere(source: BroughtDirectory, options: ImportOptions): Promise<boolean> {
  const here = await DataDirectory.open(options.config, { create: true });
  const audit = options.dryRun ? undefined : here.openAudit();
  try {
    const { config, archives: store, modules, drift, hasher, logger } = here.carried;
    const carrying = assembleCarrying(config, { store, modules, drift, logger });
    const there: StoredArchive[] = [];
    const target = intoStores(carrying, options.trust ?? false, (stored) => there.push(stored));
    const { releases } = carrying;
    const { isClean, hosts: seen } = await run({ source, target, releases, hasher, options }, (one) => {
      if (one.outcome === 'imported') audit?.record('imported', documentOf(one));
    });
    // A server that wrote the same document at the same moment may have left out what was written down of them.
    for (const { archive, sha256 } of there) await store.adopt(archive, { sha256 });
    const hosts = new Set(config.upstreams.hosts.map(({ hostname }) => hostname.toString()));
    warnOfUnserved(seen.filter((host) => !hosts.has(host.toString())));
    return isClean;
  } finally {
    await audit?.close();
    await here.close();
  }
}

async function importThere(source: BroughtDirectory, options: ImportOptions): Promise<boolean> {
  const hasher = new PackageHasher();
  const carrier = await ServerCarrier.at(options.server ?? '', options);
  try {
    // The server knows what it demands of a registry's signatures; wrong ones are refused here already.
    const releases = new ReleaseIntake({ store: NO_STORE, signatures: () => 'verify' });
    return (await run({ source, target: carrier, releases, hasher, options }, () => {})).isClean;
  } finally {
    await carrier.close();
    await hasher.close();
  }
}

/** For looking at what was brought alone. */
const NO_STORE = {
  getRelease: async () => undefined,
  putRelease: async () => {},
};

/** @param onArchive told of each archive that is there now */
function intoStores(
  { archives, releases, packages }: Carrying,
  isTrusted: boolean,
  onArchive: (stored: StoredArchive) => void,
): ImportTarget {
  return {
    takeArchive: async ({ archive, file, size, sha256, h1 }) => {
      const open = () => createReadStream(file, { highWaterMark: READ_BYTES });
      const intake = await archives.take(archive, open, { sha256, size, h1 });
      if (intake.outcome !== 'refused') onArchive(intake.stored);
      return intake;
    },
    takeRelease: (provider, version, checked) => releases.keep(provider, version, checked),
    takePackage: ({ release, file, ...claims }) =>
      packages.take(release, () => createReadStream(file), { ...claims, isTrusted }),
  };
}

async function run(
  deps: {
    source: BroughtDirectory;
    target: ImportTarget;
    releases: Pick<ReleaseIntake, 'check'>;
    hasher: Pick<PackageHasher, 'hash'>;
    options: ImportOptions;
  },
  onOutcome: (one: Imported) => void,
): Promise<{ readonly isClean: boolean; readonly hosts: readonly Hostname[] }> {
  const { trust = false, dryRun = false, json = false } = deps.options;
  const counts = new Map<ImportOutcome, number>();
  const hosts = new Map<string, Hostname>();
  try {
    const vouchedFor = await listed(deps.source, deps.options.sha256);
    for await (const one of new Import({ ...deps, isTrusting: trust, dryRun, vouchedFor }).run()) {
      onOutcome(one);
      const { hostname } = 'package' in one ? one.package.module : subjectOf(one).provider;
      hosts.set(hostname.toString(), hostname);
      if (!('checksums' in one) || isAmiss(one)) counts.set(one.outcome, (counts.get(one.outcome) ?? 0) + 1);
      if (json) console.log(JSON.stringify(documentOf(one)));
      else if (isAmiss(one)) console.error(`larder: ${one.outcome}: ${nameOf(one)}: ${one.reason}`);
      else if (one.outcome !== 'present' && !('checksums' in one)) console.log(`${nameOf(one)}: ${one.outcome}`);
    }
  } catch (error) {
    if (!hasCode(error, 'STORAGE_FAILED')) throw error;
    const full = (error as { full?: boolean }).full === true;
    throw new CommandFailed(full ? 'there is no room left for what is brought' : error.message, {
      cause: error,
      hint: 'what was taken in is whole; the same command goes on where it stopped',
    });
  }
  const summary = [...counts].map(([outcome, count]) => `${count} ${outcome}`).join(', ');
  if (!json) console.log(summary === '' ? 'there is nothing in it that could be imported' : summary);
  const isClean = !counts.has('refused') && !counts.has('failed') && counts.size > 0;
  if (counts.has('failed') && !json) console.error('larder: what failed may come in with the same command again');
  return { isClean, hosts: [...hosts.values()] };
}

/** It is not there now, whatever was the reason. */
function isAmiss({ outcome }: Imported): boolean {
  return outcome === 'refused' || outcome === 'failed';
}

async function listed(source: BroughtDirectory, sha256: string | undefined) {
  if (sha256 === undefined) return undefined;
  try {
    return await source.vouchedFor(parseSha256(sha256));
  } catch (error) {
    if (!hasCode(error, 'NOT_FOUND') && !hasCode(error, 'INTEGRITY_MISMATCH')) throw error;
    throw new CommandFailed(error.message, { hint: 'nothing was taken: it is not the export whose SHA-256 was given' });
  }
}

function warnOfUnserved(hosts: readonly Hostname[]): void {
  for (const host of hosts) {
    console.error(`larder: ${host} is not among upstreams.hosts: what was imported of it is not served until it is`);
  }
}

function subjectOf(one: Exclude<Imported, { package: unknown }>) {
  return 'archive' in one ? one.archive : one.checksums;
}

function nameOf(one: Imported): string {
  if ('package' in one) return one.package.toString();
  const { provider, version } = subjectOf(one);
  return `${provider} ${version} ${'archive' in one ? one.archive.platform : 'SHA256SUMS'}`;
}

function documentOf(one: Imported): Record<string, unknown> {
  const { outcome, why, reason } = one;
  const told = { outcome, ...(why && { why }), ...(reason !== undefined && { reason }) };
  if ('package' in one) {
    return { kind: 'module', address: `${one.package.module}`, version: `${one.package.version}`, ...told };
  }
  const { provider, version } = subjectOf(one);
  const kind = 'archive' in one ? 'archive' : 'checksums';
  const platform = 'archive' in one ? { platform: `${one.archive.platform}` } : {};
  return { kind, address: `${provider}`, version: `${version}`, ...platform, ...told };
}
