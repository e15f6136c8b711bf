import type { Readable } from 'node:stream';

/** The bytes of an archive. Its chunks are whole reads of a file. */
export interface ArchiveBody extends Readable {
  /**
   * Takes a chunk back that has been sent: its memory is then read into again. Whoever sends many chunks should do so: what
   * is left to the garbage collector is collected late, and makes it go through everything else again and again. Whoever
   * keeps chunks must not.
   */
  release?(chunk: Buffer): void;
}
