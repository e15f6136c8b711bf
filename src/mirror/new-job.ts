import { randomBytes } from 'node:crypto';
import { kindOf } from '../configuration/file-kinds.ts';
import { type Job, type JobHead, type JobOwner, totalsOf } from './job.ts';
import { wishPieces } from './job-store.ts';
import type { Wish } from './wanted.ts';

/** A job is written down every second, and jobs are listed: names of files, so many of them. */
const MAX_FILES_SHOWN = 20;

/** A job that is to be begun, and its wish as it is to be written down. */
export function newJob(wish: Wish, by: string, owner: JobOwner): { head: JobHead; pieces: readonly string[] } {
  const pieces = wishPieces(withoutUnread(wish));
  const head: JobHead = {
    id: newId(),
    state: 'running',
    by,
    createdAt: new Date().toISOString(),
    wish: {
      files: wish.files.slice(0, MAX_FILES_SHOWN).map(({ path }) => path),
      count: wish.files.length,
      platforms: wish.platforms.map(String),
      client: wish.client,
      pieces: pieces.length,
    },
    isPlanned: false,
    totals: totalsOf([]),
    bytes: 0,
    sequence: 0,
    owner,
  };
  return { head, pieces };
}

/** A job that has ended, to be run again: what failed and what was not done is open. */
export function jobAgain({ head, items, findings }: Job, owner: JobOwner): Job {
  // What is not known to be there is looked for anew: there may be a version by now.
  // Of items that were lost nothing is known but that they were there.
  const isWhole = items.length === head.totals.items;
  const isPlanned = head.isPlanned && isWhole && !items.some(({ kind, outcome }) => !kind && outcome === 'failed');
  const left = items.map(({ name, kind, ...rest }) =>
    rest.outcome === 'failed' ? { name, kind } : { name, kind, ...rest },
  );
  return {
    head: { ...head, state: 'running', endedAt: undefined, reason: undefined, isPlanned, owner },
    items: left,
    findings,
  };
}

/** Times of day that people can read, and that sort. */
function newId(): string {
  const time = new Date()
    .toISOString()
    .replace(/[-:]|\..*/g, '')
    .replace('T', '-');
  return `${time}-${randomBytes(3).toString('hex')}`;
}

/** What is not read is not kept either: it may hold secrets. That it was there is told all the same. */
function withoutUnread(wish: Wish): Wish {
  const files = wish.files.map((file) => (kindOf(file.path) === 'other' ? { ...file, text: '' } : file));
  return { ...wish, files };
}
