import { type Command, Option } from 'commander';
import { Platform } from '../address/platform.ts';
import type { Config } from '../config.ts';
import { HclConverter } from '../configuration/hcl-converter.ts';
import { formatDiagnostic } from '../configuration/requirements.ts';
import { LarderError } from '../errors.ts';
import { type GapDocument, type GapReportDocument, gapReportDocument } from '../http/gap-documents.ts';
import { readingWords } from '../http/reading-rules.ts';
import { Gaps } from '../mirror/gaps.ts';
import { Policy } from '../mirror/policy.ts';
import type { Wish } from '../mirror/wanted.ts';
import { clientOf, WishReader } from '../mirror/wish-reader.ts';
import { DataDirectory } from './data-directory.ts';
import { repeated } from './repeated.ts';
import { RunningServer } from './running-server.ts';
import { addServerOptions, type ServerOptions } from './server-options.ts';
import { counted } from './tables.ts';
import { collectWish } from './wish-files.ts';

/** Something would fail, or could not be read. */
const GAPS = 1;
/** Nobody knows whether anything would. */
const TROUBLE = 2;

interface GapsOptions extends ServerOptions {
  readonly config?: string;
  readonly platform: readonly string[];
  readonly client?: Wish['client'];
  readonly stdinName?: string;
  readonly json?: boolean;
}

/** As given on the command line: whose rules hold may be left to the configuration. */
type Given = Omit<Wish, 'client'> & Partial<Pick<Wish, 'client'>>;

/**
 * `larder gaps FILE…`: what `init` would fail on if nothing could be fetched any more, on a running server or in the
 * data directory. Exits with 0 when there is nothing, with 1 when there is anything, with 2 when it cannot be told.
 */
export function addGaps(program: Command): void {
  const command = program
    .command('gaps')
    .description('list what would fail if upstream were gone: for lock files, configurations and lists')
    .argument('<file...>', 'files, directories, patterns; - is standard input')
    .addOption(
      new Option('--platform <os_arch>', 'repeatable')
        .argParser(repeated)
        .default([], 'those of a list, else warm.platforms'),
    )
    .addOption(new Option('--client <client>', 'whose rules hold').choices(['opentofu', 'terraform']))
    .option('--stdin-name <name>', 'what the file on standard input would be called')
    .option('-c, --config <file>', 'without --server: whose data directory to look into (also LARDER_CONFIG)')
    .option('--json', 'the report as one JSON object');
  addServerOptions(command).action(async (args: string[], options: GapsOptions) => {
    // Whatever happens: only who has looked may say that there is nothing.
    process.exitCode = TROUBLE;
    try {
      const { files } = await collectWish(args, { stdinName: options.stdinName });
      const wish = {
        files,
        platforms: options.platform.map(Platform.parse),
        ...(options.client && { client: options.client }),
      };
      const report = await (options.server === undefined ? findHere : findThere)(wish, options);
      for (const diagnostic of report.diagnostics) console.error(formatDiagnostic(diagnostic));
      console.log(options.json ? JSON.stringify(report) : shown(report));
      const isUnread = report.diagnostics.some(({ severity }) => severity === 'error');
      process.exitCode = report.gaps.length > 0 || isUnread ? GAPS : 0;
    } catch (error) {
      if (!(error instanceof LarderError)) throw error;
      console.error(`larder: ${error.message}${error.hint ? `\n${error.hint}` : ''}`);
    }
  });
}

async function findThere(wish: Given, options: GapsOptions): Promise<GapReportDocument> {
  const server = await RunningServer.at(options.server ?? '', options);
  try {
    const platforms = wish.platforms.map(String);
    return (await server.post('admin/gaps', { ...wish, platforms })) as GapReportDocument;
  } finally {
    await server.close();
  }
}

async function findHere(wish: Given, options: GapsOptions): Promise<GapReportDocument> {
  const here = await DataDirectory.open(options.config);
  const converter = new HclConverter();
  try {
    const { config, archives, modules } = here.carried;
    const reader = new WishReader({ converter, defaultPlatforms: config.warm.platforms });
    const gaps = new Gaps({ reader, policy: policyOf(config), archives, modules });
    return gapReportDocument(await gaps.find({ client: clientOf(config.upstreams.default), ...wish }));
  } finally {
    await converter.close();
    await here.close();
  }
}

/** What may be mirrored. Nobody is asked, so no token is read. */
function policyOf({ upstreams }: Config): Policy {
  const rules = upstreams.hosts.map(({ hostname, privateNetwork, signatures, include, exclude, credentials }) => ({
    upstream: {
      hostname,
      token: async () => undefined,
      archiveHosts: new Set<string>(),
      ca: undefined,
      clientCertificate: undefined,
      privateNetwork,
      signatures,
    },
    include,
    exclude,
    forward: credentials !== undefined && 'forward' in credentials,
  }));
  return new Policy(rules);
}

/** For people. */
export function shown(report: GapReportDocument): string {
  const { gaps, platforms, present } = report;
  const here = `${counted(present.archives, 'archive')} and ${counted(present.packages, 'module package')} are here`;
  const read = readingWords(report);
  const as = read === undefined ? '' : `, ${read}`;
  if (gaps.length > 0) return [...gaps.map(shownGap), `${counted(gaps.length, 'gap')}${as}; ${here}`].join('\n\n');
  if (present.archives + present.packages > 0) return `no gaps for ${platforms.join(', ')}${as}: ${here}`;
  return 'nothing was found in these files that would have to be here';
}

function shownGap(gap: GapDocument): string {
  const { address, version, constraint, platforms = [], reason, wantedBy } = gap;
  const wanted = version ?? constraint;
  const places = wantedBy.map(({ file, at }) => (at === undefined ? file : `${file}:${at}`));
  const lines = [
    [
      address,
      ...(wanted === undefined ? [] : [wanted]),
      ...(platforms.length > 0 ? [`(${platforms.join(', ')})`] : []),
    ].join(' '),
    `  ${reason}`,
    ...(places.length > 0 ? [`  wanted by ${places.slice(0, 3).join(', ')}${places.length > 3 ? ', …' : ''}`] : []),
    ...remedy(gap).map((line) => `  ${line}`),
  ];
  return lines.join('\n');
}

/** How to bring it in, as long as upstream can be reached. */
function remedy({ kind, warm, lockFile, platforms = [] }: GapDocument): string[] {
  const flags = platforms.map((platform) => ` --platform ${platform}`).join('');
  const items = [...(warm?.providers ?? []), ...(warm?.modules ?? [])];
  if (items.length > 0) return [`echo ${items.map(quoted).join(' ')} | larder warm${flags} -`];
  if (kind === 'contradicted') return ['find out where that came from before you take it out'];
  if (lockFile !== undefined) return [`if what is stored is what you want: larder lock${flags} ${quoted(lockFile)}`];
  return [];
}

/** For a shell. */
function quoted(text: string): string {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
