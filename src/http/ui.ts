import { type ErrorRequestHandler, Router } from 'express';
import { NotFound } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { AdminDeps } from './admin.ts';
import type { AuditTrail } from './audit-entry.ts';
import type { Authenticator } from './authenticate.ts';
import { takeDown } from './error-handler.ts';
import type { Health } from './health.ts';
import { html } from './html.ts';
import { notesOf } from './respond.ts';
import { Pages } from './ui/around.ts';
import type { Assets } from './ui/assets.ts';
import { doorRoutes } from './ui/door-routes.ts';
import { jobRoutes } from './ui/job-routes.ts';
import { type OverviewDeps, overviewRoutes } from './ui/overview-routes.ts';
import { sendSeeOther } from './ui/page.ts';
import type { Refusals } from './ui/refusals.ts';
import { sealRoutes } from './ui/seal-routes.ts';
import type { Sessions } from './ui/sessions.ts';
import { type StoredDeps, storedRoutes } from './ui/stored-routes.ts';
import { signedIn, upFrom } from './ui/visit.ts';

/** What the dashboard shows besides what operators work with anyhow. */
export interface DashboardDeps
  extends Pick<StoredDeps, 'index' | 'signatures'>,
    Pick<OverviewDeps, 'traffic' | 'upstreamHealth' | 'disk'> {
  readonly assets: Assets;
  readonly refusals: Refusals;
  readonly sessions: Sessions;
}

interface Around {
  readonly authenticator: Authenticator;
  readonly health: Health;
  readonly isSealed: () => boolean;
  readonly publicUrl?: string | undefined;
  readonly audit?: AuditTrail | undefined;
  readonly logger: Logger;
}

/**
 * The dashboard, for operators in a browser: `/ui/`, signed in with a token of the role `admin`.
 *
 * Everything is rendered here and works without script; scripts only save reloads. What changes something is a form,
 * which has to come from our own site and to carry the token of its session.
 */
export function dashboard(deps: DashboardDeps & AdminDeps & Around): Router {
  const { assets, isSealed, publicUrl, audit } = deps;
  const router = Router({ caseSensitive: true, strict: true });
  const pages = new Pages({ assets, isSealed });

  // What is linked to relatively has to be below it.
  router.use((req, res, next) => {
    const [path = '', query] = req.originalUrl.split('?');
    if (path !== req.baseUrl) return next();
    sendSeeOther(res, `${req.baseUrl.split('/').at(-1)}/${query === undefined ? '' : `?${query}`}`);
  });
  router.use('/assets', assets.routes());
  router.use(doorRoutes({ ...deps, pages }));
  router.use(signedIn(deps));
  router.use(overviewRoutes({ ...deps, pages }));
  router.use(storedRoutes({ ...deps, pages, publicUrl, audit }));
  router.use(jobRoutes({ ...deps, pages, publicUrl, audit }));
  if (deps.seal) router.use(sealRoutes({ ...deps, pages, seal: deps.seal }));
  router.use(() => {
    throw new NotFound('there is no such page');
  });

  const tell: ErrorRequestHandler = (error: unknown, req, res, next) => {
    // Half an answer is out.
    if (res.headersSent || res.destroyed) return next(error);
    const answer = takeDown(error, req, res, deps.logger);
    notesOf(res).outcome = answer.code;
    for (const [name, value] of Object.entries(answer.headers ?? {})) {
      // Browsers would ask for a name and a password of their own.
      if (name !== 'WWW-Authenticate') res.setHeader(name, value);
    }
    const content = html`<p class="notice bad">${sentence(answer.message)}</p>${answer.hint !== undefined && html`<p>${sentence(answer.hint)}</p>`}
<p class="note">${answer.code}, request ${notesOf(res).requestId}</p><p><a href="${upFrom(req) || './'}">To the overview</a></p>`;
    const title = answer.status === 404 ? 'There is nothing here' : 'This did not work';
    pages.send(req, res, { title, section: 'none', content }, answer.status);
  };
  router.use(tell);
  return router;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}
