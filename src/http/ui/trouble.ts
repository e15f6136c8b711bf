import type { DriftDocument } from '../admin-documents.ts';
import { html, type Markup } from '../html.ts';
import type { Refusal } from './refusals.ts';
import { number, shortened, time } from './words.ts';

/** What upstreams changed that nobody may change, and what was refused to whom. */
export function troublePage({
  drift,
  refusals,
}: {
  drift: readonly DriftDocument[];
  refusals: readonly Refusal[];
}): Markup {
  return html`<section aria-labelledby="drift"><h2 id="drift">Drift</h2>
<p class="note">Versions of which upstream now publishes other bytes than it first did, noticed since the start. What was seen first is served; purging it with <code>larder purge</code> takes what upstream has now.</p>
${drift.length === 0 ? html`<p class="empty">None.</p>` : driftTable(drift)}</section>
<section aria-labelledby="refusals"><h2 id="refusals">Refusals</h2>
<p class="note">Requests that this replica refused since its start, latest first: tokens and addresses that are not let in, and bytes or answers of upstreams that are not what they should be.</p>
${refusals.length === 0 ? html`<p class="empty">None.</p>` : refusalTable(refusals)}</section>`;
}

function driftTable(drift: readonly DriftDocument[]): Markup {
  return html`<table class="stack" role="table"><caption class="away">Drift</caption><thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">What</th><th scope="col" role="columnheader">Seen first, and served</th><th scope="col" role="columnheader">Published now</th><th scope="col" role="columnheader">Noticed</th></tr></thead>
<tbody role="rowgroup">${drift.map(
    ({
      address,
      version,
      platform,
      first,
      published,
      noticedAt,
    }) => html`<tr role="row"><th scope="row" role="rowheader"><a href="item?${new URLSearchParams({ address, version, ...(platform !== undefined && { platform }) }).toString()}">${address} ${version} ${platform}</a></th>
<td role="cell" data-name="Seen first"><code title="${first}">${shortened(first)}</code></td>
<td role="cell" data-name="Published now"><code title="${published}">${shortened(published)}</code></td>
<td role="cell" data-name="Noticed">${time(new Date(noticedAt))}</td></tr>`,
  )}</tbody></table>`;
}

function refusalTable(refusals: readonly Refusal[]): Markup {
  return html`<table class="stack" role="table"><caption class="away">Refusals, latest first</caption><thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">What</th><th scope="col" role="columnheader">Why</th><th scope="col" role="columnheader">Code</th><th scope="col" role="columnheader">Who</th><th scope="col" role="columnheader" class="number">Times</th><th scope="col" role="columnheader">Last</th></tr></thead>
<tbody role="rowgroup">${refusals.map(
    ({
      what,
      reason,
      outcome,
      client,
      remote,
      count,
      lastAt,
      requestId,
    }) => html`<tr role="row"><th scope="row" role="rowheader">${what}</th>
<td role="cell" data-name="Why" class="text">${reason}</td>
<td role="cell" data-name="Code"><code>${outcome}</code></td>
<td role="cell" data-name="Who">${client || 'nobody known'}, ${remote}</td>
<td role="cell" data-name="Times" class="number">${number(count)}</td>
<td role="cell" data-name="Last"><span title="Request ${requestId}">${time(lastAt)}</span></td></tr>`,
  )}</tbody></table>`;
}
