import type { Pin } from '../../mirror/pins.ts';
import type { SignatureState } from '../../mirror/signature-states.ts';
import { isArchive, type StoredOrder, type StoredPage, type StoredRow } from '../../mirror/stored-index.ts';
import { html, type Markup } from '../html.ts';
import { hidden } from './page.ts';
import { pager } from './pager.ts';
import { PAGE_ROWS, type StoredAsked, storedQuery } from './stored-query.ts';
import { counted, shortened, size, tag, time } from './words.ts';

export interface SeenRow extends StoredRow {
  readonly hasDrifted: boolean;
  /** `undefined` when it has none, or is not known yet. */
  readonly signature: SignatureState | undefined;
}

export interface StoredSeen {
  readonly asked: StoredAsked;
  readonly page: Omit<StoredPage, 'rows'> & { readonly rows: readonly SeenRow[] };
  readonly pins: readonly Pin[];
  /** Without it nothing can be pinned by whoever looks. */
  readonly formToken: string | undefined;
}

/** What is stored, one page of it. */
export function storedPage(seen: StoredSeen): Markup {
  const { asked, page } = seen;
  return html`<form method="get" action="stored" role="search" class="bar" id="search" data-swap>
<label class="grow">Search <input type="search" name="q" value="${asked.search}" placeholder="aws 5. linux_amd64" autocomplete="off" spellcheck="false"></label>
${choice('Kind', 'kind', asked.kind, [
  ['all', 'Providers and modules'],
  ['providers', 'Providers'],
  ['modules', 'Modules'],
])}
${choice('Show', 'only', asked.only, [
  ['all', 'All'],
  ['pinned', 'Pinned'],
  ['drift', 'With drift'],
])}
<button type="submit">Search</button>
</form>
<div id="found">
${asked.order !== 'address' && html`<input type="hidden" name="sort" value="${asked.order}" form="search">`}${asked.isDescending && html`<input type="hidden" name="dir" value="desc" form="search">`}
<p class="note" data-announce>${counted(page.total, 'archive or package', 'archives and packages')}, ${size(page.bytes)} together${
    !page.isWhole && '; this is what has been read so far, reload for the rest'
  }.</p>
${page.rows.length === 0 ? empty(asked, page) : rowsTable(seen)}
${pager({ page: asked.page, pages: Math.ceil(page.total / PAGE_ROWS), hrefOf: (to) => `stored${storedQuery(asked, { page: to })}` })}
</div>
${pinsPanel(seen)}`;
}

function empty(asked: StoredAsked, { isWhole }: StoredSeen['page']): Markup {
  if (!isWhole) return html`<p class="empty">Nothing yet. What is stored is still being read.</p>`;
  if (asked.words.length > 0 || asked.kind !== 'all' || asked.only !== 'all') {
    return html`<p class="empty">Nothing that is stored fits. <a href="stored">Show everything</a></p>`;
  }
  return html`<p class="empty">Nothing is stored yet. What clients ask for is kept from then on; to have it here before them, <a href="jobs">warm it</a>.</p>`;
}

function choice(
  name: string,
  field: string,
  chosen: string,
  options: readonly (readonly [value: string, text: string])[],
): Markup {
  return html`<label>${name} <select name="${field}">${options.map(
    ([value, text]) => html`<option value="${value}"${value === chosen && html` selected`}>${text}</option>`,
  )}</select></label>`;
}

function rowsTable(seen: StoredSeen): Markup {
  const { asked, page } = seen;
  return html`<table class="stack" role="table"><caption class="away">What is stored, page ${asked.page}</caption><thead role="rowgroup"><tr role="row">
${heading(asked, 'address', 'Address')}<th scope="col" role="columnheader">Version</th><th scope="col" role="columnheader">Platform</th>${heading(asked, 'size', 'Size', true)}${heading(asked, 'used', 'Last used')}${heading(asked, 'stored', 'Stored')}<th scope="col" role="columnheader">SHA-256</th><th scope="col" role="columnheader">Signature</th><th scope="col" role="columnheader">Pin</th>
</tr></thead>
<tbody role="rowgroup">${page.rows.map((row) => storedRow(row, seen))}</tbody></table>`;
}

/** A link that sorts by it; once more the other way round. */
function heading(asked: StoredAsked, order: StoredOrder, name: string, isNumber = false): Markup {
  const isThis = asked.order === order;
  const isDescending = isThis ? !asked.isDescending : order === 'size';
  const direction = isThis ? (asked.isDescending ? 'descending' : 'ascending') : undefined;
  const mark = direction && html`<span aria-hidden="true">${direction === 'ascending' ? ' ↑' : ' ↓'}</span>`;
  return html`<th scope="col" role="columnheader"${isNumber && html` class="number"`}${direction && html` aria-sort="${direction}"`}><a href="stored${storedQuery(asked, { order, isDescending, page: 1 })}" data-swap>${name}${mark}</a></th>`;
}

