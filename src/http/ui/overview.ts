import type { DriftReports } from '../../mirror/drift.ts';
import type { Seal } from '../../mirror/seal.ts';
import type { TrafficPoint, TrafficRange } from '../../mirror/traffic-history.ts';
import type { UpstreamReport } from '../../mirror/upstream-health.ts';
import type { Client } from '../authenticate.ts';
import type { HealthReport } from '../health.ts';
import { html, type Markup } from '../html.ts';
import type { jobDocument } from '../job-documents.ts';
import { jobStateTag } from './job-words.ts';
import type { Refusal } from './refusals.ts';
import { unsharedNotice } from './seal-page.ts';
import { asked, fromStorage, RANGES, sumOf, trafficPlots } from './traffic-plots.ts';
import { counted, number, share, size, tag, time } from './words.ts';

/** Bytes of what is stored, the most that they may be, and how much was evicted since the start. */
export interface DiskReport {
  readonly used: number;
  readonly limit: number | undefined;
  readonly evictions: number;
}

export interface Overview {
  readonly range: TrafficRange;
  readonly points: readonly TrafficPoint[];
  readonly upstreams: readonly UpstreamReport[];
  readonly disk: DiskReport | undefined;
  readonly health: HealthReport;
  readonly stored: { readonly total: number; readonly isWhole: boolean };
  readonly seal: ReturnType<Seal['state']> | undefined;
  /** Those that run; `undefined` while nobody can tell. */
  readonly jobs: readonly ReturnType<typeof jobDocument>[] | undefined;
  readonly drift: DriftReports['all'];
  readonly refusals: readonly Refusal[];
  readonly client: Client;
}

export function overview(seen: Overview): Markup {
  const { range, points, health } = seen;
  return html`${troubleWith(health)}
<section aria-labelledby="traffic">
<div class="heading"><h2 id="traffic">Traffic</h2><nav aria-label="Time" class="choice"><ul>${RANGES.map(
    (one) => html`<li><a href="?range=${one}"${one === range && html` aria-current="true"`}>Last ${one}</a></li>`,
  )}</ul></nav></div>
${figures(sumOf(points))}
${trafficPlots(points, range)}
</section>
<div class="columns">
<section aria-labelledby="upstreams" class="wide"><h2 id="upstreams">Upstreams</h2>${upstreamTable(seen.upstreams)}</section>
<div>
<section aria-labelledby="disk"><h2 id="disk">Disk</h2>${diskPanel(seen)}</section>
<section aria-labelledby="seal"><h2 id="seal">Seal</h2>${sealPanel(seen)}</section>
</div>
</div>
<div class="columns even">
<section aria-labelledby="running"><h2 id="running">Jobs that run</h2><div id="running-jobs"${seen.jobs?.length !== 0 && html` data-refresh="2"`}>${runningJobs(seen)}</div></section>
<section aria-labelledby="trouble"><h2 id="trouble">Trouble</h2>${troubleCounts(seen)}</section>
</div>`;
}

function troubleWith({ status, checks }: HealthReport): Markup | undefined {
  const troubles = Object.entries(checks).filter(([, result]) => result.status !== 'ok');
  if (status === 'ready' && troubles.length === 0) return undefined;
  const words = {
    ready: 'Ready.',
    degraded: 'Ready, with limits.',
    failing: 'Not ready: requests fail.',
    draining: 'Shutting down.',
  };
  return html`<p class="notice warn"><strong>${words[status]}</strong> ${troubles.map(
    ([name, { reason, status: state }]) => html`${name}: ${reason ?? state}. `,
  )}</p>`;
}

function figures(total: Omit<TrafficPoint, 'at'>): Markup {
  const entries: readonly (readonly [name: string, value: string, note: string])[] = [
    [
      'Answered from storage',
      share(fromStorage(total), asked(total)),
      total.stale > 0 ? `${number(total.stale)} of them stale` : `${number(total.misses)} had to be fetched first`,
    ],
    ['Served to clients', size(total.bytesServed), `in ${counted(total.requests, 'request')}`],
    ['Fetched from upstreams', size(total.bytesFetched), savings(total)],
    [
      'Failed',
      number(total.failures),
      total.failures === 0 ? 'nobody was sent away' : `of ${counted(total.requests, 'request')}`,
    ],
  ];
  return html`<dl class="figures">${entries.map(
    ([name, value, note]) =>
      html`<div><dt>${name}</dt><dd><span class="value">${value}</span> <span class="note">${note}</span></dd></div>`,
  )}</dl>`;
}

function savings({ bytesServed, bytesFetched }: Pick<TrafficPoint, 'bytesServed' | 'bytesFetched'>): string {
  const saved = bytesServed - bytesFetched;
  return saved > 0 ? `${size(saved)} that need not be` : 'as it came';
}

