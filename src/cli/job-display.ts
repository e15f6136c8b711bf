import { formatDiagnostic } from '../configuration/requirements.ts';
import type { JobItemDocument, JobProgressDocument, ToldJobDocument } from '../http/job-documents.ts';
import { readingWords } from '../http/reading-rules.ts';
import { counted, shownSize, table } from './tables.ts';

/** How a job is shown while it runs, and once it has ended. */
export interface JobDisplay {
  began(id: string): void;
  item(item: JobItemDocument): void;
  progress(progress: JobProgressDocument): void;
  /** The server is not there for the moment. */
  lost(): void;
  /** @param items those with an outcome */
  ended(job: ToldJobDocument, items: readonly JobItemDocument[]): void;
}

/** For programs: one JSON object a line. */
export class JobLines implements JobDisplay {
  began(job: string): void {
    this.#print('began', { job });
  }

  item(item: JobItemDocument): void {
    this.#print('item', item);
  }

  progress({ state, totals, bytes }: JobProgressDocument): void {
    this.#print('progress', { state, totals, bytes });
  }

  lost(): void {}

  ended({ diagnostics, ...job }: ToldJobDocument): void {
    for (const diagnostic of diagnostics) this.#print('diagnostic', diagnostic);
    this.#print('end', job);
  }

  #print(event: string, fields: object): void {
    console.log(JSON.stringify({ event, ...fields }));
  }
}

/** For people: one line that is drawn again and again, and in the end what is not there. */
export class JobStatusLine implements JobDisplay {
  readonly #terminal: NodeJS.WriteStream;

  constructor(terminal: NodeJS.WriteStream = process.stdout) {
    this.#terminal = terminal;
  }

  began(job: string): void {
    this.#draw(`job ${job}: looking up versions`);
  }

  item(): void {}

  progress({ state, totals, bytes, reason = '' }: JobProgressDocument): void {
    const done = `${totals.items - totals.waiting} of ${totals.items}`;
    if (state === 'planning') this.#draw(`looking up versions: ${counted(totals.items, 'item')} so far`);
    else if (state === 'paused') this.#draw(`${done}: paused: ${reason}`);
    else if (totals.items > 0) this.#draw(`${done}: ${summary(totals, bytes)}`);
  }

  lost(): void {
    this.#draw('the server does not answer; trying again');
  }

  ended(job: ToldJobDocument, items: readonly JobItemDocument[]): void {
    this.#draw('');
    this.#terminal.write(`${shownJob(job, items)}\n`);
  }

  #draw(line: string): void {
    // A line that wraps cannot be drawn over.
    const width = (this.#terminal.columns || 80) - 1;
    this.#terminal.write(`\r\x1b[2K${line.slice(0, width)}`);
  }
}

/** What was found in the files, what is not there, and how much there is of everything. */
export function shownJob(
  { state, reason, totals, bytes, diagnostics, wish, impliedHostname }: ToldJobDocument,
  items: readonly JobItemDocument[],
): string {
  const rows = items
    .filter(({ outcome }) => outcome === 'failed' || outcome === 'unsupported')
    .map(({ name, outcome = '', reason: why = '' }) => [name, outcome, why]);
  const notes = items.filter(({ note }) => note !== undefined).map(({ name, note }) => `${name}: ${note}`);
  const read = readingWords({ client: wish.client, impliedHostname });
  const parts = [
    diagnostics.map((one) => formatDiagnostic({ ...one, at: one.at })).join('\n'),
    notes.join('\n'),
    rows.length > 0 ? table(['NOT THERE', 'OUTCOME', 'WHY'], rows, new Set()) : '',
    totals.items > 0
      ? [`${counted(totals.items, 'item')}: ${summary(totals, bytes)}`, ...(read === undefined ? [] : [read])].join(
          ', ',
        )
      : 'nothing in these files needs a provider or a module of a registry',
    state === 'cancelled' ? `cancelled; ${totals.waiting} were not tried` : '',
    state === 'failed' ? `failed: ${reason ?? ''}` : '',
  ];
  return parts.filter((part) => part !== '').join('\n');
}

function summary({ present, stored, unsupported, failed }: ToldJobDocument['totals'], bytes: number): string {
  return `${present} present, ${stored} stored (${shownSize(bytes)}), ${unsupported} unsupported, ${failed} failed`;
}
