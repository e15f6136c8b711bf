import type { LimitFunction } from 'p-limit';
import type { Logger } from '../../logger.ts';
import type { Keeping } from '../keeping.ts';
import type { PartialFiles } from '../partial-files.ts';
import type { Bucket } from './bucket.ts';

/** What both stores in a bucket are made of. */
export interface BucketDeps {
  readonly bucket: Bucket;
  /** Where things are while they arrive or are made: on this machine. */
  readonly partials: PartialFiles;
  /** Of it, uses, holds and changes are told. A bucket has no limit. */
  readonly keeping: Keeping;
  /** Parts that are sent at a time, by both together. */
  readonly sending: LimitFunction;
  /** Whether clients are to be sent to the bucket for what is stored. */
  readonly redirect: boolean;
  readonly logger: Logger;
}
