/** A remembered upstream answer. Freshness is judged by `fetchedAt`, never by the store's own expiry. */
export interface MetadataEntry {
  /** JSON-compatible. */
  readonly value: unknown;
  /** Milliseconds since the epoch. */
  readonly fetchedAt: number;
}

/**
 * Port: where metadata and computed hashes rest. Losing it loses speed and nothing else.
 *
 * Every method settles within the implementation's own time limit and rejects when the store cannot answer, so that
 * an outage never looks like a miss. What cannot be read as an entry (foreign or damaged data) is a miss.
 */
export interface MetadataStore {
  /** It tells the log by itself when it goes and when it is back: others need not. */
  readonly tellsTrouble?: boolean;
  get(key: string): Promise<MetadataEntry | undefined>;
  /** Keeps the entry for at least `keepForMs` unless the store is short of room. */
  put(key: string, entry: MetadataEntry, keepForMs: number): Promise<void>;
  delete(key: string): Promise<void>;
  /** For `/readyz`: resolves when the store answers, rejects with the reason otherwise. */
  check(): Promise<void>;
  close(): Promise<void>;
}