const STATES: Readonly<Record<UpstreamReport['state'], Markup>> = {
  ok: tag('good', 'Answers'),
  failing: tag('bad', 'Failing'),
  'left alone': tag('warn', 'Left alone for a moment'),
  'not asked yet': tag('plain', 'Not asked yet'),
};

function upstreamTable(upstreams: readonly UpstreamReport[]): Markup {
  if (upstreams.length === 0) {
    return html`<p class="empty">None is configured. Name them under <code>upstreams.hosts</code>.</p>`;
  }
  return html`<table class="stack" role="table"><thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Host</th><th scope="col" role="columnheader">State</th><th scope="col" role="columnheader">Last answer</th><th scope="col" role="columnheader">Last trouble</th></tr></thead>
<tbody role="rowgroup">${upstreams.map(
    ({ hostname, state, lastSuccessAt, lastFailure }) =>
      html`<tr role="row"><th scope="row" role="rowheader">${hostname}</th><td role="cell">${STATES[state]}</td><td role="cell" data-name="Last answer">${lastSuccessAt ? time(lastSuccessAt) : 'none yet'}</td><td role="cell" data-name="Last trouble" class="text">${lastFailure ? html`${lastFailure.message}, ${time(lastFailure.at)}` : 'none'}</td></tr>`,
  )}</tbody></table>`;
}

function diskPanel({ disk, stored }: Overview): Markup {
  const archives = `${counted(stored.total, 'archive or package', 'archives and packages')}${stored.isWhole ? '' : ' so far, still being read'}`;
  if (!disk) return html`<p><a href="stored">${archives}</a></p>`;
  const { used, limit, evictions } = disk;
  return html`<p class="value">${size(used)}${limit !== undefined && html` <span class="note">of ${size(limit)}, ${share(used, limit)}</span>`}</p>
${limit !== undefined && html`<meter min="0" max="${limit}" high="${Math.round(limit * 0.95)}" value="${Math.min(used, limit)}" aria-label="Disk in use">${share(used, limit)}</meter>`}
<p class="note"><a href="stored">${archives}</a>${limit === undefined ? '; no limit is set (limits.disk)' : `; ${number(evictions)} removed to make room since the start`}</p>`;
}

function sealPanel({ seal, client }: Overview): Markup {
  if (!seal) return html`<p>Decided by the configuration.</p>`;
  const state = seal.sealed
    ? html`<p>${tag('warn', 'Sealed')} Nothing leaves; what is stored is all there is.</p>`
    : html`<p>${tag('good', 'Open')} What is missing is fetched from upstreams.</p>`;
  const by =
    seal.by !== undefined && seal.changedAt !== undefined
      ? html`<p class="note">Changed ${time(new Date(seal.changedAt))} by ${seal.by}.</p>`
      : undefined;
  const action = !client.mayAdministerAll
    ? html`<p class="note">Changing this takes a token that is for everything.</p>`
    : seal.configured
      ? html`<p class="note">By the configuration: take out <code>sealed: true</code> and start Larder again to open it.</p>`
      : html`<p><a class="button" href="seal">${seal.sealed ? 'Open it…' : 'Seal it…'}</a></p>`;
  return html`${state}${by}${unsharedNotice(seal)}${action}`;
}

function runningJobs({ jobs }: Overview): Markup {
  if (!jobs)
    return html`<p>${tag('warn', 'Not known')} What jobs are kept in (Redis, where there is one) does not answer.</p>`;
  if (jobs.length === 0) return html`<p class="empty">None. <a href="jobs">Warm something</a></p>`;
  return html`<ul class="lines">${jobs.map((job) => {
    const { items, waiting } = job.totals;
    return html`<li><a href="jobs/${job.id}">${job.wish.files.join(', ') || job.id}</a> ${jobStateTag(job.state)} <span class="note">${number(items - waiting)} of ${number(items)}, ${size(job.bytes)} fetched</span></li>`;
  })}</ul>`;
}

function troubleCounts({ drift, refusals }: Overview): Markup {
  const times = refusals.reduce((sum, { count }) => sum + count, 0);
  return html`<dl class="pairs"><dt>Drift</dt><dd>${
    drift.length === 0
      ? 'none: upstreams publish what they first did'
      : html`${tag('bad', counted(drift.length, 'version'))} of which upstream now publishes other bytes`
  }</dd><dt>Refusals</dt><dd>${
    times === 0
      ? 'none since the start'
      : html`${tag('warn', counted(times, 'time'))} the last one ${refusals[0] && time(refusals[0].lastAt)}`
  }</dd></dl>
<p><a href="trouble">Look at it</a></p>`;
}
