import type { Readable } from 'node:stream';
import { Changes } from '../changes.ts';
import type { Logger } from '../logger.ts';
import type { ReadPurpose } from './archive-store.ts';
import { Holds } from './holds.ts';
import { LastUses } from './last-uses.ts';
import { type Room, unlimitedRoom } from './room.ts';
import type { UseMarkers } from './use-markers.ts';

/** What stores tell whoever keeps house. One for all stores of a data directory. */
export interface Keeping {
  readonly room: Room;
  readonly uses: LastUses;
  readonly holds: Holds;
  readonly changes: Changes;
}

/** Nobody keeps house: there is no limit, and what is used is not written down. */
export function freeKeeping(deps: { directory: string; markers?: UseMarkers | undefined; logger: Logger }): Keeping {
  return {
    room: unlimitedRoom,
    uses: new LastUses({ ...deps, isWritten: false }),
    holds: new Holds(),
    changes: new Changes(),
  };
}

/** Notes that a file is used, if it is read for that, and holds it until the stream is closed. */
export function reading<T extends Readable>(
  { uses, holds }: Keeping,
  path: string,
  { stream, purpose }: { readonly stream: T; readonly purpose: ReadPurpose },
): T {
  if (purpose === 'use') uses.note(path);
  stream.once('close', holds.hold(path));
  return stream;
}
