import type { Changes } from './changes.ts';
import type { Closers } from './closers.ts';
import type { Config } from './config.ts';
import type { Logger } from './logger.ts';
import { DiskUse } from './mirror/disk-use.ts';
import { Pins } from './mirror/pins.ts';
import { Quota } from './mirror/quota.ts';
import type { Storage } from './storage.ts';
import { Holds } from './store/holds.ts';
import type { Keeping } from './store/keeping.ts';
import { LastUses } from './store/last-uses.ts';

/** What keeps the data directory in order. */
export interface HouseKeeping {
  readonly keeping: Keeping;
  readonly quota: Quota;
  readonly pins: Pins;
  readonly quarantine: Storage['quarantine'];
}

/** The quota begins once it is given the stores. @throws StorageFailed */
export async function assembleHouseKeeping(
  { data: directory, limits }: Config,
  {
    storage,
    isSealed,
    changes,
    opened,
    logger,
  }: { storage: Storage; isSealed: () => boolean; changes: Changes; opened: Closers; logger: Logger },
): Promise<HouseKeeping> {
  const uses = new LastUses({ directory, markers: storage.markers, logger });
  opened.add('last uses', () => uses.close());
  const holds = new Holds();
  const pins = new Pins({ file: storage.pins });
  const use = new DiskUse({ directory, uses });
  const quota = new Quota({ limit: limits.disk, use, holds, uses, pins, isSealed, logger });
  opened.add('quota', () => quota.close());
  return {
    keeping: { room: quota, uses, holds, changes },
    quota,
    pins,
    quarantine: storage.quarantine,
  };
}
