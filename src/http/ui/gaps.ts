import type { GapDocument, GapReportDocument } from '../gap-documents.ts';
import { html, type Markup } from '../html.ts';
import { readersOf } from '../reading-rules.ts';
import { diagnosticList } from './jobs.ts';
import { hidden } from './page.ts';
import { counted, tag } from './words.ts';

const KINDS: Readonly<Record<GapDocument['kind'], string>> = {
  archive: 'Archive missing',
  provider: 'No version fits',
  module: 'Module missing',
  unsupported: 'Does not exist',
  altered: 'Altered where it is stored',
  young: 'Too new yet',
  lock: 'Lock file disagrees',
  contradicted: 'Lock file contradicts the registry',
  refused: 'Not to be had here',
};

/** What `init` would fail on without upstreams, for files that somebody dropped. */
export function gapReport(
  report: GapReportDocument,
  { formToken, client, mayWarm }: { formToken: string; client: string; mayWarm: boolean },
): Markup {
  const { gaps, diagnostics, platforms, present } = report;
  const here = `${counted(present.archives, 'archive')} and ${counted(present.packages, 'module package')}`;
  const list = warmListOf(gaps);
  const readers = readersOf(report);
  const isNothing = gaps.length + present.archives + present.packages === 0;
  return html`<section aria-labelledby="report"><h2 id="report">Report</h2>
<p data-announce>${
    isNothing
      ? html`${tag('plain', 'Nothing needed')} What was read of these files needs neither a provider nor a module of a registry.`
      : gaps.length === 0
        ? html`${tag('good', 'No gaps')} Everything that these files need is here: ${here}, for ${platforms.join(', ')}.`
        : html`${tag('bad', counted(gaps.length, 'gap'))} Without upstreams, <code>init</code> would fail on these. ${here} are here, for ${platforms.join(', ')}.`
  }</p>
${readers && html`<p class="note">The files were read as ${readers.reader} does: where no registry is named, ${report.impliedHostname} is meant.</p>`}
${gaps.length > 0 && gapTable(gaps)}
${
  list &&
  mayWarm &&
  html`<form method="post" action="warm" enctype="multipart/form-data">${hidden('form', formToken)}${hidden('client', client)}${hidden('list', list)}<button type="submit" class="primary">Warm what is missing</button></form>`
}
</section>
${diagnosticList(diagnostics)}`;
}

function gapTable(gaps: readonly GapDocument[]): Markup {
  return html`<table class="stack" role="table"><caption class="away">What is missing</caption><thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">What</th><th scope="col" role="columnheader">Kind</th><th scope="col" role="columnheader">Version</th><th scope="col" role="columnheader">Platforms</th><th scope="col" role="columnheader">Why</th><th scope="col" role="columnheader">Wanted by</th></tr></thead>
<tbody role="rowgroup">${gaps.map(
    ({
      address,
      kind,
      version,
      constraint,
      platforms = [],
      reason,
      wantedBy,
    }) => html`<tr role="row"><th scope="row" role="rowheader">${address}</th>
<td role="cell" data-name="Kind">${KINDS[kind]}</td>
<td role="cell" data-name="Version">${version ?? constraint ?? 'any'}</td>
<td role="cell" data-name="Platforms">${platforms.length === 0 ? html`<span class="note">all</span>` : platforms.join(', ')}</td>
<td role="cell" data-name="Why" class="text">${reason}</td>
<td role="cell" data-name="Wanted by" class="text">${wantedBy.map(({ file, at }) => `${file}${at === undefined ? '' : `:${at}`}`).join(', ')}</td></tr>`,
  )}</tbody></table>`;
}

/** A warm list of all that upstream may have; `undefined` when it could bring none of it. */
function warmListOf(gaps: readonly GapDocument[]): string | undefined {
  const lists = gaps.flatMap(({ warm }) => warm ?? []);
  if (lists.length === 0) return undefined;
  const all = (key: 'providers' | 'modules' | 'platforms') => [...new Set(lists.flatMap((list) => list[key] ?? []))];
  const [providers, modules, platforms] = [all('providers'), all('modules'), all('platforms')];
  return JSON.stringify({
    ...(providers.length > 0 && { providers }),
    ...(modules.length > 0 && { modules }),
    ...(platforms.length > 0 && { platforms }),
  });
}
