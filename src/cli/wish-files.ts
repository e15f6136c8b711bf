import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { type ConfigurationFile, LOCK_FILE_NAME } from '../configuration/configuration-files.ts';
import { KINDS_READ, kindOf, nameByContent } from '../configuration/file-kinds.ts';
import { CommandFailed } from './command-failed.ts';
import { expandPattern, isPattern } from './globs.ts';
import { unreadable } from './unreadable.ts';

/** Bytes of the request with all files, those of standard input too: what a server takes at a time. */
const MAX_BYTES = 16 * 1024 * 1024;
/** Bytes of a request besides its files: platforms above all. */
const ENVELOPE_BYTES = 16 * 1024;
const MAX_FILES = 10_000;
/** Directories within each other. */
const MAX_DEPTH = 100;

/** What `-` stands for. */
const STANDARD_INPUT = '-';

export interface WishFileOptions {
  /** What `-` reads. */
  readonly stdin?: NodeJS.ReadableStream;
  /** What the file that `-` reads would be called; guessed from what is in it unless given. */
  readonly stdinName?: string | undefined;
  /** Relative paths begin here, and paths are told relative to it. */
  readonly cwd?: string;
}

/** What the arguments of a command mean. */
export interface WishFiles {
  /** With paths relative to the working directory, in order, each once. */
  readonly files: readonly ConfigurationFile[];
}

/**
 * The files that arguments name: files, directories with all configuration and lock files in and below them, patterns,
 * and `-` for standard input. Hidden files and directories are left out of directories, `.terraform.lock.hcl` excepted;
 * warm lists have to be named.
 * @throws CommandFailed when something does not exist, cannot be read, holds nothing that is read here, or is too much
 */
export async function collectWish(args: readonly string[], options: WishFileOptions = {}): Promise<WishFiles> {
  const collecting = new Collecting(options);
  for (const argument of args) await collecting.argument(argument);
  return { files: collecting.files };
}

class Collecting {
  readonly #options: WishFileOptions;
  readonly #cwd: string;
  readonly #files = new Map<string, ConfigurationFile>();
  #bytes = 0;

  constructor(options: WishFileOptions) {
    this.#options = options;
    this.#cwd = options.cwd ?? process.cwd();
  }

  get files(): readonly ConfigurationFile[] {
    return [...this.#files.values()];
  }

  async argument(argument: string): Promise<void> {
    if (argument === STANDARD_INPUT) {
      await this.#standardInput();
      return;
    }
    const about = await this.#about(argument);
    if (about) {
      await this.#named(argument, about);
      return;
    }
    if (!isPattern(argument)) throw new CommandFailed(`${argument} does not exist`);
    const matching = await expandPattern(argument, this.#cwd);
    let isAny = false;
    for (const found of matching) {
      const what = await this.#about(found);
      // Whoever writes *.json has no complaint about a README.
      if (!what || (what.isFile() && kindOf(found) === 'other')) continue;
      isAny = true;
      await this.#named(found, what);
    }
    if (!isAny) throw new CommandFailed(`nothing that is read here matches ${argument}`, { hint: readHere() });
  }

  async #standardInput(): Promise<void> {
    const text = await textWithin(this.#options.stdin ?? process.stdin, MAX_BYTES);
    if (text.trim() === '') throw new CommandFailed('there is nothing on standard input');
    this.#add(this.#options.stdinName ?? nameByContent(text), text);
  }

  async #named(file: string, about: { isDirectory(): boolean }): Promise<void> {
    if (about.isDirectory()) {
      if ((await this.#directory(file, 0)) > 0) return;
      throw new CommandFailed(`there is neither configuration nor a lock file in ${file}`, { hint: readHere() });
    }
    if (kindOf(file) === 'other') {
      throw new CommandFailed(`${file} is of no kind that is read here`, { hint: readHere() });
    }
    await this.#read(file);
  }

  /** How many files of it count. */
  async #directory(directory: string, depth: number): Promise<number> {
    if (depth > MAX_DEPTH) throw new CommandFailed(`directories lie too deep within each other: ${directory}`);
    const entries = await this.#try(directory, () => readdir(this.#resolve(directory), { withFileTypes: true }));
    let counting = 0;
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const { name } = entry;
      if (name.startsWith('.') && name !== LOCK_FILE_NAME) continue;
      const found = path.join(directory, name);
      if (entry.isDirectory()) {
        counting += await this.#directory(found, depth + 1);
        // A link to a directory is not followed: it may lead round in circles.
      } else if (/^(configuration|lock)$/.test(kindOf(name)) && (await this.#about(found))?.isFile()) {
        await this.#read(found);
        counting += 1;
      }
    }
    return counting;
  }

  async #read(file: string): Promise<void> {
    // Nothing longer is read at all.
    if (((await this.#about(file))?.size ?? 0) > MAX_BYTES) throw tooLong();
    this.#add(
      path.relative(this.#cwd, this.#resolve(file)),
      await this.#try(file, () => readFile(this.#resolve(file), 'utf8')),
    );
  }

  #add(file: string, text: string): void {
    const name = file.split(path.sep).join('/');
    const before = this.#files.get(name);
    const added = { path: name, text };
    this.#bytes += sizeOf(added) - (before ? sizeOf(before) : 0);
    this.#files.set(name, added);
    if (this.#bytes > MAX_BYTES - ENVELOPE_BYTES) throw tooLong();
    if (this.#files.size > MAX_FILES) throw tooMuch(`more than ${MAX_FILES} files`);
  }

  /** `undefined` for what does not exist; links are followed. */
  async #about(file: string) {
    try {
      return await stat(this.#resolve(file));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
      throw unreadable(file, error);
    }
  }

  async #try<T>(file: string, read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      throw unreadable(file, error);
    }
  }

  #resolve(file: string): string {
    return path.resolve(this.#cwd, file);
  }
}

function readHere(): string {
  return `read are ${KINDS_READ}`;
}

/** What it takes in a request, the comma after it included. */
function sizeOf(file: ConfigurationFile): number {
  return Buffer.byteLength(JSON.stringify(file)) + 1;
}

/** A text of so many bytes at most. @throws CommandFailed when it is longer; it is not read any further then */
async function textWithin(stream: NodeJS.ReadableStream, limit: number): Promise<string> {
  // As files are read.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let text = '';
  let size = 0;
  for await (const chunk of stream) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
    size += bytes.length;
    if (size > limit) throw tooLong();
    text += decoder.decode(bytes, { stream: true });
  }
  return text + decoder.decode();
}

function tooLong(): CommandFailed {
  return tooMuch('more than 16 MiB');
}

function tooMuch(what: string): CommandFailed {
  return new CommandFailed(`these are ${what}`, { hint: 'name fewer directories at a time' });
}
