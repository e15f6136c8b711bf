import { setTimeout as delay } from 'node:timers/promises';
import type { ModuleRelease } from '../../address/module.ts';
import { StorageFailed } from '../../errors.ts';
import { demandFirst } from '../first-package.ts';
import { paths } from '../keys.ts';
import type { MadePackage, PackageRecord } from '../module-store.ts';
import { packageRecordIn, packageRecordText } from '../package-record.ts';
import type { ObjectLook } from './bucket.ts';
import type { BucketDeps } from './bucket-deps.ts';
import type { SmallObjects } from './small-objects.ts';
import { Upload } from './upload.ts';

/** Others that store or remove the same package meanwhile are given way to so often. */
const TRIES = 3;
/** Another replica may be between its package and its record, in milliseconds. */
const RECORD_PATIENCE_MS = 3_000;
const LOOK_AGAIN_MS = 200;
/** What has been there for longer was left without a record by a process that died, in milliseconds; clocks may be wrong by as much. */
const SETTLED_MS = 10_000;

interface Found {
  readonly record: PackageRecord | undefined;
  /** Of the record, be it readable or not. */
  readonly etag: string | undefined;
  readonly look: ObjectLook | undefined;
}

/**
 * Puts a package, then its record, where there is none, or where the same one is. When another replica was first, its
 * record is what counts, and is returned.
 * @throws StorageFailed; IntegrityMismatch when another package is recorded
 */
export async function publishPackage(
  { bucket, sending: inTurn, logger, objects }: BucketDeps & { objects: SmallObjects },
  release: ModuleRelease,
  { file, ...record }: MadePackage,
): Promise<PackageRecord> {
  const [key, recordKey] = [paths.modulePackage(release), paths.moduleRecord(release)];

  const latest = async (): Promise<Found> => {
    const seen = await objects.latest(recordKey);
    const known = seen && packageRecordIn(seen.content.toString());
    return { record: known, etag: seen?.etag, look: await bucket.head(key) };
  };

  const settled = async (): Promise<Found> => {
    for (const until = performance.now() + RECORD_PATIENCE_MS; ; await delay(LOOK_AGAIN_MS)) {
      const found = await latest();
      const isYoung = found.look !== undefined && Date.now() - found.look.mtime.getTime() < SETTLED_MS;
      if (found.record || !isYoung || performance.now() > until) return found;
    }
  };

  for (let tried = 0; tried < TRIES; tried += 1) {
    const { record: first, etag, look } = await settled();
    demandFirst(release, first, record);
    // The same was put meanwhile.
    if (tried > 0 && first && look?.size === first.size) return first;
    const upload = new Upload({ bucket, key, path: file, inTurn, logger });
    const isPlaced = (await upload.finish(record.size, look ? { etag: look.etag } : 'absent')) === 'written';
    if (!isPlaced) continue;
    const written = await objects.put(recordKey, packageRecordText(record), etag === undefined ? 'absent' : { etag });
    if (written === 'written') return record;
    const { record: theirs } = await latest();
    // It must never stand beside bytes that it does not speak of, which could have the same size.
    if (theirs?.sha256 !== record.sha256) await bucket.remove(key);
  }
  throw new StorageFailed('storing a package', new Error('others store and remove it at the same time'));
}
