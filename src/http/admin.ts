import { once } from 'node:events';
import { type RequestHandler, type Response, Router } from 'express';
import { z } from 'zod';
import { Platform } from '../address/platform.ts';
import { ProviderPattern } from '../address/provider-pattern.ts';
import { Version } from '../address/version.ts';
import { Forbidden, InvalidAddress } from '../errors.ts';
import type { Inventory, InventoryEntry } from '../mirror/inventory.ts';
import type { Purge, PurgedVersion } from '../mirror/purge.ts';
import { archiveDocument, driftDocument, purgeDocument } from './admin-documents.ts';
import type { AuditTrail } from './audit-entry.ts';
import type { Authenticator, Client } from './authenticate.ts';
import { readJson } from './json-request.ts';
import { RequestError } from './request-error.ts';
import { allowOnly } from './request-guards.ts';
import { notesOf } from './respond.ts';

/** Characters that are gathered before they are sent: an archive is about 300. */
const PIECE_LENGTH = 16 * 1024;

const HINT =
  "send the token of an operator as 'Authorization: Bearer TOKEN' (larder commands: --token, or LARDER_TOKEN)";

/** What the doors for operators work with. */
export interface AdminDeps {
  readonly inventory: Inventory;
  readonly purge: Purge;
}

/**
 * For operators, with a token of the role `admin`, whoever else may read:
 *
 * - `GET /admin/inventory?address=…&version=…`: `{"archives":[…],"drift":[…]}`, streamed
 * - `POST /admin/purge` with `{"address":"HOST/NAMESPACE/TYPE","version":…,"platform":…,"dryRun":…}`:
 *   `{"dryRun":false,"purged":[…]}`
 */
export function adminRoutes(
  deps: AdminDeps & { readonly authenticator: Authenticator; readonly audit?: AuditTrail | undefined },
): Router {
  const { inventory, purge, authenticator, audit } = deps;
  const router = Router({ caseSensitive: true, strict: true });

  router.use(async (req, res, next) => {
    const client = await authenticator.identify(req);
    const notes = notesOf(res);
    notes.client = client;
    notes.isPersonal = true;
    if (!(await authenticator.hasHolderOf('admin'))) {
      throw new Forbidden('nobody may do this: no token has the role admin', {
        hint: 'set LARDER_ADMIN_TOKEN for the server, or give a token of access.tokens the role admin',
      });
    }
    authenticator.demand(client, 'admin', req, HINT);
    next();
  });

  const answerInventory: RequestHandler = async (req, res) => {
    const asked = parseRequest(inventoryQuery, req.query);
    const client = notesOf(res).client as Client;
    const selection = { ...asked, mayHave: client.mayAdminister.bind(client) };
    const archives = inventory.archives(selection);
    await sendPieces(
      res,
      inventoryPieces(archives, () => inventory.drift(selection).map(driftDocument)),
    );
  };

  const answerPurge: RequestHandler = async (req, res) => {
    const { dryRun, ...asked } = parseRequest(purgeBody, await readJson(req, res));
    const client = notesOf(res).client as Client;
    const selection = { ...asked, mayHave: client.mayAdminister.bind(client) };
    const remote = req.socket.remoteAddress;
    const purged: PurgedVersion[] = [];
    // To its end, whether or not the client waits for that.
    for await (const version of dryRun ? purge.plan(selection) : purge.run(selection)) {
      purged.push(version);
      if (dryRun) continue;
      const { requestId } = notesOf(res);
      audit?.record('purged', { client: client.name, remote, ...purgeDocument(version), requestId });
    }
    notesOf(res).outcome = dryRun ? 'planned' : 'purged';
    sendDocument(res, { dryRun, purged: purged.map(purgeDocument) });
  };

  router.route('/inventory').all(allowOnly('GET', 'HEAD')).get(answerInventory);
  router.route('/purge').all(allowOnly('POST')).post(answerPurge);
  return router;
}

/** A text that `parse` can read, or a problem in its words. */
function parsed<T>(parse: (text: string) => T) {
  return z.string().transform((text, context): T => {
    try {
      return parse(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
      return z.NEVER;
    }
  });
}

/** @throws InvalidAddress */
export function parseAddress(text: string): ProviderPattern {
  const pattern = ProviderPattern.parse(text);
  if (pattern) return pattern;
  throw new InvalidAddress('address', text, 'write it as HOST/NAMESPACE/TYPE, with * for a whole part');
}

const inventoryQuery = z.strictObject({
  address: parsed(parseAddress).optional(),
  version: parsed(Version.parse).optional(),
});

const purgeBody = z.strictObject({
  address: parsed(parseAddress),
  version: parsed(Version.parse).optional(),
  platform: parsed(Platform.parse).optional(),
  dryRun: z.boolean().default(false),
});

/** @throws RequestError naming each field that is wrong */
function parseRequest<T>(schema: z.ZodType<T>, given: unknown): T {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  const problems = result.error.issues.map(({ path, message }) =>
    path.length > 0 ? `${path.join('.')}: ${message}` : message,
  );
  throw new RequestError(400, 'INVALID_REQUEST', problems.join('; '));
}

async function* inventoryPieces(
  archives: AsyncIterable<InventoryEntry>,
  drift: () => readonly unknown[],
): AsyncGenerator<string> {
  let piece = '{"archives":[';
  let separator = '';
  for await (const entry of archives) {
    piece += `${separator}\n${JSON.stringify(archiveDocument(entry))}`;
    separator = ',';
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = '';
  }
  // Last of all, so that it tells what was noticed while the list was made.
  yield `${piece}],"drift":${JSON.stringify(drift())}}\n`;
}

/** The answer begins with the first piece: what fails before can be told in words, what fails later breaks it off. */
async function sendPieces(res: Response, pieces: AsyncGenerator<string>): Promise<void> {
  try {
    for await (const piece of pieces) {
      if (res.destroyed) return;
      if (!res.headersSent) res.writeHead(200, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' });
      if (!res.write(piece)) await drained(res);
    }
    res.end();
  } finally {
    await pieces.return(undefined);
  }
}

/** Resolves when there is room again, or nobody to send to. */
async function drained(res: Response): Promise<void> {
  if (res.destroyed) return;
  const settled = new AbortController();
  const { signal } = settled;
  try {
    await Promise.race([once(res, 'drain', { signal }), once(res, 'close', { signal })]);
  } finally {
    settled.abort();
  }
}

function sendDocument(res: Response, document: unknown): void {
  const body = Buffer.from(JSON.stringify(document));
  res
    .writeHead(200, {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'Cache-Control': 'no-store',
    })
    .end(body);
}
