import { type Request, type RequestHandler, type Response, Router } from 'express';
import { z } from 'zod';
import { Forbidden } from '../errors.ts';
import { Pin, type Pins } from '../mirror/pins.ts';
import type { AuditTrail } from './audit-entry.ts';
import type { Client } from './authenticate.ts';
import { readJson } from './json-request.ts';
import { allowOnly } from './request-guards.ts';
import { parsed, parseRequest } from './request-schema.ts';
import { notesOf } from './respond.ts';
import { sendDocument } from './send-document.ts';

const MAX_PINS = 10_000;

const pinsBody = z.strictObject({ pins: z.array(parsed(Pin.parse)).min(1).max(MAX_PINS) });

/** Every pin, as `ADDRESS` or `ADDRESS@VERSION`. */
export interface PinsDocument {
  readonly pins: readonly string[];
  /** Of those that were to be taken back, those that there were. */
  readonly removed?: readonly string[];
}

/**
 * What is never evicted, for operators who were let in already. Changing it needs a token that is for everything.
 *
 * - `GET /admin/pins`: `{"pins":["HOST/NAMESPACE/TYPE@1.0.0",…]}`
 * - `PUT /admin/pins` with `{"pins":[…]}` adds them; `DELETE` with the same takes them back: both answer with all there are
 */
export function pinRoutes({ pins, audit }: { pins: Pins; audit?: AuditTrail | undefined }): Router {
  const router = Router({ caseSensitive: true, strict: true });

  const record = (event: string, req: Request, res: Response, changed: readonly Pin[]) => {
    const { client, requestId } = notesOf(res);
    const remote = req.socket.remoteAddress;
    audit?.record(event, { client: client?.name, remote, pins: changed.map(String), requestId });
  };

  const list: RequestHandler = async (_req, res) => {
    sendDocument(res, { pins: (await pins.list()).map(String) } satisfies PinsDocument);
  };

  const add: RequestHandler = async (req, res) => {
    demandAll(res);
    const asked = parseRequest(pinsBody, await readJson(req, res));
    const all = await pins.add(asked.pins);
    record('pinned', req, res, asked.pins);
    sendDocument(res, { pins: all.map(String) } satisfies PinsDocument);
  };

  const remove: RequestHandler = async (req, res) => {
    demandAll(res);
    const asked = parseRequest(pinsBody, await readJson(req, res));
    const { removed, left } = await pins.remove(asked.pins);
    record('unpinned', req, res, removed);
    sendDocument(res, { pins: left.map(String), removed: removed.map(String) } satisfies PinsDocument);
  };

  router
    .route('/pins')
    .all(allowOnly('GET', 'HEAD', 'PUT', 'DELETE'))
    .get(list)
    .put(add)
    .delete(remove);
  return router;
}

/** @throws Forbidden for tokens that are for some addresses only */
export function demandAll(res: Response): void {
  const client = notesOf(res).client as Client;
  if (client.mayAdministerAll) return;
  throw new Forbidden(
    `the token named ${client.name} is for some addresses only, and this is about all that is stored`,
    {
      hint: 'the operator decides with the addresses of access.tokens',
    },
  );
}
