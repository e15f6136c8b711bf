import { join } from 'node:path';
import { StorageFailed } from '../errors.ts';
import { paths } from './keys.ts';
import type { PartialFiles } from './partial-files.ts';
import { readIfFile } from './storage-errors.ts';

/** Another process may replace the file between our reading and our writing; then the change is made once more. */
const MAX_ATTEMPTS = 5;

/** `pins.json`: what is never evicted, as texts. It is read anew each time, so that processes may share it. */
export class PinFile {
  readonly #file: string;
  readonly #partials: PartialFiles;
  #changing: Promise<unknown> = Promise.resolve();

  constructor({ directory, partials }: { directory: string; partials: PartialFiles }) {
    this.#file = join(directory, paths.pins);
    this.#partials = partials;
  }

  /** @throws StorageFailed, also when the file is no list of pins: that is not the same as none */
  async read(): Promise<readonly string[]> {
    const content = await readIfFile('reading the pins', this.#file);
    if (content === undefined) return [];
    const pins = pinsIn(content.toString());
    if (pins) return pins;
    throw new StorageFailed('reading the pins', new Error('pins.json is no list of pins'), {
      hint: 'mend pins.json in the data directory, or remove it; nothing is evicted or purged before',
    });
  }

  /** Replaces the whole file, durably. @param change must give the same again when it is given its own result. @throws StorageFailed */
  change(change: (pins: readonly string[]) => readonly string[]): Promise<readonly string[]> {
    const changed = this.#changing.then(() => this.#change(change));
    this.#changing = changed.catch(() => {});
    return changed;
  }

  async #change(change: (pins: readonly string[]) => readonly string[]): Promise<readonly string[]> {
    for (let attempt = 1; ; attempt += 1) {
      const wanted = [...new Set(change(await this.read()))].sort();
      await this.#partials.write(this.#file, `${JSON.stringify({ pins: wanted }, null, 2)}\n`);
      const now = await this.read();
      if (isSame(now, [...change(now)]) || attempt === MAX_ATTEMPTS) return now;
    }
  }
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one) => b.includes(one));
}

function pinsIn(text: string): readonly string[] | undefined {
  try {
    const document: unknown = JSON.parse(text);
    const pins = (document as { pins?: unknown } | null)?.pins;
    return Array.isArray(pins) && pins.every((pin) => typeof pin === 'string') ? pins : undefined;
  } catch {
    return undefined;
  }
}
