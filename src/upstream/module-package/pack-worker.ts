import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { parentPort } from 'node:worker_threads';
import { Gzip } from 'fflate';
import { paddingOf } from './tar-format.ts';
import { TAR_END, type TarMember, tarHeader } from './tar-writer.ts';

/** One package to write. */
export interface PackJob {
  /** Where contents are and the package goes. */
  readonly directory: string;
  readonly file: string;
  readonly members: readonly PackMember[];
}

export interface PackMember extends TarMember {
  /** In the directory; not looked at for what has no bytes. */
  readonly content: string;
  /** Where in it the bytes begin. */
  readonly offset: number;
}

export type PackOutcome =
  | { readonly sha256: string; readonly size: number }
  /** What the file system said, and its code. */
  | { readonly reason: string; readonly code: string | undefined };

/**
 * All of these go into the bytes that come out: other replicas, and this one next year, have to make the same. They
 * are the ones of fflate because zlib's bytes differ with how Node was built and with the processor.
 */
const GZIP = { level: 6, mem: 8, mtime: 0 } as const;
const CHUNK_BYTES = 64 * 1024;

/** Gathers what is written into chunks of one size, and packs these. */
class PackageWriter {
  readonly #fd: number;
  readonly #gzip: Gzip;
  readonly #hash = createHash('sha256');
  readonly #chunk = Buffer.alloc(CHUNK_BYTES);
  #filled = 0;
  #size = 0;

  constructor(fd: number) {
    this.#fd = fd;
    this.#gzip = new Gzip(GZIP, (packed) => this.#put(packed));
  }

  write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const copied = bytes.copy(this.#chunk, this.#filled, at);
      at += copied;
      this.#advance(copied);
    }
  }

  writeZeros(count: number): void {
    this.write(Buffer.alloc(count));
  }

  writeContent(fd: number, offset: number, size: number): void {
    for (let done = 0; done < size; ) {
      const most = Math.min(size - done, CHUNK_BYTES - this.#filled);
      const read = readSync(fd, this.#chunk, this.#filled, most, offset + done);
      if (read === 0) throw new Error('a file is shorter than it was written');
      done += read;
      this.#advance(read);
    }
  }

  end(): { sha256: string; size: number } {
    this.#gzip.push(this.#chunk.subarray(0, this.#filled), true);
    return { sha256: this.#hash.digest('hex'), size: this.#size };
  }

  #advance(bytes: number): void {
    this.#filled += bytes;
    if (this.#filled < CHUNK_BYTES) return;
    this.#gzip.push(this.#chunk);
    this.#filled = 0;
  }

  #put(packed: Uint8Array): void {
    this.#hash.update(packed);
    this.#size += packed.length;
    for (let at = 0; at < packed.length; ) at += writeSync(this.#fd, packed, at);
  }
}

/** Contents under their names, of which one is open at a time: those that follow each other mostly share it. */
class Contents {
  readonly #directory: string;
  #open: { readonly name: string; readonly fd: number } | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  descriptorOf(name: string): number {
    if (this.#open?.name !== name) {
      this.close();
      this.#open = { name, fd: openSync(join(this.#directory, name), 'r') };
    }
    return this.#open.fd;
  }

  close(): void {
    if (this.#open) closeSync(this.#open.fd);
    this.#open = undefined;
  }
}

function pack({ directory, file, members }: PackJob): PackOutcome {
  const fd = openSync(join(directory, file), 'wx');
  const contents = new Contents(directory);
  try {
    const writer = new PackageWriter(fd);
    for (const member of members) {
      writer.write(tarHeader(member));
      if (member.size === 0) continue;
      writer.writeContent(contents.descriptorOf(member.content), member.offset, member.size);
      writer.writeZeros(paddingOf(member.size));
    }
    writer.write(TAR_END);
    return writer.end();
  } finally {
    contents.close();
    closeSync(fd);
  }
}

parentPort?.on('message', (job: PackJob) => {
  let outcome: PackOutcome;
  try {
    outcome = pack(job);
  } catch (error) {
    outcome = { reason: (error as Error).message, code: (error as { code?: string }).code };
  }
  parentPort?.postMessage(outcome);
});
