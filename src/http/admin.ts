import { type RequestHandler, type Response, Router } from 'express';
import { z } from 'zod';
import { ModulePattern } from '../address/module-pattern.ts';
import { Platform } from '../address/platform.ts';
import { ProviderPattern } from '../address/provider-pattern.ts';
import { Version } from '../address/version.ts';
import { Forbidden, InvalidAddress } from '../errors.ts';
import type { Gaps } from '../mirror/gaps.ts';
import type { Inventory, Selection } from '../mirror/inventory.ts';
import type { ModulePurge } from '../mirror/module-purge.ts';
import type { Pins } from '../mirror/pins.ts';
import type { Purge, PurgeSelection } from '../mirror/purge.ts';
import type { Seal } from '../mirror/seal.ts';
import type { Wish } from '../mirror/wanted.ts';
import type { WarmJobs } from '../mirror/warm-jobs.ts';
import { parseDuration } from '../units.ts';
import {
  archiveDocument,
  driftDocument,
  type ModulePurgeDocument,
  moduleDocument,
  modulePurgeDocument,
  type PurgeDocument,
  purgeDocument,
} from './admin-documents.ts';
import { gapRoutes } from './admin-gaps.ts';
import { jobRoutes } from './admin-jobs.ts';
import { type LockDeps, lockRoutes } from './admin-lock.ts';
import { pinRoutes } from './admin-pins.ts';
import { sealRoutes } from './admin-seal.ts';
import { type CarryDeps, uploadRoutes } from './admin-upload.ts';
import { type VerifyDeps, verifyRoutes } from './admin-verify.ts';
import type { AuditTrail } from './audit-entry.ts';
import type { Authenticator, Client } from './authenticate.ts';
import { drained } from './drained.ts';
import { readJson } from './json-request.ts';
import { allowOnly } from './request-guards.ts';
import { parsed, parseRequest } from './request-schema.ts';
import { notesOf } from './respond.ts';
import { sendDocument } from './send-document.ts';

/** Characters that are gathered before they are sent: an archive is about 300. */
const PIECE_LENGTH = 16 * 1024;

const HINT =
  "send the token of an operator as 'Authorization: Bearer TOKEN' (larder commands: --token, or LARDER_TOKEN)";

/** What the doors for operators work with. */
export interface AdminDeps {
  readonly inventory: Inventory;
  readonly purge: Purge;
  readonly modulePurge: ModulePurge;
  /** Without it nothing is warmed. */
  readonly jobs?: WarmJobs | undefined;
  /** Whose rules hold for what is wished without naming a client. */
  readonly defaultClient?: Wish['client'] | undefined;
  /** Without it nobody is told what would be missing. */
  readonly gaps?: Gaps | undefined;
  /** Without it nothing can be brought, or taken away. */
  readonly carrying?: CarryDeps | undefined;
  /** Without it nothing is pinned. */
  readonly pins?: Pins | undefined;
  /** Without it nothing is scanned. */
  readonly verify?: VerifyDeps | undefined;
  /** Without it Larder is sealed by its configuration or not at all. */
  readonly seal?: Seal | undefined;
  /** Without it lock files are not completed. */
  readonly lock?: LockDeps | undefined;
}

/**
 * For operators, with a token of the role `admin`, whoever else may read:
 *
 * - `GET /admin/inventory?address=…&version=…&unused=90d`: `{"archives":[…],"modules":[…],"drift":[…]}`, streamed
 * - `POST /admin/purge` with `{"address":"HOST/NAMESPACE/TYPE","version":…,"platform":…,"unused":"90d","pinned":…,
 *   "dryRun":…}`: `{"dryRun":false,"purged":[…]}`, of which nothing that is `pinned` was removed; an address of four parts is that of a module
 */
