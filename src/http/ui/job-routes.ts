import { type RequestHandler, type Response, Router } from 'express';
import { z } from 'zod';
import { NotFound } from '../../errors.ts';
import type { Gaps } from '../../mirror/gaps.ts';
import type { JobItem } from '../../mirror/job.ts';
import type { Wish } from '../../mirror/wanted.ts';
import type { WarmJobs } from '../../mirror/warm-jobs.ts';
import type { AuditTrail } from '../audit-entry.ts';
import { sendEvents } from '../event-stream.ts';
import { gapReportDocument } from '../gap-documents.ts';
import { html, type Markup } from '../html.ts';
import { jobDocument, jobPageDocument } from '../job-documents.ts';
import { isVisible, jobEvents, refusal, visibleJob } from '../job-requests.ts';
import { allowOnly } from '../request-guards.ts';
import { notesOf } from '../respond.ts';
import type { Pages } from './around.ts';
import { bringForm, wishIn } from './bring.ts';
import { gapReport } from './gaps.ts';
import { filesOf, jobPage, jobsTable, OUTCOMES, type OutcomeFilter, PAGE_ITEMS } from './jobs.ts';
import { PAGE_HEADERS, sendSeeOther } from './page.ts';
import { readOwnForm, recordFor, type SignInDeps, stillSignedIn, visitOf } from './visit.ts';

export interface JobDeps {
  /** Without it nothing is warmed. */
  readonly jobs?: WarmJobs | undefined;
  /** Without it nobody is told what would be missing. */
  readonly gaps?: Pick<Gaps, 'find'> | undefined;
  /** Whose rules hold for what is wished without naming a client. */
  readonly defaultClient?: Wish['client'] | undefined;
}

interface Deps extends JobDeps, SignInDeps {
  readonly pages: Pages;
  readonly publicUrl: string | undefined;
  readonly audit: AuditTrail | undefined;
}

const refused = refusal('open it on the overview for as long as that takes, or carry it in with larder import');

/** `jobs` and what is below it, `warm` and `gaps`. */
export function jobRoutes(deps: Deps): Router {
  const router = Router({ caseSensitive: true, strict: true });
  if (deps.jobs) router.use(warmRoutes({ ...deps, jobs: deps.jobs }));
  if (deps.gaps) router.use(gapRoutes({ ...deps, gaps: deps.gaps }));
  return router;
}

function warmRoutes(deps: Deps & { jobs: WarmJobs }): Router {
  const { jobs, defaultClient = 'opentofu', pages, publicUrl, audit } = deps;
  const router = Router({ caseSensitive: true, strict: true });

  /** @throws NotFound, also of what is not theirs */
  const visible = (id: string, res: Response) => visibleJob(jobs, id, visitOf(res).client);

  const list: RequestHandler = async (req, res) => {
    const { client, formToken } = visitOf(res);
    const all = (await jobs.list()).filter(({ by }) => isVisible(by, client)).map(jobDocument);
    const idle = 'What is stored already is not fetched again.';
    const content = html`<section aria-labelledby="warm"><h2 id="warm">Warm</h2>
<p>Fetches everything that <code>init</code> needs for these files, before somebody asks for it.</p>
${bringForm({ action: 'warm', formToken, client: defaultClient, button: 'Warm', idle })}</section>
<section aria-labelledby="all"><h2 id="all">Running and past</h2><div id="jobs"${all.some(({ endedAt }) => endedAt === undefined) && html` data-refresh="2"`}>${jobsTable(all)}</div></section>`;
    pages.send(req, res, { title: 'Jobs', section: 'jobs', content });
  };

  const begin: RequestHandler = async (req, res) => {
    const form = await readOwnForm(req, res, { publicUrl, withFiles: true });
    const { client } = visitOf(res);
    const { id, wish } = await jobs.create(wishIn(form, defaultClient), client.subject).catch(refused);
    recordFor(audit, req, res)('warm-began', { job: id, files: wish.files, platforms: wish.platforms });
    notesOf(res).outcome = 'began';
    sendSeeOther(res, `jobs/${id}?done=began`);
  };

  const show: RequestHandler<{ id: string }> = async (req, res) => {
    const { id } = await visible(req.params.id, res);
    const { outcome: filter, page } = itemsAsked.parse(req.query);
    const seen = await itemsOf(jobs, id, filter, page);
    const job = jobDocument(seen.head);
    const content = jobPage({
      ...seen,
      job,
      filter,
      page,
      formToken: visitOf(res).formToken,
      sequence: seen.head.sequence,
    });
    pages.send(req, res, { title: `Job of ${filesOf(job)}`, section: 'jobs', content });
  };

  const watch: RequestHandler<{ id: string }> = async (req, res) => {
    const { id, by } = await visible(req.params.id, res);
    const heard = Number(req.headers['last-event-id'] ?? req.query['after']);
    const after = Number.isSafeInteger(heard) && heard >= 0 ? heard : undefined;
    for (const [name, value] of Object.entries(PAGE_HEADERS)) res.setHeader(name, value);
    const mayStill = async () => {
      const client = await stillSignedIn(visitOf(res), deps);
      return client !== undefined && isVisible(by, client);
    };
    const { closing } = jobs;
    await sendEvents(res, (gone) => jobEvents(jobs, id, after, gone), { closing, mayStill });
  };

  const cancel: RequestHandler<{ id: string }> = async (req, res) => {
    await readOwnForm(req, res, { publicUrl });
    const head = await visible(req.params.id, res);
    await jobs.cancel(head.id);
    if (head.state === 'running') recordFor(audit, req, res)('warm-cancelled', { job: head.id });
    sendSeeOther(res, `../${head.id}?done=cancelled`);
  };

  const retry: RequestHandler<{ id: string }> = async (req, res) => {
    await readOwnForm(req, res, { publicUrl });
    const { id } = await visible(req.params.id, res);
    await jobs.retry(id).catch(refused);
    recordFor(audit, req, res)('warm-retried', { job: id });
    sendSeeOther(res, `../${id}?done=retried`);
  };

  router.route('/jobs').all(allowOnly('GET', 'HEAD')).get(list);
  router.route('/warm').all(allowOnly('POST')).post(begin);
  router
    .route('/jobs/:id')
    .all(allowOnly('GET', 'HEAD'))
    .get(show as RequestHandler);
  router
    .route('/jobs/:id/events')
    .all(allowOnly('GET'))
    .get(watch as RequestHandler);
  router
    .route('/jobs/:id/cancel')
    .all(allowOnly('POST'))
    .post(cancel as RequestHandler);
  router
    .route('/jobs/:id/retry')
    .all(allowOnly('POST'))
    .post(retry as RequestHandler);
  return router;
}

