import {
  fetchedFor,
  isSettled,
  itemOf,
  type Job,
  type JobFindings,
  type JobHead,
  type JobItem,
  keyOf,
  totalsOf,
} from './job.ts';
import { PIECE_ITEMS } from './job-store.ts';
import type { PlannedItem } from './wanted.ts';
import type { Arriving, Outcome, Warmed } from './warm.ts';

/** How far a job is while it runs here: what was found, what became of it, and which of that is not written down yet. */
export class JobProgress {
  readonly #dirty = new Set<number>();
  readonly #arriving = new Set<Arriving>();
  readonly #listeners = new Set<() => void>();
  readonly #found = new Set<string>();
  #positions: Map<string, number>;
  #head: JobHead;
  #items: JobItem[];
  #totals: JobHead['totals'];
  #fetched: number;
  #findings: JobFindings;

  constructor(job: Job) {
    this.#head = { ...job.head, state: 'running', isPaused: undefined, endedAt: undefined, reason: undefined };
    this.#items = [...job.items];
    this.#positions = positionsOf(this.#items);
    this.#totals = totalsOf(this.#items);
    this.#fetched = fetchedFor(this.#items);
    this.#findings = job.findings;
  }

  /** As it is now. */
  get job(): Job {
    const arriving = [...this.#arriving].reduce((sum, { written }) => sum + written, 0);
    return {
      head: { ...this.#head, totals: { ...this.#totals }, bytes: this.#fetched + arriving },
      items: this.#items,
      findings: this.#findings,
    };
  }

  get items(): readonly JobItem[] {
    return this.#items;
  }

  get pieces(): number {
    return Math.ceil(this.#items.length / PIECE_ITEMS);
  }

  /** The items that nothing has become of yet. */
  get waiting(): number[] {
    return [...this.#items.keys()].filter((index) => this.#items[index]?.outcome === undefined);
  }

  /** Calls back after every change. @returns ends that */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  changed(): void {
    for (const listener of this.#listeners) listener();
  }

  /** What is found from now on was not found before, be it among the items already. */
  beginPlanning(): void {
    this.#found.clear();
  }

  /** One more item. What is known of it already stays. @returns its outcome where planning has found that out */
  found(planned: PlannedItem): Outcome | undefined {
    const item = itemOf(planned);
    const key = keyOf(item);
    if (this.#found.has(key)) return undefined;
    this.#found.add(key);
    const position = this.#positions.get(key) ?? this.#items.length;
    const known = this.#items[position];
    if (known && (isSettled(known) || (!known.outcome && !item.outcome))) return undefined;
    this.#positions.set(key, position);
    this.#put(position, item);
    return item.outcome;
  }

  /** These are all items, in this order. */
  planned(planned: readonly PlannedItem[], findings: JobFindings): void {
    const keys = new Set(planned.map((one) => keyOf(itemOf(one))));
    this.#items = [...keys].flatMap((key) => this.#items[this.#positions.get(key) ?? -1] ?? []);
    this.#positions = positionsOf(this.#items);
    this.#totals = totalsOf(this.#items);
    this.#fetched = fetchedFor(this.#items);
    this.#findings = findings;
    this.#head = { ...this.#head, isPlanned: true };
    this.markAll();
    this.changed();
  }

  /** What has become of an item. */
  record(index: number, { mayPass: _, ...warmed }: Warmed): void {
    const { name, kind } = this.#items[index] as JobItem;
    this.#put(index, { name, kind, ...warmed });
    if (warmed.outcome === 'stored') this.#fetched += warmed.bytes ?? 0;
  }

  /** What comes in counts as it comes. @returns ends that */
  arriving(one: Arriving): () => void {
    this.#arriving.add(one);
    return () => void this.#arriving.delete(one);
  }

  /** @returns whether that was a change */
  pause(isPaused: boolean): boolean {
    if (Boolean(this.#head.isPaused) === isPaused) return false;
    this.#head = { ...this.#head, isPaused: isPaused || undefined };
    this.changed();
    return true;
  }

  end(state: 'finished' | 'cancelled' | 'failed', reason: string | undefined): void {
    this.#head = { ...this.#head, state, reason, isPaused: undefined, endedAt: new Date().toISOString() };
  }

  /** Pieces of the items that have changed since they were written down: of those that `write` resolves for, no more. */
  async eachChanged(write: (piece: number) => Promise<void>): Promise<void> {
    for (const piece of [...this.#dirty]) {
      this.#dirty.delete(piece);
      try {
        await write(piece);
      } catch (error) {
        this.#dirty.add(piece);
        throw error;
      }
    }
  }

  /** All of them are to be written down. */
  markAll(): void {
    this.#dirty.clear();
    for (let piece = 0; piece < this.pieces; piece += 1) this.#dirty.add(piece);
  }

  #put(index: number, item: JobItem): void {
    const before = this.#items[index];
    if (before?.outcome) this.#totals[before.outcome] -= 1;
    if (!before) this.#totals.items += 1;
    if (item.outcome) {
      this.#totals[item.outcome] += 1;
      const sequence = this.#head.sequence + 1;
      this.#head = { ...this.#head, sequence };
      this.#items[index] = { ...item, sequence };
    } else {
      this.#items[index] = item;
    }
    this.#dirty.add(Math.floor(index / PIECE_ITEMS));
    this.changed();
  }
}

function positionsOf(items: readonly JobItem[]): Map<string, number> {
  return new Map(items.map((item, index) => [keyOf(item), index]));
}