export function adminRoutes(
  deps: AdminDeps & { readonly authenticator: Authenticator; readonly audit?: AuditTrail | undefined },
): Router {
  const { inventory, authenticator, audit } = deps;
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
    const { unused, ...asked } = parseRequest(inventoryQuery, req.query);
    const client = notesOf(res).client as Client;
    const selection = { ...asked, unusedSince: unused, mayHave: client.mayAdminister.bind(client) };
    await sendPieces(res, gathered(inventoryTexts(inventory, selection)));
  };

  const answerPurge: RequestHandler = async (req, res) => {
    const { dryRun, unused, ...asked } = parseRequest(purgeBody, await readJson(req, res));
    const client = notesOf(res).client as Client;
    const selection = { ...asked, unusedSince: unused, mayHave: client.mayAdminister.bind(client) };
    const remote = req.socket.remoteAddress;
    const purged: (PurgeDocument | ModulePurgeDocument)[] = [];
    // To its end, whether or not the client waits for that.
    for await (const removed of removals(deps, selection, dryRun)) {
      purged.push(removed);
      if (dryRun || removed.pinned) continue;
      const { requestId } = notesOf(res);
      audit?.record('purged', { client: client.name, remote, ...removed, requestId });
    }
    notesOf(res).outcome = dryRun ? 'planned' : 'purged';
    sendDocument(res, { dryRun, purged });
  };

  router.route('/inventory').all(allowOnly('GET', 'HEAD')).get(answerInventory);
  router.route('/purge').all(allowOnly('POST')).post(answerPurge);
  if (deps.jobs) router.use(jobRoutes({ jobs: deps.jobs, authenticator, defaultClient: deps.defaultClient, audit }));
  if (deps.gaps) router.use(gapRoutes({ gaps: deps.gaps, defaultClient: deps.defaultClient }));
  if (deps.carrying) router.use(uploadRoutes({ ...deps.carrying, audit }));
  if (deps.seal) router.use(sealRoutes({ seal: deps.seal, audit }));
  if (deps.lock) router.use(lockRoutes(deps.lock));
  if (deps.pins) router.use(pinRoutes({ pins: deps.pins, audit }));
  if (deps.verify) router.use(verifyRoutes({ ...deps.verify, audit }));
  return router;
}

/** Three parts mean providers, four mean modules. @throws InvalidAddress */
export function parseAddress(text: string): ProviderPattern | ModulePattern {
  const pattern = ProviderPattern.parse(text) ?? ModulePattern.parse(text);
  if (pattern) return pattern;
  throw new InvalidAddress(
    'address',
    text,
    'write it as HOST/NAMESPACE/TYPE, or HOST/NAMESPACE/NAME/SYSTEM for a module, with * for a whole part',
  );
}

/** The time before which something was last used that was not used for so long, such as `90d`. @throws InvalidAddress */
export function unusedSince(text: string): Date {
  const duration = parseDuration(text);
  if (duration !== undefined) return new Date(Date.now() - duration);
  throw new InvalidAddress('duration', text, 'write it with a unit, as 90d or 12h');
}

/** What is removed, or would be, of providers or of modules. @throws StorageFailed */
export async function* removals(
  { purge, modulePurge }: Pick<AdminDeps, 'purge' | 'modulePurge'>,
  selection: PurgeSelection,
  dryRun: boolean,
): AsyncGenerator<PurgeDocument | ModulePurgeDocument> {
  if (selection.address instanceof ModulePattern) {
    const removed = dryRun ? modulePurge.plan(selection) : modulePurge.run(selection);
    for await (const one of removed) yield modulePurgeDocument(one);
  } else {
    const removed = dryRun ? purge.plan(selection) : purge.run(selection);
    for await (const one of removed) yield purgeDocument(one);
  }
}

const unusedFor = parsed(unusedSince);

const inventoryQuery = z.strictObject({
  address: parsed(parseAddress).optional(),
  version: parsed(Version.parse).optional(),
  unused: unusedFor.optional(),
});

const purgeBody = z
  .strictObject({
    address: parsed(parseAddress),
    version: parsed(Version.parse).optional(),
    platform: parsed(Platform.parse).optional(),
    unused: unusedFor.optional(),
    pinned: z.boolean().default(false),
    dryRun: z.boolean().default(false),
  })
  .refine(({ address, platform }) => platform === undefined || !(address instanceof ModulePattern), {
    path: ['platform'],
    message: 'modules have no platforms',
  });

async function* inventoryTexts(inventory: Inventory, selection: Selection): AsyncGenerator<string> {
  yield '{"archives":[';
  yield* listed(inventory.archives(selection), archiveDocument);
  yield '],"modules":[';
  yield* listed(inventory.packages(selection), moduleDocument);
  // Last of all, so that it tells what was noticed while the lists were made.
  yield `],"drift":${JSON.stringify(inventory.drift(selection).map(driftDocument))}}\n`;
}

async function* listed<T>(entries: AsyncIterable<T>, document: (entry: T) => unknown): AsyncGenerator<string> {
  let separator = '';
  for await (const entry of entries) {
    yield `${separator}\n${JSON.stringify(document(entry))}`;
    separator = ',';
  }
}

async function* gathered(texts: AsyncIterable<string>): AsyncGenerator<string> {
  let piece = '';
  for await (const text of texts) {
    piece += text;
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = '';
  }
  yield piece;
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
