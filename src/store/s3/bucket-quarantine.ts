import { basename } from 'node:path/posix';
import { paths } from '../keys.ts';
import { newQuarantineId, noteIn, noteOf, type Quarantined, type QuarantineNote } from '../quarantine.ts';
import { pathOf, type Subject } from '../room.ts';
import type { Bucket } from './bucket.ts';

const NOTE = 'note.json';

/** Damaged objects that are kept, out of everybody's way, for as long as nothing has taken their place. */
export class BucketQuarantine {
  readonly #bucket: Bucket;

  constructor({ bucket }: { bucket: Bucket }) {
    this.#bucket = bucket;
  }

  /** Moves the object of an archive or package there. @returns its id; `undefined` when it was not there. @throws StorageFailed */
  async take(subject: Subject, about: Pick<QuarantineNote, 'size' | 'sha256' | 'reason'>): Promise<string | undefined> {
    const note = noteOf(subject, about);
    const id = newQuarantineId(note);
    const place = `${paths.quarantine}/${id}`;
    const from = pathOf(subject);
    const isCopied = await this.#bucket.copy(from, `${place}/${basename(from)}`);
    if (!isCopied) return undefined;
    await this.#bucket.write(`${place}/${NOTE}`, `${JSON.stringify(note, null, 2)}\n`);
    await this.#bucket.remove(from);
    return id;
  }

  /** By when they were put there. What has no readable note is passed over. @throws StorageFailed */
  async list(): Promise<readonly Quarantined[]> {
    const names = new Map<string, string[]>();
    for await (const { key } of this.#bucket.list(`${paths.quarantine}/`)) {
      const [id = '', name = ''] = key.slice(paths.quarantine.length + 1).split('/');
      names.set(id, [...(names.get(id) ?? []), name]);
    }
    const found: Quarantined[] = [];
    for (const [id, files] of names) {
      const file = files.find((name) => name !== NOTE);
      const text = await this.#bucket.readSmall(`${paths.quarantine}/${id}/${NOTE}`);
      const note = text && text !== 'unchanged' && noteIn(text.content.toString());
      if (note && file !== undefined) found.push({ id, file, ...note });
    }
    return found;
  }

  /** Something sound has taken its place. @throws StorageFailed */
  async remove(id: string): Promise<void> {
    for await (const { key } of this.#bucket.list(`${paths.quarantine}/${id}/`)) await this.#bucket.remove(key);
  }
}
