import type { Writable } from 'node:stream';

/** Of a shell's: ended because nobody reads any more (128 + SIGPIPE). */
const NOBODY_READS = 141;

/**
 * Lets a command end quietly once nobody reads what it prints any more, as in `larder ls | head`.
 * @param isService tells of commands that work for others than who reads what they print: those go on
 */
export function endWithReaders(streams: readonly Writable[], isService: () => boolean): void {
  for (const stream of streams) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      if (!isService()) process.exit(NOBODY_READS);
    });
  }
}
