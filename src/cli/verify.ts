import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { type ExaminedDocument, examinedDocument, type VerifyDocument } from '../http/admin-verify.ts';
import { CommandFailed } from './command-failed.ts';
import { DataDirectory } from './data-directory.ts';
import { RunningServer } from './running-server.ts';
import { addServerOptions, type ServerOptions } from './server-options.ts';
import { shownSize } from './tables.ts';

/** How often a running server is asked how far it is. */
const LOOK_MS = 1_000;

interface VerifyOptions extends ServerOptions {
  readonly config?: string;
  readonly heal?: boolean;
  readonly json?: boolean;
}

/** Of a whole scan. */
interface Counted {
  readonly intact: number;
  readonly healed: number;
  readonly quarantined: number;
}

/**
 * `larder verify`: reads every stored archive and module package and compares its digest. What is damaged is put into
 * quarantine, so that the next request for it brings it anew; `--heal` brings it at once. Works on the data directory
 * (a server may be running on it meanwhile), or in the background of a running server.
 */
export function addVerify(program: Command): void {
  const command = program
    .command('verify')
    .description('re-hash everything that is stored and put what is damaged into quarantine')
    .option('--heal', 'fetch what is damaged anew, with --server')
    .option('-c, --config <file>', 'without --server: whose data directory to read (also LARDER_CONFIG)')
    .option('--json', 'one JSON object an archive or package; with --server, of those that are damaged');
  addServerOptions(command).action(async (options: VerifyOptions) => {
    if (options.heal && options.server === undefined) {
      throw new CommandFailed('only a running server can fetch anew', {
        hint: 'name it with --server; without --heal what is damaged is put aside, and fetched when it is asked for',
      });
    }
    const counted = options.server === undefined ? await here(options) : await there(options.server, options);
    const { intact, healed, quarantined } = counted;
    if (!options.json) {
      const mended = options.heal ? `, ${healed} healed` : '';
      console.log(`${intact} intact${mended}, ${quarantined} damaged and put into quarantine`);
    }
    if (quarantined > 0) process.exitCode = 1;
  });
}

async function here({ config, json = false }: VerifyOptions): Promise<Counted> {
  const directory = await DataDirectory.open(config);
  let intact = 0;
  let quarantined = 0;
  try {
    for await (const examined of directory.verify()) {
      if (examined.state === 'intact') intact += 1;
      else quarantined += 1;
      print(examinedDocument(examined), json);
    }
  } finally {
    await directory.close();
  }
  return { intact, healed: 0, quarantined };
}

async function there(url: string, options: VerifyOptions): Promise<Counted> {
  const { heal = false, json = false } = options;
  const server = await RunningServer.at(url, options);
  const isShown = process.stderr.isTTY === true && !json;
  const seen = new Set<string>();
  try {
    const begun = await server.ask('POST', 'admin/verify', { body: JSON.stringify({ heal }) });
    let progress = begun.document as VerifyDocument;
    for (;;) {
      for (const finding of progress.findings ?? []) {
        const key = JSON.stringify(finding);
        if (!seen.has(key)) print(finding, json);
        seen.add(key);
      }
      if (isShown) process.stderr.write(`\r${shownProgress(progress)}\u001b[K`);
      if (progress.state !== 'running') break;
      await delay(LOOK_MS);
      progress = (await server.get('admin/verify')) as VerifyDocument;
    }
    if (isShown) process.stderr.write('\n');
    if (progress.state !== 'done') {
      throw new CommandFailed(`the scan ended early (${progress.state})`, {
        hint: progress.reason ?? 'the server was restarted, or somebody stopped the scan; begin it again',
      });
    }
    const { checked = 0, healed = 0, quarantined = 0 } = progress;
    return { intact: checked - healed - quarantined, healed, quarantined };
  } finally {
    await server.close();
  }
}

function shownProgress({ checked = 0, checkedBytes = 0, totalBytes = 0 }: VerifyDocument): string {
  return `${checked} read, ${shownSize(checkedBytes)} of ${shownSize(Math.max(checkedBytes, totalBytes))}`;
}

function print(examined: ExaminedDocument, json: boolean): void {
  if (json) console.log(JSON.stringify(examined));
  else if (examined.state !== 'intact') console.log(shown(examined));
}

function shown({ archive, package: module, state, quarantine, reason }: ExaminedDocument): string {
  const subject = archive ?? module;
  if (state === 'healed') return `${subject}: was damaged, fetched anew`;
  return `${subject}: damaged, in quarantine as ${quarantine}${reason === undefined ? '' : ` (${reason})`}`;
}
