import type { Diagnostic } from '../../configuration/requirements.ts';
import { html, type Markup } from '../html.ts';
import type { JobDocument, JobItemDocument } from '../job-documents.ts';
import { type ItemOutcome, jobStateTag, outcomeTag, whoAsked } from './job-words.ts';
import { hidden } from './page.ts';
import { pager } from './pager.ts';
import { counted, duration, number, size, tag, time } from './words.ts';

/** What there is to say about a file, be it read just now or long ago. */
type Told = Omit<Diagnostic, 'at'> & { readonly at?: string | undefined };

/** Items on one page. */
export const PAGE_ITEMS = 100;

export const OUTCOMES = ['all', 'failed', 'unsupported', 'stored', 'present', 'waiting'] as const;
export type OutcomeFilter = (typeof OUTCOMES)[number];

/** Every job that whoever looks may see. */
export function jobsTable(jobs: readonly JobDocument[]): Markup {
  if (jobs.length === 0) {
    return html`<p class="empty">None yet. A job fetches what files need before somebody asks for it.</p>`;
  }
  return html`<table class="stack" role="table"><caption class="away">Jobs, newest first</caption><thead role="rowgroup"><tr role="row">
<th scope="col" role="columnheader">Job</th><th scope="col" role="columnheader">State</th><th scope="col" role="columnheader" class="number">Done</th><th scope="col" role="columnheader" class="number">Failed</th><th scope="col" role="columnheader" class="number">Fetched</th><th scope="col" role="columnheader">By</th><th scope="col" role="columnheader">Begun</th><th scope="col" role="columnheader">Took</th>
</tr></thead><tbody role="rowgroup">${jobs.map(jobRow)}</tbody></table>`;
}

function jobRow(job: JobDocument): Markup {
  const { totals } = job;
  const isOver = job.endedAt !== undefined;
  return html`<tr role="row"><th scope="row" role="rowheader"><a href="jobs/${job.id}">${filesOf(job)}</a></th>
<td role="cell" data-name="State">${jobStateTag(job.state)}</td>
<td role="cell" data-name="Done" class="number">${number(totals.items - totals.waiting)} of ${number(totals.items)}</td>
<td role="cell" data-name="Failed" class="number">${totals.failed > 0 ? html`<strong>${number(totals.failed)}</strong>` : '0'}</td>
<td role="cell" data-name="Fetched" class="number">${size(job.bytes)}</td>
<td role="cell" data-name="By">${whoAsked(job.by)}</td>
<td role="cell" data-name="Begun">${time(new Date(job.createdAt))}</td>
<td role="cell" data-name="Took">${isOver ? took(job) : html`<span class="note">not over</span>`}</td></tr>`;
}

function took({ createdAt, endedAt }: JobDocument): string {
  return duration(Date.parse(endedAt ?? createdAt) - Date.parse(createdAt));
}

/** What somebody brought, as far as it fits. */
export function filesOf({ wish, id }: JobDocument): string {
  const [first = id, second] = wish.files;
  if (second === undefined) return first;
  return wish.count === 2 ? `${first}, ${second}` : `${first} and ${counted(wish.count - 1, 'more file')}`;
}

export interface JobSeen {
  readonly job: JobDocument;
  readonly diagnostics: readonly Told[];
  /** Those of this page. */
  readonly items: readonly JobItemDocument[];
  readonly filter: OutcomeFilter;
  /** Counted from 1. */
  readonly page: number;
  /** Of all pages together. */
  readonly total: number;
  readonly formToken: string;
  /** The last outcome that this page tells of: what comes later is told live. */
  readonly sequence: number;
}

