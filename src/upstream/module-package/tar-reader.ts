import { ByteReader } from './byte-reader.ts';
import type { FileTree } from './file-tree.ts';
import { BLOCK_BYTES, paddingOf, readHeader, readPax, type TarHeader, textOf } from './tar-format.ts';
import { quoted } from './tree-path.ts';

/** Of one extended header: paths and link targets. Bytes. */
const MAX_EXTENDED_BYTES = 1024 * 1024;
/** All extended headers together, for each entry that is allowed: a few blocks. Bytes. */
const EXTENDED_BYTES_PER_ENTRY = 8 * 1024;
/** What may follow the end: tar fills up its last record, which is of 10 KiB unless told otherwise. Bytes. */
const MAX_PADDING_BYTES = 8 * 1024 * 1024;
const OWNER_EXECUTES = 0o100;
const CONTENT_PIECE_BYTES = 1024 * 1024;

const UNSUPPORTED: Readonly<Record<string, string>> = {
  3: 'a character device',
  4: 'a block device',
  6: 'a named pipe',
  S: 'a sparse file',
};

/** Where entries go. */
export type TarEntries = Pick<FileTree, 'limits' | 'addDirectory' | 'addFile' | 'addHardLink' | 'addLink' | 'refuse'>;

/** What extended headers say of the next entry. */
interface Extension {
  path?: Buffer | undefined;
  linkTarget?: Buffer | undefined;
  size?: number;
}

/**
 * Reads an unpacked tar archive into a tree: ustar, pax (with the global header that `git archive` writes) and GNU's
 * long names. Only as much is read at a time as can be put away.
 *
 * Strict: what is damaged, cut short or without an end is an error, never a shorter package. Errors of `source` pass.
 *
 * @throws UpstreamInvalid, and whatever the tree throws
 */
export async function readTar(source: AsyncIterable<Uint8Array>, tree: TarEntries): Promise<void> {
  const reader = new ByteReader(source);
  try {
    await new TarReading(reader, tree).run();
  } finally {
    await reader.close();
  }
}

class TarReading {
  readonly #reader: ByteReader;
  readonly #tree: TarEntries;
  #next: Extension = {};
  #extendedBytes = 0;

  constructor(reader: ByteReader, tree: TarEntries) {
    this.#reader = reader;
    this.#tree = tree;
  }

  async run(): Promise<void> {
    for (;;) {
      const header = await this.#header();
      if (!header) break;
      await this.#entry(header);
    }
    // A second block of zeros belongs to the end; without any end at all the archive was cut between two entries.
    const second = await this.#reader.take(BLOCK_BYTES);
    if (second.length > 0 && second.some((byte) => byte !== 0)) throw this.#damaged('something after its end');
    let padding = 0;
    for (;;) {
      const piece = await this.#reader.some(MAX_PADDING_BYTES);
      if (!piece) return;
      padding += piece.length;
      if (padding > MAX_PADDING_BYTES) throw this.#damaged('too much after its end');
    }
  }

  async #header(): Promise<TarHeader | undefined> {
    const block = await this.#reader.take(BLOCK_BYTES);
    if (block.length < BLOCK_BYTES) throw this.#cut();
    return this.#strict(() => readHeader(block));
  }

  async #entry(header: TarHeader): Promise<void> {
    switch (header.type) {
      // Like the clients: what it says of all entries is not applied to any. git writes the commit there.
      case 'g':
        await this.#extended(header);
        return;
      case 'x':
        this.#extend(await this.#extended(header));
        return;
      case 'L':
        this.#next.path = withoutEnd(await this.#extended(header));
        return;
      case 'K':
        this.#next.linkTarget = withoutEnd(await this.#extended(header));
        return;
      default:
    }
    const { path: longPath, linkTarget: longTarget, size = header.size } = this.#next;
    this.#next = {};
    const path = textOf(longPath ?? header.path);
    const linkTarget = textOf(longTarget ?? header.linkTarget);
    if (path === '') throw this.#damaged('an entry without a name');
    switch (header.type) {
      case '0':
      case '7':
        // Before there was a type for directories.
        if (path.endsWith('/')) this.#tree.addDirectory(path);
        else await this.#file(path, (header.mode & OWNER_EXECUTES) !== 0, size);
        return;
      case '1':
        this.#tree.addHardLink(path, linkTarget);
        return;
      case '2':
        this.#tree.addLink(path, linkTarget);
        return;
      case '5':
        this.#tree.addDirectory(path);
        return;
      default:
        throw this.#tree.refuse(
          `has an entry ${quoted(path)} in a package that is ${UNSUPPORTED[header.type] ?? `of the unknown type ${quoted(header.type)}`}`,
        );
    }
  }

  async #file(path: string, executable: boolean, size: number): Promise<void> {
    await this.#tree.addFile(path, { executable, size }, this.#content(size));
    const padding = paddingOf(size);
    if ((await this.#reader.take(padding)).length < padding) throw this.#cut();
  }

  async *#content(size: number): AsyncGenerator<Uint8Array> {
    for (let missing = size; missing > 0; ) {
      const piece = await this.#reader.some(Math.min(missing, CONTENT_PIECE_BYTES));
      if (!piece) throw this.#cut();
      missing -= piece.length;
      yield piece;
    }
  }

  async #extended({ size }: TarHeader): Promise<Buffer> {
    const allowed = this.#tree.limits.files * EXTENDED_BYTES_PER_ENTRY + MAX_EXTENDED_BYTES;
    this.#extendedBytes += size + BLOCK_BYTES;
    if (size > MAX_EXTENDED_BYTES || this.#extendedBytes > allowed) {
      throw this.#damaged('extended headers that are too large');
    }
    const whole = size + paddingOf(size);
    const body = await this.#reader.take(whole);
    if (body.length < whole) throw this.#cut();
    return body.subarray(0, size);
  }

  #extend(body: Buffer): void {
    const records = this.#strict(() => readPax(body));
    for (const [key, value] of records) {
      if (key.startsWith('GNU.sparse.')) throw this.#tree.refuse(`has a package with ${UNSUPPORTED['S']} in it`);
      // Empty takes back what was said before.
      if (key === 'path') this.#next.path = value.length > 0 ? value : undefined;
      if (key === 'linkpath') this.#next.linkTarget = value.length > 0 ? value : undefined;
      if (key === 'size') this.#next.size = this.#strict(() => sizeIn(value));
    }
  }

  #strict<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      throw this.#damaged((error as Error).message);
    }
  }

  #damaged(how: string): Error {
    return this.#tree.refuse(`has an archive that is damaged: there is ${how}`);
  }

  #cut(): Error {
    return this.#tree.refuse('has an archive that is cut short');
  }
}

/** GNU tar ends long names with a zero. */
function withoutEnd(name: Buffer): Buffer {
  const end = name.indexOf(0);
  return end < 0 ? name : name.subarray(0, end);
}

function sizeIn(value: Buffer): number {
  const text = value.toString('latin1');
  const size = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(size)) throw new Error('an extended header with an impossible size');
  return size;
}
