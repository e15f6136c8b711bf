import { type Request, type RequestHandler, type Response, Router } from 'express';
import { NotFound } from '../errors.ts';
import { watchJob } from '../mirror/job-watch.ts';
import type { Wish } from '../mirror/wanted.ts';
import { JobIsRunning, type WarmJobs } from '../mirror/warm-jobs.ts';
import type { AuditTrail } from './audit-entry.ts';
import type { Client } from './authenticate.ts';
import { sendEvents } from './event-stream.ts';
import { jobDocument, jobEvent, wholeJobDocument } from './job-documents.ts';
import { RequestError } from './request-error.ts';
import { allowOnly } from './request-guards.ts';
import { notesOf } from './respond.ts';
import { readWish } from './wish-request.ts';

/**
 * Warming, for operators who were let in already:
 *
 * - `POST /admin/warm` with a wish: `202 {"job":"ID"}`, and `Location`
 * - `GET /admin/jobs`: `{"jobs":[…]}`, newest first; `GET /admin/jobs/ID`: one with all its items
 * - `GET /admin/jobs/ID/events`: server-sent events `snapshot`, `item`, `progress` and `end`, after which it is closed
 * - `POST /admin/jobs/ID/cancel`, or `DELETE /admin/jobs/ID`; `POST /admin/jobs/ID/retry`
 *
 * A token that is for some addresses only sees its own jobs.
 */
export function jobRoutes({
  jobs,
  defaultClient,
  audit,
}: {
  jobs: WarmJobs;
  /** Whose rules hold for wishes that name none. */
  defaultClient?: Wish['client'] | undefined;
  audit?: AuditTrail | undefined;
}): Router {
  const router = Router({ caseSensitive: true, strict: true });

  const record = (event: string, req: Request, res: Response, fields: Readonly<Record<string, unknown>>) => {
    const { client, requestId } = notesOf(res);
    audit?.record(event, { client: client?.name, remote: req.socket.remoteAddress, ...fields, requestId });
  };

  /** @throws NotFound, also of what is not theirs */
  const visible = async (req: Request, res: Response) => {
    const id = String(req.params['id']);
    const job = await jobs.get(id);
    if (!isVisible(job.head.by, notesOf(res).client as Client)) throw new NotFound(`there is no job ${id}`);
    return job;
  };

  const begin: RequestHandler = async (req, res) => {
    const client = notesOf(res).client as Client;
    const { id, wish } = await jobs.create(await readWish(req, res, defaultClient), client.subject);
    record('warm-began', req, res, { job: id, files: wish.files, platforms: wish.platforms });
    notesOf(res).outcome = 'began';
    send(res, 202, { job: id }, { Location: `jobs/${id}` });
  };

  const list: RequestHandler = async (_req, res) => {
    const client = notesOf(res).client as Client;
    const all = await jobs.list();
    send(res, 200, { jobs: all.filter(({ by }) => isVisible(by, client)).map(jobDocument) });
  };

  const show: RequestHandler = async (req, res) => send(res, 200, wholeJobDocument(await visible(req, res)));

  const watch: RequestHandler = async (req, res) => {
    const { head } = await visible(req, res);
    const gone = new AbortController();
    res.once('close', () => gone.abort());
    await sendEvents(res, events(jobs, head.id, lastEventOf(req), gone.signal), jobs.closing);
  };

  const cancel: RequestHandler = async (req, res) => {
    const { head } = await visible(req, res);
    const cancelled = await jobs.cancel(head.id);
    if (head.state === 'running') record('warm-cancelled', req, res, { job: head.id });
    send(res, 200, jobDocument(cancelled));
  };

  const retry: RequestHandler = async (req, res) => {
    const { id } = (await visible(req, res)).head;
    try {
      await jobs.retry(id);
    } catch (error) {
      if (!(error instanceof JobIsRunning)) throw error;
      throw new RequestError(409, 'JOB_IS_RUNNING', `the job ${id} is still running`);
    }
    record('warm-retried', req, res, { job: id });
    send(res, 202, { job: id }, { Location: `../${id}` });
  };

  router.route('/warm').all(allowOnly('POST')).post(begin);
  router.route('/jobs').all(allowOnly('GET', 'HEAD')).get(list);
  router
    .route('/jobs/:id')
    .all(allowOnly('GET', 'HEAD', 'DELETE'))
    .get(show)
    .delete(cancel);
  router.route('/jobs/:id/events').all(allowOnly('GET')).get(watch);
  router.route('/jobs/:id/cancel').all(allowOnly('POST')).post(cancel);
  router.route('/jobs/:id/retry').all(allowOnly('POST')).post(retry);
  return router;
}

async function* events(jobs: WarmJobs, id: string, after: number | undefined, signal: AbortSignal) {
  for await (const event of watchJob(jobs, id, { after, signal })) yield jobEvent(event);
}

function isVisible(by: string, client: Client): boolean {
  return client.mayAdministerAll || by === client.subject;
}

/** What they heard last, when they come again. */
function lastEventOf(req: Request): number | undefined {
  const given = req.headers['last-event-id'];
  return typeof given === 'string' && /^\d{1,15}$/.test(given) ? Number(given) : undefined;
}

function send(res: Response, status: number, document: unknown, headers: Readonly<Record<string, string>> = {}): void {
  const body = Buffer.from(JSON.stringify(document));
  res
    .writeHead(status, {
      ...headers,
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'Cache-Control': 'no-store',
    })
    .end(body);
}
