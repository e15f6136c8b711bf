import { UpstreamInvalid } from '../../errors.ts';
import type { GitObjects } from './git-objects.ts';
import type { GitProcess } from './git-process.ts';

/** Where the files of a commit go. Each of them may refuse what it is given. */
export interface TreeTarget {
  addFile(
    path: string,
    details: { executable: boolean; size: number },
    content: AsyncIterable<Uint8Array>,
  ): Promise<unknown>;
  addLink(path: string, target: string): unknown;
  addDirectory(path: string): unknown;
}

/** A commit of another repository that stands for a directory. */
export interface Gitlink {
  readonly path: string;
  readonly commit: string;
}

/** Of one name with all its directories: systems take no longer ones. */
const MAX_ENTRY_BYTES = 16 * 1024;
const MAX_LINK_BYTES = 4_096;
const MAX_GITLINKS = 1_000;

const EXECUTABLE = '100755';
const LINK = '120000';
const GITLINK = '160000';

/**
 * Puts the files of a commit into a tree, below `prefix` (empty, or with a slash at its end): content as it is in the
 * repository, without line endings, keywords or filters of .gitattributes. Files of Git LFS are the pointers to them.
 *
 * @returns the places where other repositories belong
 * @throws UpstreamInvalid for entries that no client could check out; whatever the tree throws; GitExit
 */
export async function readCommit(
  objects: GitObjects,
  commit: string,
  tree: TreeTarget,
  { prefix, host }: { prefix: string; host: string },
): Promise<Gitlink[]> {
  const gitlinks: Gitlink[] = [];
  const listing = objects.start('ls-tree', '-r', '-z', '--full-tree', commit);
  let blobs: BlobReader | undefined;
  try {
    listing.stdin.end();
    blobs = new BlobReader(objects.start('cat-file', '--batch'));
    for await (const line of entries(listing.stdout, host)) {
      const { mode, object, path } = parseEntry(line, host);
      if (mode === GITLINK) {
        if (gitlinks.push({ path, commit: object }) > MAX_GITLINKS) {
          throw new UpstreamInvalid(host, `has a repository with more than ${MAX_GITLINKS} submodules`);
        }
      } else if (mode === LINK) {
        const { content } = await blobs.open(object);
        const target = await linkTarget(content, path, host);
        await tree.addLink(prefix + path, target);
      } else {
        const { size, content } = await blobs.open(object);
        await tree.addFile(prefix + path, { executable: mode === EXECUTABLE, size }, content);
      }
    }
    await listing.ended;
    await blobs.finish();
    return gitlinks;
  } finally {
    await Promise.all([listing.close(), blobs?.close()]);
  }
}

/** `MODE TYPE OBJECT<tab>PATH` */
function parseEntry(line: Buffer, host: string): { mode: string; object: string; path: string } {
  const tab = line.indexOf('\t');
  const [mode = '', , object = ''] = line.toString('latin1', 0, tab).split(' ');
  const name = line.subarray(tab + 1);
  const path = name.toString('utf8');
  if (!Buffer.from(path).equals(name)) {
    throw new UpstreamInvalid(host, `has a file whose name is not UTF-8: ${JSON.stringify(path.slice(0, 200))}`);
  }
  if (path.split('/').some((part) => ['', '.', '..', '.git'].includes(part.toLowerCase()))) {
    throw new UpstreamInvalid(host, `has a file that cannot be checked out: ${JSON.stringify(path.slice(0, 200))}`);
  }
  return { mode, object, path };
}

/** Splits what ls-tree prints at its zero bytes, as it comes: a tree may unfold into more than memory holds. */
async function* entries(output: AsyncIterable<Buffer>, host: string): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of output) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    for (let end = bytes.indexOf(0); end >= 0; end = bytes.indexOf(0, at)) {
      yield bytes.subarray(at, end);
      at = end + 1;
    }
    rest = bytes.subarray(at);
    if (rest.length > MAX_ENTRY_BYTES) throw new UpstreamInvalid(host, 'has a file whose name is far too long');
  }
}

async function linkTarget(content: AsyncIterable<Uint8Array>, path: string, host: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of content) {
    size += chunk.length;
    if (size > MAX_LINK_BYTES) break;
    chunks.push(chunk);
  }
  if (size === 0 || size > MAX_LINK_BYTES) {
    throw new UpstreamInvalid(host, `has a link that leads nowhere: ${JSON.stringify(path.slice(0, 200))}`);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** `git cat-file --batch`: asked for an object, it answers `OBJECT TYPE SIZE`, a line break, the content, a line break. */
class BlobReader {
  readonly #git: GitProcess;
  readonly #output: AsyncIterator<Buffer>;
  #buffered: Buffer = Buffer.alloc(0);
  #reading = false;

  constructor(git: GitProcess) {
    this.#git = git;
    this.#output = git.stdout[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  /** The content is to be read to its end before the next one is opened. */
  async open(object: string): Promise<{ size: number; content: AsyncIterable<Buffer> }> {
    if (this.#reading) throw new Error('the file before this one was not read to its end');
    this.#reading = true;
    this.#git.stdin.write(`${object}\n`);
    const [, type, length] = (await this.#line()).split(' ');
    if (type !== 'blob') throw new Error(`git answered ${type} where a file was asked for`);
    const size = Number(length);
    return { size, content: this.#content(size) };
  }

  async *#content(size: number): AsyncGenerator<Buffer, void> {
    for (let left = size; left > 0; ) {
      const piece = await this.#piece(left);
      left -= piece.length;
      yield piece;
    }
    await this.#piece(1);
    this.#reading = false;
  }

  async finish(): Promise<void> {
    this.#git.stdin.end();
    await this.#git.ended;
  }

  close(): Promise<void> {
    return this.#git.close();
  }

  /** Up to `most` bytes, at least one. */
  async #piece(most: number): Promise<Buffer> {
    if (this.#buffered.length === 0) await this.#more();
    const piece = this.#buffered.subarray(0, most);
    this.#buffered = this.#buffered.subarray(piece.length);
    return piece;
  }

  async #line(): Promise<string> {
    let end = this.#buffered.indexOf('\n');
    while (end < 0) {
      await this.#more();
      end = this.#buffered.indexOf('\n');
    }
    const line = this.#buffered.toString('latin1', 0, end);
    this.#buffered = this.#buffered.subarray(end + 1);
    return line;
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#output.next();
    if (done) {
      await this.#git.ended;
      throw new Error('git stopped in the middle of a file');
    }
    this.#buffered = this.#buffered.length === 0 ? value : Buffer.concat([this.#buffered, value]);
  }
}
