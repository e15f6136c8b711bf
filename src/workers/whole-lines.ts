import type { Readable, Writable } from 'node:stream';

const LINE_BREAK = 10;
/** Nobody writes a line of this many bytes: it is passed on in pieces then. */
const MAX_HELD_BYTES = 1_048_576;

/** Passes on what several processes write, line by line: pipes would mingle longer ones. */
export function passLines(from: Readable, to: Writable): void {
  let held: Buffer[] = [];
  let heldBytes = 0;
  const flush = () => {
    if (heldBytes > 0) to.write(Buffer.concat(held));
    held = [];
    heldBytes = 0;
  };
  const hold = (bytes: Buffer) => {
    if (bytes.length === 0) return;
    held.push(bytes);
    heldBytes += bytes.length;
  };
  from.on('data', (chunk: Buffer) => {
    const end = chunk.lastIndexOf(LINE_BREAK) + 1;
    hold(chunk.subarray(0, end));
    if (end > 0 || heldBytes > MAX_HELD_BYTES) flush();
    hold(chunk.subarray(end));
  });
  from.once('close', flush);
  from.on('error', flush);
}
