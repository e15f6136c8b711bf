import { join } from 'node:path';
import { StorageFailed } from '../errors.ts';
import { paths } from './keys.ts';
import type { PartialFiles } from './partial-files.ts';
import { readIfFile } from './storage-errors.ts';

/** Another process may replace the file between our reading and our writing; then the change is made once more. */
const MAX_ATTEMPTS = 5;

/** Port: what is never evicted, as texts. */
export interface PinStore {
  /** As it is now. @throws StorageFailed, also when what is there is no list of pins: that is not the same as none */
  read(): Promise<readonly string[]>;
  /** Durable when it resolves. @param change must give the same again when it is given its own result. @throws StorageFailed */
  change(change: (pins: readonly string[]) => readonly string[]): Promise<readonly string[]>;
}

/** `pins.json`: what is never evicted, as texts. It is read anew each time, so that processes may share it. */
export class PinFile implements PinStore {
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
    return content === undefined ? [] : pinsIn(content.toString(), 'the data directory');
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
      await this.#partials.write(this.#file, pinsText(wanted));
      const now = await this.read();
      if (isSame(now, [...change(now)]) || attempt === MAX_ATTEMPTS) return now;
    }
  }
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one) => b.includes(one));
}

/** `pins.json`, as people can read it. */
export function pinsText(pins: readonly string[]): string {
  return `${JSON.stringify({ pins }, null, 2)}\n`;
}

/** @param place where it lies. @throws StorageFailed when it is no list of pins */
export function pinsIn(text: string, place: string): readonly string[] {
  try {
    const document: unknown = JSON.parse(text);
    const pins = (document as { pins?: unknown } | null)?.pins;
    if (Array.isArray(pins) && pins.every((pin) => typeof pin === 'string')) return pins;
  } catch {
    // Falls through: damaged and nonsensical are the same here.
  }
  throw new StorageFailed('reading the pins', new Error('pins.json is no list of pins'), {
    hint: `mend pins.json in ${place}, or remove it; nothing is evicted or purged before`,
  });
}
