import { type RequestHandler, Router } from 'express';
import type { Seal } from '../../mirror/seal.ts';
import type { WarmJobs } from '../../mirror/warm-jobs.ts';
import { demandAll } from '../admin-pins.ts';
import type { AuditTrail } from '../audit-entry.ts';
import { RequestError } from '../request-error.ts';
import { allowOnly } from '../request-guards.ts';
import { notesOf } from '../respond.ts';
import type { Pages } from './around.ts';
import { sendSeeOther } from './page.ts';
import { sealPage } from './seal-page.ts';
import { readOwnForm, recordFor, visitOf } from './visit.ts';

/** `seal`: the question whether one means it, and its answer. */
export function sealRoutes({
  seal,
  jobs,
  pages,
  publicUrl,
  audit,
}: {
  seal: Seal;
  jobs?: Pick<WarmJobs, 'running'> | undefined;
  pages: Pages;
  publicUrl?: string | undefined;
  audit?: AuditTrail | undefined;
}): Router {
  const router = Router({ caseSensitive: true, strict: true });

  const ask: RequestHandler = (req, res) => {
    const { client, formToken } = visitOf(res);
    const content = sealPage({
      seal: seal.state(),
      runningJobs: jobs?.running ?? 0,
      formToken: client.mayAdministerAll ? formToken : undefined,
    });
    const title = seal.isSealed ? 'Open this mirror?' : 'Seal this mirror?';
    pages.send(req, res, { title, section: 'seal', content });
  };

  const change: RequestHandler = async (req, res) => {
    const form = await readOwnForm(req, res, { publicUrl });
    demandAll(res);
    const sealed = form.text('sealed') === 'true';
    if (!sealed && seal.state().configured) {
      throw new RequestError(409, 'SEALED_BY_CONFIGURATION', 'the configuration seals this mirror', {
        hint: 'take sealed: true out of the configuration, and start Larder again',
      });
    }
    const { client } = visitOf(res);
    const event = sealed ? 'sealed' : 'unsealed';
    if (await seal.set(sealed, client.name)) {
      recordFor(audit, req, res)(event);
      notesOf(res).outcome = event;
    }
    const where = seal.state().unshared ? '-here' : '';
    sendSeeOther(res, `./?done=${sealed ? 'sealed' : 'opened'}${where}`);
  };

  router
    .route('/seal')
    .all(allowOnly('GET', 'HEAD', 'POST'))
    .get(ask)
    .post(change);
  return router;
}
