import { type RequestHandler, Router } from 'express';
import { z } from 'zod';
import { hasCode } from '../../errors.ts';
import type { AuditTrail } from '../audit-entry.ts';
import type { Authenticator } from '../authenticate.ts';
import { allowOnly } from '../request-guards.ts';
import { notesOf } from '../respond.ts';
import type { Pages } from './around.ts';
import { readForm } from './form-request.ts';
import { sendSeeOther } from './page.ts';
import type { Sessions } from './sessions.ts';
import { signInPage } from './sign-in.ts';
import { demandOwnSite, readOwnForm, recordFor, sessionCookie, sessionIdOf, signedIn, visitOf } from './visit.ts';

/** `sign-in` and `sign-out`. Wrong tokens count as at any other door. */
export function doorRoutes({
  sessions,
  authenticator,
  pages,
  publicUrl,
  audit,
}: {
  sessions: Sessions;
  authenticator: Authenticator;
  pages: Pages;
  publicUrl?: string | undefined;
  audit?: AuditTrail | undefined;
}): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const hasOperators = () => authenticator.hasHolderOf('admin');
  const page = async (wanted: string, more: { problem?: string; hasEnded?: boolean } = {}) => ({
    title: 'Sign in',
    section: 'sign-in' as const,
    content: signInPage({ hasOperators: await hasOperators(), wanted, ...more }),
  });

  const ask: RequestHandler = async (req, res) => {
    const { to, why } = signInAsked.parse(req.query);
    pages.send(req, res, await page(to, { hasEnded: why === 'ended' }));
  };

  const enter: RequestHandler = async (req, res) => {
    demandOwnSite(req, publicUrl);
    const form = await readForm(req, res);
    const { to } = signInAsked.parse({ to: form.text('to') });
    const token = form.text('token').trim();
    const client = await authenticator.identify({ headers: { authorization: `Bearer ${token}` } });
    notesOf(res).client = client;
    try {
      authenticator.demand(client, 'admin', req, 'ask whoever runs this mirror');
    } catch (error) {
      const status = hasCode(error, 'TOO_MANY_ATTEMPTS') ? 429 : hasCode(error, 'FORBIDDEN') ? 403 : 401;
      if (status === 401 && !hasCode(error, 'UNAUTHENTICATED')) throw error;
      notesOf(res).outcome = (error as { code: string }).code;
      notesOf(res).reason = (error as Error).message;
      const problem = SIGN_IN_PROBLEMS[status] ?? '';
      return pages.send(req, res, await page(to, { problem }), status);
    }
    const old = sessionIdOf(req);
    if (old !== undefined) await sessions.end(old);
    const id = await sessions.begin({ subject: client.subject, fingerprint: client.fingerprint ?? '' });
    recordFor(audit, req, res)('signed-in');
    notesOf(res).outcome = 'signed-in';
    res.setHeader('Set-Cookie', sessionCookie(req, id));
    sendSeeOther(res, `./${to}`);
  };

  const leave: RequestHandler = async (req, res) => {
    await readOwnForm(req, res, { publicUrl });
    await sessions.end(visitOf(res).id);
    recordFor(audit, req, res)('signed-out');
    res.setHeader('Set-Cookie', sessionCookie(req, undefined));
    sendSeeOther(res, 'sign-in');
  };

  router
    .route('/sign-in')
    .all(allowOnly('GET', 'HEAD', 'POST'))
    .get(ask)
    .post(enter);
  router.route('/sign-out').all(allowOnly('POST')).post(signedIn({ sessions, authenticator }), leave);
  return router;
}

const SIGN_IN_PROBLEMS: Readonly<Record<number, string>> = {
  401: 'This token is not known here.',
  403: 'This token is known, but does not have the role admin.',
  429: 'Too many tokens that are not known came from your address. Wait a minute.',
};

const signInAsked = z.object({
  /** A page of ours, and only that. */
  to: z
    .string()
    .max(1_000)
    .regex(/^(stored|item|gaps|trouble|seal|jobs(\/[\w-]+)?)?(\?[!"$-~]*)?$/)
    .catch(''),
  why: z.string().optional().catch(undefined),
});
