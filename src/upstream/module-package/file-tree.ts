import { type FileHandle, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UpstreamInvalid } from '../../errors.ts';
import type { PackageLimits } from './package-limits.ts';
import { isLeftOut, problemOf, quoted, readTreePath } from './tree-path.ts';
import { stored } from './work-files.ts';

/** A file whose bytes rest in a file of the work directory that is named by us, never by whoever made the package. */
export interface TreeFile {
  readonly kind: 'file';
  readonly content: string;
  /** Where in it they begin: small files share one. */
  readonly offset: number;
  /** Bytes. */
  readonly size: number;
  readonly executable: boolean;
}

export interface TreeLink {
  readonly kind: 'link';
  /** As it stands in the link: relative to the directory that it is in. */
  readonly target: string;
}

export interface TreeDirectory {
  readonly kind: 'directory';
}

export type TreeEntry = TreeFile | TreeLink | TreeDirectory;

/** Files up to this size share a file with others: to make one is dear, and packages have thousands. Bytes. */
const SMALL_BYTES = 256 * 1024;
/** So many bytes of small files are held in memory until they are put away together. */
const GATHERED_BYTES = 1024 * 1024;
/** Bytes of all paths and of links' targets: each is held several times on its way. Large repositories have 5 MB. */
export const MAX_PATHS_BYTES = 16 * 1024 * 1024;
/** An archive may name a path again; one that does little else is hostile. */
const MENTIONS_PER_ENTRY = 2;
const DIRECTORY: TreeDirectory = { kind: 'directory' };

/**
 * What is in an archive or a repository, as far as it may be in a package. Only bytes of files are on disk, under names
 * of ours: no path made by others ever touches the disk, so that nothing can be written anywhere else, through a link
 * or over a file whose name differs in case only.
 *
 * Entries come one after the other. A later entry for the same path takes the place of the earlier one; parents are
 * added when they are not mentioned; `.git` is left out with all below it.
 *
 * @throws UpstreamInvalid from every `add` method for a path that cannot be in a package and for what is over a limit;
 * StorageFailed when the disk fails.
 */
export class FileTree {
  /** Where the contents of files are. */
  readonly directory: string;
  readonly limits: PackageLimits;
  /** Whom messages speak of. */
  readonly host: string;
  readonly #entries = new Map<string, TreeEntry>();
  #files = 0;
  #gathered: { readonly content: string; readonly bytes: Uint8Array[]; size: number } | undefined;
  #mentions = 0;
  #pathBytes = 0;
  #bytes = 0;

  /** @param deps.directory exists, and the caller removes it; names in it that are numbers are taken by the tree */
  constructor(deps: { directory: string; limits: PackageLimits; host: string }) {
    this.directory = deps.directory;
    this.limits = deps.limits;
    this.host = deps.host;
  }

  /** By path; every parent is among them, the root is not. */
  get entries(): ReadonlyMap<string, TreeEntry> {
    return this.#entries;
  }

