import { Platform } from '../address/platform.ts';
import { metadataKeys } from '../store/keys.ts';
import type { MetadataStore } from '../store/metadata-store.ts';
import {
  type Job,
  type JobEntry,
  type JobFindings,
  type JobHead,
  type JobItem,
  type JobPage,
  NO_FINDINGS,
  stored,
} from './job.ts';
import type { Wish } from './wanted.ts';

/** How long a job can be looked at, and how many there are. */
export const KEEP_MS = 30 * 24 * 3_600_000;
export const MAX_JOBS = 100;
/** Items that are written down together whenever one of them changes: a progress costs so much, however big the job. */
export const PIECE_ITEMS = 100;
/** Characters of a wish in one entry. Stores and their time limits are made for small ones. */
const WISH_PIECE_LENGTH = 256 * 1024;

/** How jobs rest in the metadata store. Every method @throws StorageFailed when the store does not answer. */
export class JobStore {
  readonly #store: MetadataStore;
  readonly #now: () => number;
  /** Changes of the index, one after another. */
  #indexing: Promise<unknown> = Promise.resolve();

  constructor(deps: { store: MetadataStore; now?: () => number }) {
    this.#store = deps.store;
    this.#now = deps.now ?? Date.now;
  }

  /** Newest first. */
  async index(): Promise<readonly JobEntry[]> {
    const entries = stored.index(await this.#get(metadataKeys.jobs)) ?? [];
    return entries.filter(({ createdAt }) => this.#now() - createdAt < KEEP_MS);
  }

  /** Sees to it that the job is in the index, and that the oldest ones leave it when there are too many. */
  async enter(id: string, { isRunning, createdAt }: { isRunning: boolean; createdAt: number }): Promise<void> {
    const entering = this.#indexing.then(async () => {
      const others = (await this.index()).filter((entry) => entry.id !== id);
      const all = [...others, { id, createdAt, isRunning }].sort((a, b) => b.createdAt - a.createdAt);
      const isKept = (entry: JobEntry, index: number) => index < MAX_JOBS || entry.isRunning;
      await this.#put(metadataKeys.jobs, all.filter(isKept));
      for (const entry of all.filter((one, index) => !isKept(one, index))) await this.#remove(entry.id);
    });
    this.#indexing = entering.catch(() => {});
    await entering;
  }

  /** Leaves nothing of a job that could not be begun, as far as the store lets it. Never rejects. */
  async discard(head: JobHead): Promise<void> {
    const leaving = this.#indexing.then(async () => {
      const entries = await this.index();
      if (!entries.some(({ id }) => id === head.id)) return;
      await this.#put(
        metadataKeys.jobs,
        entries.filter(({ id }) => id !== head.id),
      );
    });
    this.#indexing = leaving.catch(() => {});
    await Promise.allSettled([leaving, this.#removeAll(head)]);
  }

  async head(id: string): Promise<JobHead | undefined> {
    return stored.head(await this.#get(metadataKeys.job(id)));
  }

  async putHead(head: JobHead): Promise<void> {
    await this.#put(metadataKeys.job(head.id), head);
  }

  async job(id: string): Promise<Job | undefined> {
    const head = await this.head(id);
    if (!head) return undefined;
    const { items } = await this.page(head, { after: 0, count: head.totals.items });
    return { head, items, findings: await this.findings(id) };
  }

  /** Pieces that are lost are items that are lost: nothing tells what they were. */
  async page({ id, totals }: JobHead, { after, count }: { after: number; count: number }): Promise<JobPage> {
    const end = Math.min(after + count, totals.items);
    const next = end < totals.items ? end : undefined;
    if (after >= end) return { items: [], next };
    const first = Math.floor(after / PIECE_ITEMS);
    const pieces = await Promise.all(
      Array.from({ length: Math.ceil(end / PIECE_ITEMS) - first }, async (_, index) => {
        const begin = (first + index) * PIECE_ITEMS;
        const items = stored.items(await this.#get(metadataKeys.jobItems(id, first + index))) ?? [];
        return items.slice(Math.max(after - begin, 0), end - begin);
      }),
    );
    return { items: pieces.flat(), next };
  }

  async findings(id: string): Promise<JobFindings> {
    return stored.findings(await this.#get(metadataKeys.jobFindings(id))) ?? NO_FINDINGS;
  }

  /** @param piece the how manieth, counted from 0 */
  async putItems(id: string, items: readonly JobItem[], piece: number): Promise<void> {
    const begin = piece * PIECE_ITEMS;
    await this.#put(metadataKeys.jobItems(id, piece), items.slice(begin, begin + PIECE_ITEMS));
  }

  /** Pieces from the one with this number on, up to the other one. */
  async dropItems(id: string, first: number, end: number): Promise<void> {
    for (let piece = first; piece < end; piece += 1) await this.#store.delete(metadataKeys.jobItems(id, piece));
  }

  /** @param pieces what `wishPieces` made of it */
  async putWish(id: string, pieces: readonly string[]): Promise<void> {
    for (const [piece, text] of pieces.entries()) await this.#put(metadataKeys.jobWish(id, piece), text);
  }

  async wish({ id, wish }: JobHead): Promise<Wish | undefined> {
    const pieces = await Promise.all(
      Array.from({ length: wish.pieces }, (_, piece) => this.#get(metadataKeys.jobWish(id, piece))),
    );
    if (!pieces.every((piece) => typeof piece === 'string')) return undefined;
    const { files, platforms, client } = JSON.parse(pieces.join('')) as StoredWish;
    return { files, platforms: platforms.map((platform) => Platform.parse(platform)), client };
  }

  async putFindings(id: string, findings: JobFindings): Promise<void> {
    await this.#put(metadataKeys.jobFindings(id), findings);
  }

  /** For whoever runs it, wherever that is. */
  async requestCancel(id: string): Promise<void> {
    await this.#put(metadataKeys.jobCancel(id), true);
  }

  async isCancelRequested(id: string): Promise<boolean> {
    return (await this.#get(metadataKeys.jobCancel(id))) === true;
  }

  async forgetCancel(id: string): Promise<void> {
    await this.#store.delete(metadataKeys.jobCancel(id));
  }

  async #remove(id: string): Promise<void> {
    const head = await this.head(id);
    if (head) await this.#removeAll(head);
  }

  async #removeAll({ id, totals, wish }: JobHead): Promise<void> {
    await this.dropItems(id, 0, Math.ceil(totals.items / PIECE_ITEMS));
    for (let piece = 0; piece < wish.pieces; piece += 1) await this.#store.delete(metadataKeys.jobWish(id, piece));
    await this.#store.delete(metadataKeys.jobFindings(id));
    await this.#store.delete(metadataKeys.job(id));
  }

  async #get(key: string): Promise<unknown> {
    return (await this.#store.get(key))?.value;
  }

  async #put(key: string, value: unknown): Promise<void> {
    await this.#store.put(key, { value, fetchedAt: this.#now() }, KEEP_MS);
  }
}

/** A wish as it is written down. */
export function wishPieces({ files, platforms, client }: Wish): string[] {
  const text = JSON.stringify({ files, platforms: platforms.map(String), client } satisfies StoredWish);
  return Array.from({ length: Math.ceil(text.length / WISH_PIECE_LENGTH) }, (_, piece) =>
    text.slice(piece * WISH_PIECE_LENGTH, (piece + 1) * WISH_PIECE_LENGTH),
  );
}

interface StoredWish {
  readonly files: Wish['files'];
  readonly platforms: readonly string[];
  readonly client: Wish['client'];
}
