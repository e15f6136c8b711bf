import { createHash } from 'node:crypto';
import { createReadStream, rmdirSync } from 'node:fs';
import { type FileHandle, link, mkdir, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { parseSha256, type Sha256 } from '../address/hash.ts';
import { IntegrityMismatch, StorageFailed } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { digestOf } from './adoption.ts';
import { paths } from './keys.ts';
import { PartialFiles } from './partial-files.ts';
import { ifPresent, ofStorage, readIfFile } from './storage-errors.ts';

/** What a file has to be. */
export interface ExpectedFile {
  /** Bytes. */
  readonly size: number;
  readonly sha256: Sha256;
}

/** Reasons for which no link can be made where a copy can. */
const NOT_LINKABLE: ReadonlySet<unknown> = new Set(['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

/** Somebody else broke off what was being read. Disks that are written to fail as StorageFailed. */
export class SourceUnreadable extends Error {
  constructor(cause: unknown) {
    super((cause as Error).message, { cause });
    this.name = 'SourceUnreadable';
  }
}

/**
 * A directory that is written for others to serve or carry away. Each file appears whole under its name, or not at all,
 * and only after it was found to be what it should be; what is there already and is that is left alone.
 */
export class ExportDirectory {
  readonly #directory: string;
  readonly #partials: PartialFiles | undefined;

  private constructor(directory: string, partials: PartialFiles | undefined) {
    this.#directory = directory;
    this.#partials = partials;
  }

  /** Makes it, unless nothing will be written. @throws StorageFailed */
  static async open(options: { directory: string; dryRun: boolean; logger: Logger }): Promise<ExportDirectory> {
    const { directory, dryRun, logger } = options;
    if (dryRun) return new ExportDirectory(directory, undefined);
    await ofStorage('making the directory', mkdir(directory, { recursive: true }));
    return new ExportDirectory(directory, await PartialFiles.open(join(directory, paths.partial), logger));
  }

  /**
   * Whether the file is there and is what it should be.
   * @param known its digest, as it was noted down when it was written: with it a look at the size does
   * @throws StorageFailed
   */
  async holds(path: string, { size, sha256 }: ExpectedFile, known: Sha256 | undefined): Promise<boolean> {
    const file = await ifPresent('looking for a file', stat(this.#pathOf(path)));
    if (!file?.isFile() || file.size !== size) return false;
    return known === sha256 || (await digestOf(this.#pathOf(path))) === sha256;
  }

  /** `undefined` when it is not there. @throws StorageFailed */
  read(path: string): Promise<Buffer | undefined> {
    return readIfFile('reading a file', this.#pathOf(path));
  }

  /** @throws StorageFailed when it cannot be written, SourceUnreadable, IntegrityMismatch */
  async copy(path: string, expected: ExpectedFile, open: () => Promise<Readable>): Promise<void> {
    const partials = this.#writable();
    const body = await open();
    body.on('error', () => {});
    try {
      const partial = await partials.create();
      try {
        await write(partial.handle, body, expected).finally(() => partial.handle.close());
        await partials.publish(partial.path, this.#pathOf(path));
      } catch (error) {
        await rm(partial.path, { force: true }).catch(() => {});
        throw error;
      }
    } finally {
      body.destroy();
    }
  }

  /**
   * Gives a file of this machine a second name. `false` where that cannot be: on another file system, say.
   * @throws StorageFailed, SourceUnreadable, IntegrityMismatch
   */
  async link(path: string, expected: ExpectedFile, source: string): Promise<boolean> {
    const partials = this.#writable();
    const work = await partials.createDirectory();
    try {
      const partial = join(work.path, 'link');
      try {
        await link(source, partial);
      } catch (error) {
        if (NOT_LINKABLE.has((error as { code?: unknown }).code)) return false;
        throw (error as { code?: unknown }).code === 'ENOENT'
          ? new SourceUnreadable(error)
          : new StorageFailed('linking a file', error);
      }
      await compare(createReadStream(partial), expected, async () => {});
      await partials.publish(partial, this.#pathOf(path));
      return true;
    } finally {
      await work.remove();
    }
  }

  /** Writes a small file, if that is not what it says already. @throws StorageFailed */
  async write(path: string, content: string | Buffer): Promise<void> {
    const bytes = Buffer.from(content);
    if ((await this.read(path))?.equals(bytes)) return;
    await ofStorage('making a directory', mkdir(dirname(this.#pathOf(path)), { recursive: true }));
    await this.#writable().write(this.#pathOf(path), bytes);
  }

  /** Leaves nothing behind that is not for carrying. Never throws. */
  async close(): Promise<void> {
    if (this.#partials) await rmdir(join(this.#directory, paths.partial)).catch(() => {});
  }

  /** The same for a process that ends without waiting for anything. What is being written is left for the next one to sweep. */
  closeAtOnce(): void {
    try {
      if (this.#partials) rmdirSync(join(this.#directory, paths.partial));
    } catch {
      // Something is in it, or it is gone already.
    }
  }

  #writable(): PartialFiles {
    if (this.#partials) return this.#partials;
    throw new Error('nothing was to be written');
  }

  #pathOf(path: string): string {
    return join(this.#directory, path);
  }
}

function write(handle: FileHandle, body: Readable, expected: ExpectedFile): Promise<void> {
  return compare(body, expected, async (chunk) => {
    await ofStorage('writing a file', handle.writeFile(chunk));
  });
}

async function compare(
  body: Readable,
  { size, sha256 }: ExpectedFile,
  take: (chunk: Uint8Array) => Promise<void>,
): Promise<void> {
  const digest = createHash('sha256');
  let read = 0;
  const chunks = (body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  for (;;) {
    const next = await chunks.next().catch((error: unknown) => {
      throw new SourceUnreadable(error);
    });
    if (next.done) break;
    digest.update(next.value);
    read += next.value.length;
    await take(next.value);
  }
  const actual = parseSha256(digest.digest('hex'));
  if (actual === sha256 && read === size) return;
  throw new IntegrityMismatch(`its SHA-256 should be ${sha256} and is ${actual}`);
}
