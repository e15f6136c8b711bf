import { ARCHIVE_TARGETS } from './archive-targets.ts';
import { HTTP_TARGETS } from './http-targets.ts';
import type { FuzzTarget } from './target.ts';
import { TEXT_TARGETS } from './text-targets.ts';

/** Everything of Larder that reads what strangers write. */
export const TARGETS: readonly FuzzTarget[] = [...HTTP_TARGETS, ...TEXT_TARGETS, ...ARCHIVE_TARGETS];