function storedRow(row: SeenRow, seen: StoredSeen): Markup {
  const { stored, address, version, platform } = row;
  return html`<tr role="row">
<th scope="row" role="rowheader"><a href="item${itemQuery(row)}">${address.toString()}</a></th>
<td role="cell" data-name="Version" class="brief">${version.toString()}</td>
<td role="cell" data-name="Platform" class="brief">${platform ?? html`<span class="note">module</span>`}</td>
<td role="cell" data-name="Size" class="number brief">${size(stored.size)}</td>
<td role="cell" data-name="Last used">${time(new Date(row.lastUse))}</td>
<td role="cell" data-name="Stored" class="roomy">${time(stored.storedAt)}</td>
<td role="cell" data-name="SHA-256" class="roomy"><code title="${stored.sha256}">${shortened(stored.sha256)}</code></td>
<td role="cell" data-name="Signature">${signatureTag(row)}${row.hasDrifted && html` ${tag('bad', 'Drift')}`}</td>
<td role="cell" data-name="Pin" class="text">${pinCell(row, seen)}</td>
</tr>`;
}

export function itemQuery({ address, version, platform }: Pick<StoredRow, 'address' | 'version' | 'platform'>): string {
  return `?${new URLSearchParams({ address: String(address), version: String(version), ...(platform !== undefined && { platform }) })}`;
}

export function signatureTag({ stored, signature }: Pick<SeenRow, 'stored' | 'signature'>): Markup {
  // The protocol has none for them.
  if (!isArchive(stored)) return html`<span class="note">modules have none</span>`;
  if (!signature) return html`<span class="note">not looked at yet</span>`;
  if (signature.state === 'none') return tag('warn', 'No checksums');
  if (signature.state === 'unsigned') return tag('warn', 'Unsigned');
  if (signature.state === 'doubtful') return tag('bad', 'Doubtful');
  return signature.lists(stored.sha256) ? tag('good', 'Good') : tag('bad', 'Not listed');
}

/** Pins that hold a version: the one of just this version can be taken back beside it. */
export function pinsOf(
  { address, version }: Pick<StoredRow, 'address' | 'version'>,
  pins: readonly Pin[],
): { exact: Pin | undefined; wider: Pin | undefined } {
  const holding = pins.filter((pin) => pin.holds(address, version));
  const own = `${address}@${version}`;
  return {
    exact: holding.find((pin) => pin.toString() === own),
    wider: holding.find((pin) => pin.toString() !== own),
  };
}

function pinCell(row: SeenRow, { asked, pins, formToken }: StoredSeen): Markup {
  const { exact, wider } = pinsOf(row, pins);
  const own = `${row.address}@${row.version}`;
  const held = exact ?? wider;
  const state = held && html`<span class="pinned" title="Kept by ${held.toString()}">Pinned</span>`;
  if (formToken === undefined) return state ?? html`<span class="note">no</span>`;
  if (wider && !exact)
    return html`${state} <span class="note">by <a href="#pins" title="${wider.toString()}">a pattern</a></span>`;
  return html`${state} ${pinForm({ pin: own, isAdding: exact === undefined, formToken, back: `stored${storedQuery(asked)}` })}`;
}

export function pinForm({
  pin,
  isAdding,
  formToken,
  back,
}: {
  pin: string;
  isAdding: boolean;
  formToken: string;
  /** The page to come back to. */
  back: string;
}): Markup {
  return html`<form method="post" action="pins" class="inline">${hidden('form', formToken)}${hidden('pin', pin)}${hidden('back', back)}<button type="submit" name="what" value="${isAdding ? 'add' : 'remove'}" class="small">${isAdding ? 'Pin' : 'Unpin'}<span class="away"> ${pin}</span></button></form>`;
}

function pinsPanel({ asked, pins, formToken }: StoredSeen): Markup {
  const back = `stored${storedQuery(asked)}`;
  return html`<section aria-labelledby="pins"><h2 id="pins">Pins</h2>
<p class="note">What is pinned is never removed to make room, and purged only when that is said.</p>
${
  pins.length === 0
    ? html`<p class="empty">Nothing is pinned.</p>`
    : html`<ul class="lines">${pins.map(
        (pin) =>
          html`<li><code>${pin.toString()}</code> ${formToken !== undefined && pinForm({ pin: pin.toString(), isAdding: false, formToken, back })}</li>`,
      )}</ul>`
}
${
  formToken === undefined
    ? html`<p class="note">Changing pins takes a token that is for everything.</p>`
    : html`<form method="post" action="pins" class="bar">${hidden('form', formToken)}${hidden('back', back)}<label class="grow">Address or pattern <input type="text" name="pin" required placeholder="registry.opentofu.org/hashicorp/*" autocomplete="off" spellcheck="false" aria-describedby="pin-form"></label><button type="submit" name="what" value="add">Pin</button></form>
<p id="pin-form" class="note">HOST/NAMESPACE/TYPE of providers, HOST/NAMESPACE/NAME/SYSTEM of modules; * stands for a whole part, @VERSION behind it for one version.</p>`
}
</section>`;
}