  /** Whether there is anything but directories. */
  get isEmpty(): boolean {
    for (const { kind } of this.#entries.values()) if (kind !== 'directory') return false;
    return true;
  }

  /**
   * Takes in all of `content`, also of a file that is left out. A `size` that is known beforehand lets one that is too
   * large be refused before it is fetched; errors of `content` pass.
   */
  async addFile(
    path: string,
    { executable, size = 0 }: { executable: boolean; size?: number },
    content: AsyncIterable<Uint8Array>,
  ): Promise<void> {
    const place = this.#placeFor(path);
    this.#checkBytes(size);
    const written = await this.#write(place !== undefined, content);
    if (place !== undefined) this.#put(place, { kind: 'file', ...written, executable });
  }

  /** Puts away what is still in memory. Contents are to be read only after this. @throws StorageFailed */
  async flush(): Promise<void> {
    const gathered = this.#gathered;
    if (!gathered) return;
    this.#gathered = undefined;
    await stored(writeFile(join(this.directory, gathered.content), Buffer.concat(gathered.bytes), { flag: 'wx' }));
  }

  /** A symbolic link; where it may lead is judged when links are resolved. */
  addLink(path: string, target: string): void {
    const place = this.#placeFor(path);
    this.countPath(target);
    const problem = target === '' ? 'is empty' : problemOf(target);
    if (problem) throw this.refuse(`has a link ${quoted(path)} in a package whose target ${problem}`);
    if (place !== undefined) this.#put(place, { kind: 'link', target });
  }

  /** A second name for what has come before under `targetPath`, as from the root of the tree. */
  addHardLink(path: string, targetPath: string): void {
    const place = this.#placeFor(path);
    const target = readTreePath(targetPath);
    if ('problem' in target) {
      throw this.refuse(`has a hard link ${quoted(path)} in a package whose target ${target.problem}`);
    }
    const entry = this.#entries.get(target.names.join('/'));
    if (place === undefined || place === target.names.join('/')) return;
    if (entry && entry.kind !== 'directory') {
      this.#put(place, entry);
    } else {
      const up = '../'.repeat(place.split('/').length - 1);
      this.#put(place, { kind: 'link', target: `${up}${target.names.join('/')}` || '.' });
    }
  }

  addDirectory(path: string): void {
    const place = this.#placeFor(path);
    if (place !== undefined) this.#put(place, DIRECTORY);
  }

  /** The error that says of this package's host that it `detail`. */
  refuse(detail: string, options?: { hint?: string; cause?: unknown }): UpstreamInvalid {
    return new UpstreamInvalid(this.host, detail, options);
  }

  /** @throws UpstreamInvalid when all paths together are longer than any package's are */
  countPath(path: string): void {
    this.#pathBytes += path.length;
    if (this.#pathBytes > MAX_PATHS_BYTES)
      throw this.refuse(`has a package with more than ${MAX_PATHS_BYTES} bytes of paths`);
  }

  /** The normalised path; `undefined` for what is left out: `.git`, and the root, which is there anyway. */
  #placeFor(path: string): string | undefined {
    this.#mentions++;
    if (this.#mentions > this.limits.files * MENTIONS_PER_ENTRY) throw this.tooMany();
    this.countPath(path);
    const read = readTreePath(path);
    if ('problem' in read) throw this.refuse(`has an entry ${quoted(path)} in a package that ${read.problem}`);
    if (read.names.length === 0 || isLeftOut(read.names)) return undefined;
    return read.names.join('/');
  }

  #put(path: string, entry: TreeEntry): void {
    this.#addParents(path);
    const current = this.#entries.get(path);
    if (current && (current.kind === 'directory') !== (entry.kind === 'directory')) throw this.#clash(path);
    this.#entries.set(path, entry);
    this.#checkCount();
  }

  #addParents(path: string): void {
    const missing: string[] = [];
    for (let slash = path.lastIndexOf('/'); slash > 0; slash = path.lastIndexOf('/', slash - 1)) {
      const parent = path.slice(0, slash);
      const current = this.#entries.get(parent);
      if (current && current.kind !== 'directory') throw this.#clash(parent);
      // What is there has its own parents there.
      if (current) break;
      missing.push(parent);
    }
    for (const parent of missing) this.#entries.set(parent, DIRECTORY);
    this.#checkCount();
  }

  /** What is not kept is only counted. */
  async #write(
    isKept: boolean,
    content: AsyncIterable<Uint8Array>,
  ): Promise<{ content: string; offset: number; size: number }> {
    const small: Uint8Array[] = [];
    let large: { readonly content: string; readonly handle: FileHandle } | undefined;
    let size = 0;
    try {
      for await (const chunk of content) {
        this.#checkBytes(chunk.length);
        this.#bytes += chunk.length;
        size += chunk.length;
        if (!isKept) continue;
        if (large === undefined && size > SMALL_BYTES) {
          const name = this.#newContent();
          large = { content: name, handle: await stored(open(join(this.directory, name), 'wx')) };
          for (const earlier of small.splice(0)) await stored(large.handle.writeFile(earlier));
        }
        if (large) await stored(large.handle.writeFile(chunk));
        // Whoever sent the chunk may use its memory again.
        else small.push(Uint8Array.from(chunk));
      }
      if (large) return { content: large.content, offset: 0, size };
      return { ...(await this.#gather(small, isKept ? size : 0)), size };
    } finally {
      if (large) await stored(large.handle.close());
    }
  }

  async #gather(bytes: readonly Uint8Array[], size: number): Promise<{ content: string; offset: number }> {
    if (this.#gathered && this.#gathered.size + size > GATHERED_BYTES) await this.flush();
    this.#gathered ??= { content: this.#newContent(), bytes: [], size: 0 };
    const { content, size: offset } = this.#gathered;
    for (const each of bytes) this.#gathered.bytes.push(each);
    this.#gathered.size += size;
    return { content, offset };
  }

  #newContent(): string {
    return `${this.#files++}`;
  }

  #checkCount(): void {
    if (this.#entries.size > this.limits.files) throw this.tooMany();
  }

  #checkBytes(more: number): void {
    if (this.#bytes + more > this.limits.unpacked) throw this.tooLarge();
  }

  /** Also for whoever counts on: links may make a package larger than what was sent. */
  tooLarge(): UpstreamInvalid {
    return this.refuse(`has a package that unpacks to more than ${this.limits.unpacked} bytes`, {
      hint: 'If it is meant to be that large, raise modules.limits.unpacked.',
    });
  }

  /** Likewise. */
  tooMany(): UpstreamInvalid {
    return this.refuse(`has a package of more than ${this.limits.files} files, links and directories`, {
      hint: 'If it is meant to have that many, raise modules.limits.files.',
    });
  }

  #clash(path: string): UpstreamInvalid {
    return this.refuse(`has a package in which ${quoted(path)} is a directory and something else at once`);
  }
}
