import { Platform } from '../address/platform.ts';
import { metadataKeys } from '../store/keys.ts';
import type { MetadataStore } from '../store/metadata-store.ts';
import { type Job, type JobEntry, type JobFindings, type JobHead, type JobItem, NO_FINDINGS, stored } from './job.ts';
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

  async head(id: string): Promise<JobHead | undefined> {
    return stored.head(await this.#get(metadataKeys.job(id)));
  }

  async putHead(head: JobHead): Promise<void> {
    await this.#put(metadataKeys.job(head.id), head);
  }

  /** Pieces that are lost are items that are lost: nothing tells what they were. */
  async job(id: string): Promise<Job | undefined> {
    const head = await this.head(id);
    if (!head) return undefined;
    const pieces = Array.from({ length: Math.ceil(head.totals.items / PIECE_ITEMS) }, (_, index) => index);
    const items = await Promise.all(
      pieces.map(async (piece) => stored.items(await this.#get(metadataKeys.jobItems(id, piece))) ?? []),
    );
    const findings = stored.findings(await this.#get(metadataKeys.jobFindings(id))) ?? NO_FINDINGS;
    return { head, items: items.flat(), findings };
  }

  /** @param piece the how manieth, counted from 0 */
  async putItems(id: string, items: readonly JobItem[], piece: number): Promise<void> {
    const begin = piece * PIECE_ITEMS;
    await this.#put(metadataKeys.jobItems(id, piece), items.slice(begin, begin + PIECE_ITEMS));
  }

  /** Resolves to the number of pieces. */
  async putWish(id: string, { files, platforms, client }: Wish): Promise<number> {
    const text = JSON.stringify({ files, platforms: platforms.map(String), client });
    const pieces = Math.ceil(text.length / WISH_PIECE_LENGTH);
    for (let piece = 0; piece < pieces; piece += 1) {
      const begin = piece * WISH_PIECE_LENGTH;
      await this.#put(metadataKeys.jobWish(id, piece), text.slice(begin, begin + WISH_PIECE_LENGTH));
    }
    return pieces;
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
    if (!head) return;
    const pieces = Math.ceil(head.totals.items / PIECE_ITEMS);
    for (let piece = 0; piece < pieces; piece += 1) await this.#store.delete(metadataKeys.jobItems(id, piece));
    for (let piece = 0; piece < head.wish.pieces; piece += 1) await this.#store.delete(metadataKeys.jobWish(id, piece));
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

interface StoredWish {
  readonly files: Wish['files'];
  readonly platforms: readonly string[];
  readonly client: Wish['client'];
}
