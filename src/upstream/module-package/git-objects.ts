import { mkdir, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type GitSettings, gitEnvironment } from './git-environment.ts';
import { GitProcess, runGit } from './git-process.ts';
import { stored } from './work-files.ts';

/** The size of what is being fetched is looked at this often. */
const WATCH_MS = 100;
const MAX_ANSWER_BYTES = 64 * 1024;
/** Where fetched things are kept from being mixed up with names of the other side. */
const FETCHED_REF = 'refs/larder/fetched';

/** More was sent than may be. */
export class TooMuchFetched extends Error {
  override readonly name = 'TooMuchFetched';
}

export interface GitRemoteAccess {
  readonly url: string;
  readonly settings: GitSettings;
  readonly variables: Readonly<Record<string, string>>;
}

/**
 * Objects of one repository, in a directory of ours. Nothing is ever checked out: no hook, no filter and no link of a
 * repository gets anywhere near this machine's files.
 */
export class GitObjects {
  readonly #directory: string;
  readonly #searchPath: string | undefined;
  readonly #signal: AbortSignal;

  private constructor(directory: string, searchPath: string | undefined, signal: AbortSignal) {
    this.#directory = directory;
    this.#searchPath = searchPath;
    this.#signal = signal;
  }

  /** An empty store in `parent`. Everything done with it ends with the signal. @throws GitExit, GitMissing */
  static async create(options: {
    parent: string;
    searchPath: string | undefined;
    objectFormat: 'sha1' | 'sha256';
    signal: AbortSignal;
  }): Promise<GitObjects> {
    const directory = path.join(options.parent, 'repository');
    await stored(mkdir(directory));
    const objects = new GitObjects(directory, options.searchPath, options.signal);
    await objects.run('init', '--quiet', '--bare', '--template=', `--object-format=${options.objectFormat}`);
    return objects;
  }

  /**
   * Fetches one commit, by full name or by its id, without its history.
   * @returns the commit
   * @throws TooMuchFetched beyond `maxBytes`; GitExit, GitMissing
   */
  async fetchOne(remote: GitRemoteAccess, nameOrCommit: string, maxBytes: number): Promise<string> {
    await this.#fetch(remote, ['--depth=1'], [`+${nameOrCommit}:${FETCHED_REF}`], maxBytes);
    return this.commitOf(FETCHED_REF);
  }

  /** Fetches all branches and tags with their history. @throws TooMuchFetched beyond `maxBytes`; GitExit, GitMissing */
  async fetchAll(remote: GitRemoteAccess, maxBytes: number): Promise<void> {
    await this.#fetch(remote, [], ['+refs/heads/*:refs/heads/*', '+refs/tags/*:refs/tags/*'], maxBytes);
  }

  /** @param revision ours, or a (possibly abbreviated) commit id. @throws GitExit when there is none, or several */
  async commitOf(revision: string): Promise<string> {
    const answer = await this.run('rev-parse', '--quiet', '--verify', '--end-of-options', `${revision}^{commit}`);
    return answer.toString('latin1').trim();
  }

  /** Bytes of what was fetched so far. */
  async size(): Promise<number> {
    const packs = path.join(this.#directory, 'objects', 'pack');
    let total = 0;
    for (const file of await readdir(packs)) {
      // Unfinished ones are renamed at any time.
      total += await stat(path.join(packs, file)).then(
        (found) => found.size,
        () => 0,
      );
    }
    return total;
  }

  /** Runs git on these objects, without any network. @throws GitExit, GitMissing */
  run(...args: readonly string[]): Promise<Buffer> {
    return runGit(this.#invocation(args), MAX_ANSWER_BYTES);
  }

  /** Starts git on these objects, without any network. */
  start(...args: readonly string[]): GitProcess {
    return new GitProcess(this.#invocation(args));
  }

  async #fetch(
    remote: GitRemoteAccess,
    options: readonly string[],
    refspecs: readonly string[],
    maxBytes: number,
  ): Promise<void> {
    const ended = new AbortController();
    const tooMuch = new AbortController();
    const signal = AbortSignal.any([this.#signal, tooMuch.signal]);
    const watching = this.#watch(maxBytes, ended.signal, tooMuch);
    const fixed = ['--quiet', '--no-tags', '--no-recurse-submodules', '--no-auto-maintenance', '--no-write-fetch-head'];
    try {
      const args = ['fetch', ...fixed, ...options, '--end-of-options', remote.url, ...refspecs];
      await runGit({ ...this.#invocation(args, remote), signal }, MAX_ANSWER_BYTES);
    } finally {
      ended.abort();
      await watching;
    }
    if ((await this.size()) > maxBytes) throw new TooMuchFetched();
  }

  async #watch(maxBytes: number, ended: AbortSignal, tooMuch: AbortController): Promise<void> {
    while (!ended.aborted) {
      if ((await this.size().catch(() => 0)) > maxBytes) return tooMuch.abort(new TooMuchFetched());
      await wait(WATCH_MS, undefined, { signal: ended }).catch(() => {});
    }
  }

  #invocation(args: readonly string[], remote?: GitRemoteAccess) {
    return {
      args,
      cwd: this.#directory,
      env: gitEnvironment({
        directory: this.#directory,
        searchPath: this.#searchPath,
        settings: remote?.settings ?? [],
        variables: { ...remote?.variables, GIT_DIR: this.#directory },
      }),
      signal: this.#signal,
    };
  }
}
