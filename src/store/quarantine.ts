import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { ProviderArchive } from '../address/archive.ts';
import { paths } from './keys.ts';
import type { PartialFiles } from './partial-files.ts';
import { pathOf, type Subject } from './room.ts';
import { ifPresent, ofStorage, readIfFile } from './storage-errors.ts';

const NOTE = 'note.json';

/** Why something was put aside. JSON-compatible. */
export interface QuarantineNote {
  /** HOST/NAMESPACE/TYPE of a provider, HOST/NAMESPACE/NAME/SYSTEM of a module. */
  readonly address: string;
  readonly version: string;
  /** Absent for modules. */
  readonly platform?: string;
  /** Bytes. */
  readonly size: number;
  /** What its SHA-256 should be. */
  readonly sha256: string;
  /** In words. */
  readonly reason: string;
  /** When it was put aside, in RFC 3339. */
  readonly at: string;
}

export interface Quarantined extends QuarantineNote {
  /** Name of its directory below `quarantine/`. */
  readonly id: string;
  readonly file: string;
}

/** Damaged files that are kept, out of everybody's way, for as long as nothing has taken their place. */
export class Quarantine {
  readonly #directory: string;
  readonly #partials: PartialFiles;

  constructor(deps: { directory: string; partials: PartialFiles }) {
    this.#directory = deps.directory;
    this.#partials = deps.partials;
  }

  /** Moves the file of an archive or package there. @returns its id; `undefined` when it was not there. @throws StorageFailed */
  async take(
    subject: Subject,
    { size, sha256, reason }: Pick<QuarantineNote, 'size' | 'sha256' | 'reason'>,
  ): Promise<string | undefined> {
    const note = noteOf(subject, { size, sha256, reason });
    const id = newQuarantineId(note);
    const place = join(this.#directory, paths.quarantine, id);
    const from = join(this.#directory, pathOf(subject));
    await ofStorage('making a place in quarantine', mkdir(place, { recursive: true }));
    // The note first: a file without one would say nothing of itself.
    await this.#partials.write(join(place, NOTE), `${JSON.stringify(note, null, 2)}\n`);
    const moved = await ifPresent(
      'putting a damaged file into quarantine',
      rename(from, join(place, basename(from))).then(() => true),
    );
    if (moved) return id;
    await this.remove(id);
    return undefined;
  }

  /** By when they were put there. What has no readable note is passed over. @throws StorageFailed */
  async list(): Promise<readonly Quarantined[]> {
    const root = join(this.#directory, paths.quarantine);
    const ids = (await ifPresent('listing the quarantine', readdir(root))) ?? [];
    const found: Quarantined[] = [];
    for (const id of ids.sort()) {
      const text = await readIfFile('reading a note', join(root, id, NOTE));
      const names = (await ifPresent('listing the quarantine', readdir(join(root, id)))) ?? [];
      const file = names.find((name) => name !== NOTE);
      const note = text && noteIn(text.toString());
      if (note && file !== undefined) found.push({ id, file, ...note });
    }
    return found;
  }

  /** Something sound has taken its place. @throws StorageFailed */
  async remove(id: string): Promise<void> {
    await ofStorage(
      'clearing the quarantine',
      rm(join(this.#directory, paths.quarantine, id), { recursive: true, force: true }),
    );
  }
}

/** Why it is put aside, now. */
export function noteOf(
  subject: Subject,
  { size, sha256, reason }: Pick<QuarantineNote, 'size' | 'sha256' | 'reason'>,
): QuarantineNote {
  const isArchive = subject instanceof ProviderArchive;
  return {
    address: String(isArchive ? subject.provider : subject.module),
    version: subject.version.toString(),
    ...(isArchive && { platform: subject.platform.toString() }),
    size,
    sha256,
    reason,
    at: new Date().toISOString(),
  };
}

/** Ids are in the order of their time. */
export function newQuarantineId({ at }: QuarantineNote): string {
  return `${at.replace(/[-:]|\.\d+/g, '')}-${randomUUID().slice(0, 8)}`;
}

/** `undefined` for what is no such note. */
export function noteIn(text: string): QuarantineNote | undefined {
  try {
    const note = JSON.parse(text) as QuarantineNote;
    return typeof note?.address === 'string' && typeof note.version === 'string' ? note : undefined;
  } catch {
    return undefined;
  }
}
