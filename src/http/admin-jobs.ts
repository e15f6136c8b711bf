import { type Request, type RequestHandler, type Response, Router } from 'express';
import { z } from 'zod';
import type { Wish } from '../mirror/wanted.ts';
import type { WarmJobs } from '../mirror/warm-jobs.ts';
import type { AuditTrail } from './audit-entry.ts';
import type { Authenticator, Client } from './authenticate.ts';
import { sendEvents } from './event-stream.ts';
import { jobDocument, jobPageDocument } from './job-documents.ts';
import { isVisible, jobEvents, refusal, visibleJob } from './job-requests.ts';
import { allowOnly } from './request-guards.ts';
import { parseRequest } from './request-schema.ts';
import { notesOf } from './respond.ts';
import { readWish } from './wish-request.ts';

/** Items of a job in one answer: by default, and at most. */
const DEFAULT_ITEMS = 500;
const MAX_ITEMS = 5_000;

const pageQuery = z.object({
  items: z.coerce.number().int().min(0).max(MAX_ITEMS).default(DEFAULT_ITEMS),
  after: z.coerce.number().int().min(0).default(0),
});

const refused = refusal(
  'open it for as long as that takes (larder seal --off, or PUT /admin/seal with {"sealed":false}; where the ' +
    'configuration seals it: without sealed: true), or carry it in with larder import. What is missing larder gaps tells',
);

/**
 * Warming, for operators who were let in already:
 *
 * - `POST /admin/warm` with a wish: `202 {"job":"ID"}`, and `Location`; 409 while the mirror is sealed
 * - `GET /admin/jobs`: `{"jobs":[…]}`, newest first
 * - `GET /admin/jobs/ID?items=N&after=NEXT`: one of them, with so many of its items, and `next` when there are more
 * - `GET /admin/jobs/ID/events`: server-sent events `snapshot`, `planned`, `item`, `progress` and `end`, after which it is
 *   closed, as it is within moments of the token's end
 * - `POST /admin/jobs/ID/cancel`, or `DELETE /admin/jobs/ID`
 * - `POST /admin/jobs/ID/retry`: 409 while it runs, and while the mirror is sealed
 *
 * A token that is for some addresses only sees its own jobs.
 */
export function jobRoutes({
  jobs,
  authenticator,
  defaultClient,
  audit,
}: {
  jobs: WarmJobs;
  authenticator: Pick<Authenticator, 'identify'>;
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
  const visible = (req: Request, res: Response) =>
    visibleJob(jobs, String(req.params['id']), notesOf(res).client as Client);

  const begin: RequestHandler = async (req, res) => {
    const client = notesOf(res).client as Client;
    const wished = await readWish(req, res, defaultClient);
    const { id, wish } = await jobs.create(wished, client.subject).catch(refused);
    record('warm-began', req, res, { job: id, files: wish.files, platforms: wish.platforms });
    notesOf(res).outcome = 'began';
    send(res, 202, { job: id }, { Location: `jobs/${id}` });
  };

  const list: RequestHandler = async (_req, res) => {
    const client = notesOf(res).client as Client;
    const all = await jobs.list();
    send(res, 200, { jobs: all.filter(({ by }) => isVisible(by, client)).map(jobDocument) });
  };

  const show: RequestHandler = async (req, res) => {
    const { items: count, after } = parseRequest(pageQuery, req.query);
    const { id } = await visible(req, res);
    send(res, 200, jobPageDocument(await jobs.page(id, { after, count })));
  };

  const watch: RequestHandler = async (req, res) => {
    const { id, by } = await visible(req, res);
    const mayStill = async () => {
      const client = await authenticator.identify(req);
      return client.roles.includes('admin') && isVisible(by, client);
    };
    const { closing } = jobs;
    await sendEvents(res, (gone) => jobEvents(jobs, id, lastEventOf(req), gone), { closing, mayStill });
  };

  const cancel: RequestHandler = async (req, res) => {
    const head = await visible(req, res);
    const cancelled = await jobs.cancel(head.id);
    if (head.state === 'running') record('warm-cancelled', req, res, { job: head.id });
    send(res, 200, jobDocument(cancelled));
  };

  const retry: RequestHandler = async (req, res) => {
    const { id } = await visible(req, res);
    await jobs.retry(id).catch(refused);
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
