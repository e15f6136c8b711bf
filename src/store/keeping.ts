import type { Readable } from 'node:stream';
import { Changes } from '../changes.ts';
import type { Logger } from '../logger.ts';
import { Holds } from './holds.ts';
import { LastUses } from './last-uses.ts';
import { type Room, unlimitedRoom } from './room.ts';

/** What stores tell whoever keeps house. One for all stores of a data directory. */
export interface Keeping {
  readonly room: Room;
  readonly uses: LastUses;
  readonly holds: Holds;
  readonly changes: Changes;
}

/** Nobody keeps house: there is no limit, and what is used is not written down. */
export function freeKeeping(deps: { directory: string; logger: Logger }): Keeping {
  return {
    room: unlimitedRoom,
    uses: new LastUses({ ...deps, isWritten: false }),
    holds: new Holds(),
    changes: new Changes(),
  };
}

/** Notes that a file is used, and holds it until the stream is closed. */
export function inUse<T extends Readable>({ uses, holds }: Keeping, path: string, stream: T): T {
  uses.note(path);
  stream.once('close', holds.hold(path));
  return stream;
}
