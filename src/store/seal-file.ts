import { join } from 'node:path';
import { z } from 'zod';
import { paths } from './keys.ts';
import type { PartialFiles } from './partial-files.ts';
import { readIfFile } from './storage-errors.ts';

/** The last time that somebody sealed or unsealed. */
export interface SealRecord {
  readonly sealed: boolean;
  /** Counts changes: of two records the higher one is the later one, whatever clocks say. */
  readonly revision: number;
  /** ISO 8601. */
  readonly changedAt: string;
  /** Name of the token. */
  readonly by: string;
}

const recordShape = z.object({
  sealed: z.boolean(),
  revision: z.number().int().positive(),
  changedAt: z.string(),
  by: z.string(),
});

/** `undefined` for what is no such record. */
export function readSealRecord(value: unknown): SealRecord | undefined {
  return recordShape.safeParse(value).data;
}

/** `seal.json` in the data directory: that a mirror is sealed survives whatever becomes of the metadata store. */
export class SealFile {
  readonly #file: string;
  readonly #partials: PartialFiles;

  constructor({ directory, partials }: { directory: string; partials: PartialFiles }) {
    this.#file = join(directory, paths.seal);
    this.#partials = partials;
  }

  /** @returns `undefined` when there is none, `damaged` when there is one that says nothing. @throws StorageFailed */
  async read(): Promise<SealRecord | 'damaged' | undefined> {
    const content = await readIfFile('reading the seal', this.#file);
    if (content === undefined) return undefined;
    try {
      return readSealRecord(JSON.parse(content.toString())) ?? 'damaged';
    } catch {
      return 'damaged';
    }
  }

  /** Durable when it resolves. @throws StorageFailed */
  async write(record: SealRecord): Promise<void> {
    await this.#partials.write(this.#file, `${JSON.stringify(record, null, 2)}\n`);
  }
}
