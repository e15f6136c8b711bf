import { type RequestHandler, Router } from 'express';
import { z } from 'zod';
import type { Seal, SealState } from '../mirror/seal.ts';
import { demandAll } from './admin-pins.ts';
import type { AuditTrail } from './audit-entry.ts';
import type { Client } from './authenticate.ts';
import { readJson } from './json-request.ts';
import { RequestError } from './request-error.ts';
import { allowOnly } from './request-guards.ts';
import { parseRequest } from './request-schema.ts';
import { notesOf } from './respond.ts';
import { sendDocument } from './send-document.ts';

const sealBody = z.strictObject({ sealed: z.boolean() });

/** Whether nothing leaves, whether the configuration says so, who last changed it at run time, and what is still to come. */
export type SealDocument = SealState;

/**
 * Sealing at run time, for operators who were let in already. Changing it needs a token that is for everything.
 *
 * - `GET /admin/seal`: `{"sealed":true,"configured":false,"changedAt":"…","by":"ops"}`
 * - `PUT /admin/seal` with `{"sealed":true}` or `{"sealed":false}`: the same. Once it is answered that Larder is sealed,
 *   it begins nothing that leaves it. What was on its way has ended by then, or is told: `"underWay":["module packages"]`
 *   has what could not be ended within 15 s, and `GET` tells of it until it has. 409 for unsealing what the configuration
 *   seals. `"unshared":true`: the metadata store could not be told, so that other replicas do not follow until it answers.
 */
export function sealRoutes({ seal, audit }: { seal: Seal; audit?: AuditTrail | undefined }): Router {
  const router = Router({ caseSensitive: true, strict: true });

  const tell: RequestHandler = (_req, res) => sendDocument(res, seal.state() satisfies SealDocument);

  const change: RequestHandler = async (req, res) => {
    demandAll(res);
    const { sealed } = parseRequest(sealBody, await readJson(req, res));
    if (!sealed && seal.state().configured) {
      throw new RequestError(409, 'SEALED_BY_CONFIGURATION', 'the configuration seals this mirror', {
        hint: 'take sealed: true out of the configuration, and start Larder again',
      });
    }
    const { client, requestId } = notesOf(res);
    const { name } = client as Client;
    if (await seal.set(sealed, name ?? 'unknown')) {
      const event = sealed ? 'sealed' : 'unsealed';
      audit?.record(event, { client: name, remote: req.socket.remoteAddress, requestId });
      notesOf(res).outcome = event;
    }
    sendDocument(res, seal.state() satisfies SealDocument);
  };

  router
    .route('/seal')
    .all(allowOnly('GET', 'HEAD', 'PUT'))
    .get(tell)
    .put(change);
  return router;
}
