import type { Request, Response } from 'express';
import type { Assets } from './assets.ts';
import { type Page, renderPage, sendPage } from './page.ts';
import { upFrom, visitIfAny } from './visit.ts';

/** What was just done, by the word in the address that somebody is sent on to. */
const DONE: Readonly<Record<string, string>> = {
  pinned: 'Pinned.',
  unpinned: 'Unpinned.',
  sealed: 'This mirror is sealed: nothing leaves any more.',
  'sealed-here':
    'This replica is sealed. Others could not be told, and may still ask upstream: the metadata store does not answer.',
  'opened-here':
    'This replica is open. Others could not be told, and may still be sealed: the metadata store does not answer.',
  opened: 'This mirror is open: what is missing is fetched again.',
  began: 'The job has begun.',
  cancelled: 'The job is cancelled.',
  retried: 'What failed is done again.',
};

export type DoneWord = keyof typeof DONE;

/** Puts pages into what surrounds them, and sends them. */
export class Pages {
  readonly #assets: Assets;
  readonly #isSealed: () => boolean;

  constructor(deps: { assets: Assets; isSealed: () => boolean }) {
    this.#assets = deps.assets;
    this.#isSealed = deps.isSealed;
  }

  send(req: Request, res: Response, page: Page, status = 200): void {
    const visit = visitIfAny(res);
    const { done } = req.query as { done?: unknown };
    const notice = typeof done === 'string' && Object.hasOwn(DONE, done) ? DONE[done] : undefined;
    const around = {
      assets: this.#assets,
      up: upFrom(req),
      isSealed: this.#isSealed(),
      signedIn: visit && { name: visit.client.name, formToken: visit.formToken },
    };
    sendPage(res, renderPage({ notice, ...page }, around), status);
  }
}
