import type { Request, RequestHandler, Response } from 'express';
import { Forbidden } from '../../errors.ts';
import type { AuditTrail } from '../audit-entry.ts';
import type { Authenticator, Client } from '../authenticate.ts';
import { notesOf } from '../respond.ts';
import { type Form, readForm } from './form-request.ts';
import { sendSeeOther } from './page.ts';
import { formTokenOf, isFormToken, type Session, type Sessions } from './sessions.ts';

const COOKIE = 'larder_session';
const ID = /^[\w-]{43}$/;

/** Somebody who is signed in, looking at a page. */
export interface Visit {
  readonly id: string;
  readonly client: Client;
  /** Goes into every form. */
  readonly formToken: string;
}

/** @throws when the page is one that needs nobody */
export function visitOf(res: Response): Visit {
  const visit = (res.locals as { visit?: Visit }).visit;
  if (!visit) throw new Error('this page is not behind the sign-in');
  return visit;
}

export function visitIfAny(res: Response): Visit | undefined {
  return (res.locals as { visit?: Visit }).visit;
}

/** The id that a browser sends, which may be anything. */
export function sessionIdOf(req: Request): string | undefined {
  const pairs = (req.headers.cookie ?? '').split(';').map((pair) => pair.trim().split('='));
  const ids = pairs.flatMap(([name, value]) => (name === COOKIE && value !== undefined ? [value] : []));
  return ids.find((id) => ID.test(id));
}

/**
 * No Path: browsers take that of the request without its last part, which is that of the dashboard behind whatever
 * prefix a proxy gives it, and nothing else of that host.
 */
export function sessionCookie(req: Request, id: string | undefined): string {
  const forwarded = String(req.headers['x-forwarded-proto'] ?? '').split(',')[0];
  const isTls = ('encrypted' in req.socket && req.socket.encrypted === true) || forwarded?.trim() === 'https';
  const attributes = `HttpOnly; SameSite=Strict${isTls ? '; Secure' : ''}`;
  return id === undefined ? `${COOKIE}=; Max-Age=0; ${attributes}` : `${COOKIE}=${id}; ${attributes}`;
}

/** How is found out who is signed in. */
export interface SignInDeps {
  readonly sessions: Sessions;
  readonly authenticator: Pick<Authenticator, 'clientOf'>;
}

/** Whose session it is, if their token still is an operator's. */
async function operatorOf(session: Session, { authenticator }: SignInDeps): Promise<Client | undefined> {
  const client = await authenticator.clientOf(session.subject);
  return client?.roles.includes('admin') && client.fingerprint === session.fingerprint ? client : undefined;
}

/** Whoever is signed in still, which is no use of their session: an unattended page keeps nobody signed in. */
export async function stillSignedIn({ id }: Visit, deps: SignInDeps): Promise<Client | undefined> {
  const session = await deps.sessions.find(id, { isUse: false });
  return session && operatorOf(session, deps);
}

/** Lets those through who are signed in and whose token still is an operator's. Others are shown where to sign in. */
export function signedIn(deps: SignInDeps): RequestHandler {
  const { sessions } = deps;
  return async (req, res, next) => {
    const id = sessionIdOf(req);
    const session = id === undefined ? undefined : await sessions.find(id);
    const client = session && (await operatorOf(session, deps));
    if (id !== undefined && client) {
      notesOf(res).client = client;
      notesOf(res).isPersonal = true;
      (res.locals as { visit?: Visit }).visit = { id, client, formToken: formTokenOf(id) };
      return next();
    }
    if (id !== undefined && session) await sessions.end(id);
    const up = upFrom(req);
    const wanted = req.method === 'GET' ? req.url.slice(1) : '';
    const query = new URLSearchParams({ ...(wanted && { to: wanted }), ...(id !== undefined && { why: 'ended' }) });
    sendSeeOther(res, `${up}sign-in${query.size > 0 ? `?${query}` : ''}`);
  };
}

/** From the page of a request to the dashboard's own place. */
export function upFrom(req: Request): string {
  const [path = ''] = req.url.split('?');
  return '../'.repeat(Math.max(0, path.split('/').length - 2));
}

/**
 * Refuses what another site makes a browser send. Browsers say where a request comes from; those that do not are
 * known by the token in the form.
 * @throws Forbidden
 */
export function demandOwnSite(req: Request, publicUrl: string | undefined): void {
  const site = req.headers['sec-fetch-site'];
  const { origin } = req.headers;
  if (site === 'same-origin') return;
  if (site === undefined && (origin === undefined || isOurs(origin, req, publicUrl))) return;
  throw new Forbidden('this was sent by another site, and was not done', {
    hint: 'open the dashboard itself and try again; a proxy in front has to pass on Host, or set X-Forwarded-Host',
  });
}

function isOurs(origin: string, req: Request, publicUrl: string | undefined): boolean {
  const host = URL.canParse(origin) ? new URL(origin).host : undefined;
  if (host === undefined) return false;
  const forwarded = String(req.headers['x-forwarded-host'] ?? '')
    .split(',')[0]
    ?.trim();
  const configured = publicUrl !== undefined && URL.canParse(publicUrl) ? new URL(publicUrl).host : undefined;
  return [forwarded, req.headers.host, configured].some((one) => one?.toLowerCase() === host.toLowerCase());
}

/** A form of somebody who is signed in. @throws Forbidden when it is none of ours, RequestError as `readForm` does */
export async function readOwnForm(
  req: Request,
  res: Response,
  options: { publicUrl: string | undefined; withFiles?: boolean },
): Promise<Form> {
  demandOwnSite(req, options.publicUrl);
  const form = await readForm(req, res, options);
  if (isFormToken(visitOf(res).id, form.text('form'))) return form;
  throw new Forbidden('this form was not made for you, or is from before you signed in, and nothing was done', {
    hint: 'open the page again and repeat it',
  });
}

/** Writes down what somebody did. */
export function recordFor(audit: AuditTrail | undefined, req: Request, res: Response) {
  return (event: string, fields: Readonly<Record<string, unknown>> = {}) => {
    const { client, requestId } = notesOf(res);
    audit?.record(event, {
      client: client?.name,
      remote: req.socket.remoteAddress,
      ...fields,
      through: 'dashboard',
      requestId,
    });
  };
}
