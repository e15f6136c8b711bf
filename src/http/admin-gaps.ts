import { Router } from 'express';
import type { Gaps } from '../mirror/gaps.ts';
import type { Wish } from '../mirror/wanted.ts';
import type { Client } from './authenticate.ts';
import { gapReportDocument } from './gap-documents.ts';
import { allowOnly } from './request-guards.ts';
import { notesOf } from './respond.ts';
import { sendDocument } from './send-document.ts';
import { readWish } from './wish-request.ts';

/**
 * `POST /admin/gaps` with a wish: `{"gaps":[…],"diagnostics":[…],"platforms":[…],"present":{…}}`, what would fail if
 * upstream were gone. Mounted behind the door for operators.
 */
export function gapRoutes({
  gaps,
  defaultClient,
}: {
  readonly gaps: Pick<Gaps, 'find'>;
  readonly defaultClient?: Wish['client'] | undefined;
}): Router {
  const router = Router({ caseSensitive: true, strict: true });
  router
    .route('/gaps')
    .all(allowOnly('POST'))
    .post(async (req, res) => {
      const wish = await readWish(req, res, defaultClient);
      const client = notesOf(res).client as Client;
      const report = await gaps.find(wish, client.mayAdminister.bind(client));
      const isComplete = report.gaps.length === 0;
      notesOf(res).outcome = isComplete ? 'complete' : 'gaps';
      sendDocument(res, gapReportDocument(report));
    });
  return router;
}