/** One job with what has become of each of its items. */
export function jobPage(seen: JobSeen): Markup {
  const { job, diagnostics, formToken, sequence } = seen;
  const { totals } = job;
  const isOver = job.endedAt !== undefined;
  const done = totals.items - totals.waiting;
  const isAllThere = job.state === 'finished' && totals.failed === 0;
  return html`<div id="job"${!isOver && html` data-events="${job.id}/events?after=${sequence}"`}>
<div class="heading"><p><span data-job="state">${jobStateTag(job.state)}</span> <span data-job="reason" class="note">${job.reason}</span></p>
${
  isOver
    ? !isAllThere &&
      html`<form method="post" action="${job.id}/retry" class="inline">${hidden('form', formToken)}<button type="submit">Do again what failed</button></form>`
    : html`<form method="post" action="${job.id}/cancel" class="inline">${hidden('form', formToken)}<button type="submit">Cancel</button></form>`
}</div>
${!isOver && html`<progress max="${Math.max(1, totals.items)}" value="${done}" aria-label="Items done" data-job="progress">${done} of ${totals.items}</progress>`}
<dl class="figures small">
<div><dt>Done</dt><dd><span class="value" data-job="done">${number(done)} of ${number(totals.items)}</span></dd></div>
<div><dt>Stored</dt><dd><span class="value" data-job="stored">${number(totals.stored)}</span></dd></div>
<div><dt>Present before</dt><dd><span class="value" data-job="present">${number(totals.present)}</span></dd></div>
<div><dt>Unsupported</dt><dd><span class="value" data-job="unsupported">${number(totals.unsupported)}</span></dd></div>
<div><dt>Failed</dt><dd><span class="value" data-job="failed">${number(totals.failed)}</span></dd></div>
<div><dt>Fetched</dt><dd><span class="value" data-job="bytes">${size(job.bytes)}</span></dd></div>
</dl>
<p class="note">Begun ${time(new Date(job.createdAt))} by ${whoAsked(job.by)}${isOver && html`, took ${took(job)}`}. Platforms: ${job.wish.platforms.join(', ') || 'as the list or the configuration says'}. Client: ${job.wish.client === 'terraform' ? 'Terraform' : 'OpenTofu'}. Files: ${filesOf(job)}.</p>
${!isOver && html`<noscript><p class="note"><a href="${job.id}">Look again</a></p></noscript>`}
</div>
${diagnosticList(diagnostics)}
<section aria-labelledby="items"><h2 id="items">Items</h2>${itemsPart(seen)}</section>`;
}

function itemsPart(seen: JobSeen): Markup {
  const { job, items, filter, page, total } = seen;
  const { totals } = job;
  const countOf = (one: OutcomeFilter) => (one === 'all' ? totals.items : totals[one]);
  const hrefOf = (one: OutcomeFilter, to = 1) => {
    const query = new URLSearchParams({ ...(one !== 'all' && { outcome: one }), ...(to > 1 && { page: String(to) }) });
    return `${job.id}${query.size > 0 ? `?${query}` : ''}`;
  };
  return html`<div id="found"><nav aria-label="Outcome" class="choice"><ul>${OUTCOMES.map(
    (one) =>
      html`<li><a href="${hrefOf(one)}"${one === filter && html` aria-current="true"`} data-swap>${one === 'all' ? 'All' : `${one.charAt(0).toUpperCase()}${one.slice(1)}`} <span class="note" data-count="${one}">${number(countOf(one))}</span></a></li>`,
  )}</ul></nav>
${
  items.length === 0
    ? html`<p class="empty">${job.state === 'planning' ? 'It is being found out what is needed.' : 'None.'}</p>`
    : html`<table class="stack items" role="table"><caption class="away">Items of this job</caption><thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Item</th><th scope="col" role="columnheader">Outcome</th><th scope="col" role="columnheader" class="number">Fetched</th><th scope="col" role="columnheader">Reason</th></tr></thead>
<tbody role="rowgroup">${items.map(itemRow)}</tbody></table>`
}${pager({ page, pages: Math.ceil(total / PAGE_ITEMS), hrefOf: (to) => hrefOf(filter, to) })}</div>`;
}

function itemRow({ name, outcome, reason, note, bytes }: JobItemDocument): Markup {
  return html`<tr role="row" data-item="${name}"><th scope="row" role="rowheader">${name}</th><td role="cell" data-name="Outcome" data-cell="outcome">${outcomeTag(outcome as ItemOutcome | undefined)}</td><td role="cell" data-name="Fetched" class="number" data-cell="bytes">${outcome === 'stored' && bytes !== undefined && size(bytes)}</td><td role="cell" data-name="Reason" class="text" data-cell="reason">${[reason, note].filter(Boolean).join('; ')}</td></tr>`;
}

const SEVERITIES: Readonly<Record<Diagnostic['severity'], Markup>> = {
  error: tag('bad', 'Not read'),
  warning: tag('warn', 'Careful'),
  note: tag('plain', 'Note'),
};

/** What there was to say about the files. */
export function diagnosticList(diagnostics: readonly Told[]): Markup | undefined {
  if (diagnostics.length === 0) return undefined;
  return html`<section aria-labelledby="diagnostics"><h2 id="diagnostics">About the files</h2><ul class="lines">${diagnostics.map(
    ({ severity, file, at, message }) =>
      html`<li>${SEVERITIES[severity]} <code>${file}${at !== undefined && `:${at}`}</code> ${message}</li>`,
  )}</ul></section>`;
}
