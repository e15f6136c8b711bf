import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Sha256 } from '../../src/address/hash.ts';
import type { ArchiveSource, OpenedSource } from '../../src/cache/readable-archive.ts';
import { sha256Hex } from '../contract/archive-store.ts';

/** Plays one answer: yields what upstream sends of `rest`, waits where the test wants it to, throws for a cut. */
export type Script = (rest: Buffer, opening: number) => AsyncIterable<Buffer>;

/** A source whose every opening is played by a script; counts loads and openings. */
export class ScriptedSource {
  readonly bytes: Buffer;
  /** Where each opening was asked to begin. */
  readonly offsets: number[] = [];
  loads = 0;
  promised: Sha256;
  /** What its answers say of the size. */
  size: number | undefined;
  canResume = true;
  release: ArchiveSource['release'];
  readonly #script: Script;

  constructor(bytes: number | Buffer, script: Script) {
    this.bytes = typeof bytes === 'number' ? randomBytes(bytes) : bytes;
    this.promised = sha256Hex(this.bytes);
    this.size = this.bytes.length;
    this.#script = script;
  }

  readonly load = async (): Promise<ArchiveSource> => {
    this.loads += 1;
    const { promised: sha256, release } = this;
    return { sha256, size: undefined, release, open: (offset, signal) => this.#open(offset, signal) };
  };

  async #open(asked: number, signal: AbortSignal): Promise<OpenedSource> {
    signal.throwIfAborted();
    this.offsets.push(asked);
    const offset = this.canResume ? asked : 0;
    const body = Readable.from(this.#script(this.bytes.subarray(offset), this.offsets.length));
    return { body, offset, size: this.size, host: 'releases.example.com' };
  }
}

export async function* inChunks(bytes: Buffer, size = 64 * 1024): AsyncGenerator<Buffer> {
  for (let offset = 0; offset < bytes.length; offset += size) yield bytes.subarray(offset, offset + size);
}

/** Sends all but `withheld` bytes, then waits until the gate opens. */
export function gated(gate: Promise<void>, withheld: number): Script {
  return async function* (rest) {
    yield* inChunks(rest.subarray(0, rest.length - withheld));
    await gate;
    yield* inChunks(rest.subarray(rest.length - withheld));
  };
}

export function reset(): Error {
  return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
}

export function gate(): { readonly passed: Promise<void>; open(): void } {
  let open = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}
