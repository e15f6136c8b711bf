import { setTimeout as delay } from 'node:timers/promises';
import type { Sha256 } from '../../address/hash.ts';
import { IntegrityMismatch, StorageFailed } from '../../errors.ts';
import type { StoredArchive } from '../archive-store.ts';
import type { Condition, Written } from './bucket-requests.ts';

/** How long whoever was second waits for the record of whoever was first, in milliseconds. */
const RECORD_PATIENCE_MS = 3_000;
const LOOK_AGAIN_MS = 200;

/**
 * Puts a verified archive under its key unless another replica was first: then theirs is taken, which must be the same.
 * @throws StorageFailed; IntegrityMismatch when theirs is another one
 */
export async function publishOnce(deps: {
  sha256: Sha256;
  finish: (condition: Condition) => Promise<Written>;
  /** Of what was written. */
  record: () => Promise<StoredArchive>;
  /** What is there: recorded, without a record, or not at all. */
  look: () => Promise<StoredArchive | 'unrecorded' | undefined>;
  /** What is there without a record, compared; `undefined` when it was another one, and is discarded. */
  adopt: () => Promise<StoredArchive | undefined>;
}): Promise<StoredArchive> {
  const { sha256, finish, record } = deps;
  if ((await finish('absent')) === 'written') return record();
  const theirs = await firstComer(deps);
  if (theirs?.sha256 === sha256) return theirs;
  if (theirs) {
    throw new IntegrityMismatch(
      `another replica has stored ${theirs.archive} with the SHA-256 ${theirs.sha256}, and not ${sha256}`,
    );
  }
  if ((await finish('absent')) === 'written') return record();
  throw new StorageFailed('storing an archive', new Error('others store and remove it at the same time'));
}

async function firstComer({
  look,
  adopt,
}: {
  look: () => Promise<StoredArchive | 'unrecorded' | undefined>;
  adopt: () => Promise<StoredArchive | undefined>;
}): Promise<StoredArchive | undefined> {
  const until = performance.now() + RECORD_PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found !== 'unrecorded') return found;
    if (performance.now() > until) return adopt();
    await delay(LOOK_AGAIN_MS);
  }
}
