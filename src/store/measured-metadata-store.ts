import type { MetadataEntry, MetadataStore } from './metadata-store.ts';

export const STORE_OPERATIONS = ['read', 'write', 'delete', 'check'] as const;
export type StoreOperation = (typeof STORE_OPERATIONS)[number];

/** Told of each operation that is over. Must not throw. */
export type OnStoreOperation = (operation: StoreOperation, seconds: number, failed: boolean) => void;

/** A metadata store, with the time that it takes. */
export class MeasuredMetadataStore implements MetadataStore {
  readonly #store: MetadataStore;
  readonly #tell: OnStoreOperation;

  constructor(deps: { store: MetadataStore; tell: OnStoreOperation }) {
    this.#store = deps.store;
    this.#tell = deps.tell;
  }

  get tellsTrouble(): boolean {
    return this.#store.tellsTrouble ?? false;
  }

  get(key: string): Promise<MetadataEntry | undefined> {
    return this.#measured('read', () => this.#store.get(key));
  }

  put(key: string, entry: MetadataEntry, keepForMs: number): Promise<void> {
    return this.#measured('write', () => this.#store.put(key, entry, keepForMs));
  }

  delete(key: string): Promise<void> {
    return this.#measured('delete', () => this.#store.delete(key));
  }

  check(): Promise<void> {
    return this.#measured('check', () => this.#store.check());
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async #measured<T>(operation: StoreOperation, run: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    let failed = true;
    try {
      const result = await run();
      failed = false;
      return result;
    } finally {
      this.#tell(operation, (performance.now() - startedAt) / 1000, failed);
    }
  }
}
