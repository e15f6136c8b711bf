import { type RequestHandler, Router } from 'express';
import { z } from 'zod';
import { Platform } from '../../address/platform.ts';
import { Version } from '../../address/version.ts';
import { NotFound } from '../../errors.ts';
import { isOfArchive } from '../../mirror/drift.ts';
import type { Inventory, InventoryEntry, ModuleInventoryEntry } from '../../mirror/inventory.ts';
import { Pin, type Pins } from '../../mirror/pins.ts';
import type { SignatureState, SignatureStates } from '../../mirror/signature-states.ts';
import { isArchive, type StoredIndex, type StoredRow } from '../../mirror/stored-index.ts';
import { settledWithin } from '../../time-limit.ts';
import { parseAddress } from '../admin.ts';
import { demandAll } from '../admin-pins.ts';
import type { AuditTrail } from '../audit-entry.ts';
import { allowOnly } from '../request-guards.ts';
import { parsed, parseRequest } from '../request-schema.ts';
import type { Pages } from './around.ts';
import { itemPage, namesOf } from './item.ts';
import { sendSeeOther } from './page.ts';
import { type SeenRow, storedPage } from './stored.ts';
import { PAGE_ROWS, parseStoredQuery } from './stored-query.ts';
import { readOwnForm, recordFor, visitOf } from './visit.ts';

/** What is not known of the signatures of a page by then is shown the next time, in milliseconds. */
const SIGNATURES_MS = 120;

export interface StoredDeps {
  readonly index: Pick<StoredIndex, 'page'>;
  readonly inventory: Inventory;
  readonly signatures: Pick<SignatureStates, 'of'>;
  /** Without it nothing is pinned. */
  readonly pins?: Pins | undefined;
}

/** `stored`, `item` and `pins`. */
export function storedRoutes({
  index,
  inventory,
  signatures,
  pins,
  pages,
  publicUrl,
  audit,
}: StoredDeps & { pages: Pages; publicUrl: string | undefined; audit: AuditTrail | undefined }): Router {
  const router = Router({ caseSensitive: true, strict: true });

  const signatureOf = async ({ stored }: Pick<StoredRow, 'stored'>): Promise<SignatureState | undefined> => {
    if (!isArchive(stored)) return undefined;
    const looked = signatures.of(stored.archive.provider, stored.archive.version);
    // A page is worth showing whatever is the matter with a file beside it.
    return settledWithin(looked, SIGNATURES_MS).catch(() => undefined);
  };

  const list: RequestHandler = async (req, res) => {
    const { client, formToken } = visitOf(res);
    const asked = parseStoredQuery(req.query);
    const allPins = (await pins?.list()) ?? [];
    const drifted = new Set(inventory.drift().map((one) => String(isOfArchive(one) ? one.archive : one.release)));
    const hasDrifted = ({ stored }: StoredRow) =>
      drifted.size > 0 && drifted.has(String(isArchive(stored) ? stored.archive : stored.release));
    const page = await index.page({
      words: asked.words,
      where: (row) =>
        (client.mayAdministerAll || client.mayAdminister(row.address)) &&
        (asked.kind === 'all' || isArchive(row.stored) === (asked.kind === 'providers')) &&
        (asked.only !== 'pinned' || allPins.some((pin) => pin.holds(row.address, row.version))) &&
        (asked.only !== 'drift' || hasDrifted(row)),
      order: asked.order,
      isDescending: asked.isDescending,
      offset: (asked.page - 1) * PAGE_ROWS,
      limit: PAGE_ROWS,
    });
    const rows = await Promise.all(
      page.rows.map(
        async (row): Promise<SeenRow> => ({
          ...row,
          hasDrifted: hasDrifted(row),
          signature: await signatureOf(row),
        }),
      ),
    );
    const content = storedPage({
      asked,
      page: { ...page, rows },
      pins: client.mayAdministerAll ? allPins : [],
      formToken: pins && client.mayAdministerAll ? formToken : undefined,
    });
    pages.send(req, res, { title: 'Stored', section: 'stored', content });
  };

  const show: RequestHandler = async (req, res) => {
    const { client, formToken } = visitOf(res);
    const { address, version, platform } = parseRequest(itemAsked, req.query);
    const selection = { address, version, mayHave: client.mayAdminister.bind(client) };
    const entry = await entryOf(inventory, selection, platform);
    if (!entry) throw new NotFound('this is not stored, or not any more');
    const names = namesOf(entry);
    const content = itemPage({
      entry,
      signature: await signatureOf(entry),
      pins: (await pins?.list()) ?? [],
      formToken: pins && client.mayAdministerAll ? formToken : undefined,
    });
    const title = [names.address, names.version, names.platform].filter((part) => part !== undefined).join(' ');
    pages.send(req, res, { title, section: 'stored', content });
  };

  const change =
    (all: Pins): RequestHandler =>
    async (req, res) => {
      const form = await readOwnForm(req, res, { publicUrl });
      demandAll(res);
      const { pin, what, back } = parseRequest(pinAsked, {
        pin: form.text('pin').trim(),
        what: form.text('what'),
        back: form.text('back'),
      });
      const isAdding = what === 'add';
      if (isAdding) await all.add([pin]);
      else await all.remove([pin]);
      recordFor(audit, req, res)(isAdding ? 'pinned' : 'unpinned', { pins: [pin.toString()] });
      const word = isAdding ? 'pinned' : 'unpinned';
      sendSeeOther(res, `${back}${back.includes('?') ? '&' : '?'}done=${word}`);
    };

  router.route('/stored').all(allowOnly('GET', 'HEAD')).get(list);
  router.route('/item').all(allowOnly('GET', 'HEAD')).get(show);
  if (pins) router.route('/pins').all(allowOnly('POST')).post(change(pins));
  return router;
}

const itemAsked = z.object({
  address: parsed(parseAddress),
  version: parsed(Version.parse),
  platform: parsed(Platform.parse).optional(),
});

const pinAsked = z.object({
  pin: parsed(Pin.parse),
  what: z.enum(['add', 'remove']),
  /** A page of ours, and only that. */
  back: z
    .string()
    .regex(/^(stored|item)(\?[\w%&=.+*:~@-]*)?$/)
    .catch('stored')
    .transform((text) => text.replace(/([?&])done=\w*&?/, '$1').replace(/[?&]$/, '')),
});

async function entryOf(
  inventory: Inventory,
  selection: Parameters<Inventory['archives']>[0],
  platform: Platform | undefined,
): Promise<InventoryEntry | ModuleInventoryEntry | undefined> {
  for await (const entry of inventory.archives(selection)) {
    if (String(entry.stored.archive.platform) === String(platform)) return entry;
  }
  for await (const entry of inventory.packages(selection)) return entry;
  return undefined;
}