function gapRoutes({ gaps, jobs, defaultClient = 'opentofu', pages, publicUrl }: Deps & Required<Pick<Deps, 'gaps'>>) {
  const router = Router({ caseSensitive: true, strict: true });

  const page = (formToken: string, report?: Markup) => ({
    title: 'Gaps',
    section: 'gaps' as const,
    content: html`<p>What would fail for these files if no upstream could be reached? Nothing is fetched to find that out.</p>
${bringForm({ action: 'gaps', formToken, client: defaultClient, button: 'Look for gaps', idle: '' })}
<div id="result">${report}</div>`,
  });

  const ask: RequestHandler = (req, res) => pages.send(req, res, page(visitOf(res).formToken));

  const find: RequestHandler = async (req, res) => {
    const form = await readOwnForm(req, res, { publicUrl, withFiles: true });
    const { client, formToken } = visitOf(res);
    const wish = wishIn(form, defaultClient);
    const report = await gaps?.find(wish, client.mayAdminister.bind(client));
    if (!report) throw new NotFound('gaps are not told here');
    notesOf(res).outcome = report.gaps.length === 0 ? 'complete' : 'gaps';
    const around = { formToken, client: wish.client, mayWarm: jobs !== undefined };
    pages.send(req, res, page(formToken, gapReport(gapReportDocument(report), around)));
  };

  router
    .route('/gaps')
    .all(allowOnly('GET', 'HEAD', 'POST'))
    .get(ask)
    .post(find);
  return router;
}

const itemsAsked = z.object({
  outcome: z.enum(OUTCOMES).catch('all'),
  page: z.coerce.number().int().min(1).max(1_000_000).catch(1),
});

/** One page of a job's items. Only with a filter all of them have to be looked at. */
async function itemsOf(jobs: WarmJobs, id: string, filter: OutcomeFilter, page: number) {
  const after = (page - 1) * PAGE_ITEMS;
  if (filter === 'all') {
    const part = await jobs.page(id, { after, count: PAGE_ITEMS });
    const { items, diagnostics } = jobPageDocument(part);
    return { head: part.head, items, diagnostics, total: part.head.totals.items };
  }
  const { head, items, findings } = await jobs.get(id);
  const isMeant = ({ outcome }: JobItem) => (outcome ?? 'waiting') === filter;
  const meant = items.filter(isMeant);
  const part = { head, findings, items: meant.slice(after, after + PAGE_ITEMS) };
  return { head, items: jobPageDocument(part).items, diagnostics: findings.diagnostics, total: meant.length };
}
